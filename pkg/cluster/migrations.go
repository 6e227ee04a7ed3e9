package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const migrationPageSize = "500"

// storageVersionMigrations has the fields that v1, v1beta1 and v1alpha1 of
// StorageVersionMigration share. Reading them by hand spares a dependency on
// the version that happens to be in this release of the libraries (1.37 no
// longer has v1alpha1; servers up to 1.34 have nothing else).
type storageVersionMigrations struct {
	metav1.ListMeta `json:"metadata"`
	Items           []storageVersionMigration `json:"items"`
}

type storageVersionMigration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Resource struct {
			Group    string `json:"group"`
			Resource string `json:"resource"`
		} `json:"resource"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// migration returns what matters of it.
func (m storageVersionMigration) migration() Migration {
	out := Migration{
		Name: m.Name, UID: m.UID, Created: m.CreationTimestamp.Time, Labels: m.Labels, Annotations: m.Annotations,
		Active: meta.IsStatusConditionTrue(m.Status.Conditions, "Running"),
	}
	out.Phase, out.Message = phase(m.Status.Conditions)
	return out
}

// Migrations implements [Interface].
func (c *Cluster) Migrations(ctx context.Context, resource schema.GroupResource) ([]Migration, error) {
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} { // Fact 11.
		migrations, err := c.migrationsAt(ctx, version, resource)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing StorageVersionMigrations: %w", plain(err))
		}
		return migrations, nil
	}
	return nil, nil
}

func (c *Cluster) migrationsAt(ctx context.Context, version string, resource schema.GroupResource) ([]Migration, error) {
	var migrations []Migration
	params := map[string]string{"limit": migrationPageSize}
	for {
		body, _, err := getJSON(ctx, c.raw, runtime.ContentTypeJSON, params, "apis", "storagemigration.k8s.io", version, "storageversionmigrations")
		if token, expired := InconsistentContinue(err); expired {
			params["continue"] = token
			continue
		}
		if err != nil {
			return nil, err
		}
		var page storageVersionMigrations
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("decoding the list: %w", err)
		}
		for _, item := range page.Items {
			if item.Spec.Resource.Group != resource.Group || item.Spec.Resource.Resource != resource.Resource {
				continue
			}
			migrations = append(migrations, item.migration())
		}
		if page.Continue == "" {
			break
		}
		params["continue"] = page.Continue
	}
	slices.SortFunc(migrations, func(a, b Migration) int {
		if order := a.Created.Compare(b.Created); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return migrations, nil
}

// phase reads the conditions. One that failed may go on saying that it runs.
func phase(conditions []metav1.Condition) (MigrationPhase, string) {
	phase, message := MigrationPending, ""
	for _, condition := range conditions {
		if condition.Status != metav1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case "Failed":
			return MigrationFailed, condition.Message
		case "Succeeded":
			phase, message = MigrationSucceeded, condition.Message
		case "Running":
			if phase == MigrationPending {
				phase, message = MigrationRunning, condition.Message
			}
		}
	}
	return phase, message
}

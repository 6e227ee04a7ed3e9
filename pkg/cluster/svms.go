package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const svmResource = "storageversionmigrations"

type svms struct{ raw rest.Interface }

// SVMs implements [Interface].
func (c *Cluster) SVMs() SVMs { return svms{raw: c.raw} }

// OursFor tells whether this tool made a StorageVersionMigration for a CRD and
// the version that is its storage version.
func OursFor(m Migration, uid, storageVersion string) bool {
	return Ours(m, uid) && m.Annotations[v1alpha1.AnnotationStorageVersion] == storageVersion
}

// Ours tells whether this tool made a StorageVersionMigration for a CRD, whatever its
// storage version was then.
func Ours(m Migration, uid string) bool {
	return m.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy && m.Annotations[v1alpha1.AnnotationCRDUID] == uid
}

func (s svms) Create(ctx context.Context, template v1alpha1.SVMTemplate, fieldManager string) (Migration, error) {
	what := fmt.Sprintf("creating a StorageVersionMigration of %s.%s", template.Resource, template.Group)
	object := storageVersionMigration{
		TypeMeta: metav1.TypeMeta{APIVersion: template.APIVersion, Kind: "StorageVersionMigration"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: template.GenerateName, Labels: template.Labels, Annotations: template.Annotations,
		},
	}
	object.Spec.Resource.Group, object.Spec.Resource.Resource = template.Group, template.Resource
	body, err := json.Marshal(object)
	if err != nil {
		return Migration{}, fmt.Errorf("%s: %w", what, err)
	}
	path, err := svmPath(template.APIVersion)
	if err != nil {
		return Migration{}, fmt.Errorf("%s: %w", what, err)
	}
	return s.answer(ctx, s.raw.Post().AbsPath(path...).Param("fieldManager", fieldManager).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body), what)
}

func (s svms) Get(ctx context.Context, apiVersion, name string) (Migration, error) {
	what := "reading StorageVersionMigration " + name
	path, err := svmPath(apiVersion, name)
	if err != nil {
		return Migration{}, fmt.Errorf("%s: %w", what, err)
	}
	return s.answer(ctx, s.raw.Get().AbsPath(path...), what)
}

func (s svms) Delete(ctx context.Context, apiVersion, name string, uid types.UID) error {
	what := "deleting StorageVersionMigration " + name
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: metav1.NewUIDPreconditions(string(uid)),
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	path, err := svmPath(apiVersion, name)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	result := s.raw.Delete().AbsPath(path...).SetHeader("Content-Type", runtime.ContentTypeJSON).
		SetHeader("Accept", runtime.ContentTypeJSON).MaxRetries(0).Body(body).Do(ctx)
	if err := result.Error(); err != nil {
		return fmt.Errorf("%s: %w", what, plain(err))
	}
	return nil
}

// answer sends a request and reads the StorageVersionMigration in its answer.
func (s svms) answer(ctx context.Context, request *rest.Request, what string) (Migration, error) {
	result := request.SetHeader("Accept", runtime.ContentTypeJSON).MaxRetries(0).Do(ctx)
	// Error decodes the Status in the answer; Raw would only say "unknown".
	if err := result.Error(); err != nil {
		return Migration{}, fmt.Errorf("%s: %w", what, plain(err))
	}
	body, err := result.Raw()
	if err != nil {
		return Migration{}, fmt.Errorf("%s: %w", what, plain(err))
	}
	var object storageVersionMigration
	if err := json.Unmarshal(body, &object); err != nil {
		return Migration{}, fmt.Errorf("%s: decoding the answer: %w", what, err)
	}
	return object.migration(), nil
}

// svmPath returns the path of one StorageVersionMigration, or of all.
func svmPath(apiVersion string, name ...string) ([]string, error) {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err //nolint:wrapcheck // It says what it read.
	}
	return append([]string{"apis", version.Group, version.Version, svmResource}, name...), nil
}

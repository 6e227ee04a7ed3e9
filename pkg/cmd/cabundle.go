package cmd

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// caBundleNotes says who writes the certificate of a conversion webhook, and
// that it is at risk when somebody else writes what is around it: a GitOps tool
// without the certificate in its manifest takes it away, an injector puts it
// back, and in between conversion fails (case 43).
func caBundleNotes(c crd.CRD) []string {
	conversion := []any{"spec", "conversion"}
	bundle := append(slices.Clone(conversion), "webhook", "clientConfig", "caBundle")
	injectors := owners(c, bundle...)
	if len(injectors) == 0 {
		return nil
	}
	note := fmt.Sprintf("spec.conversion.webhook.clientConfig.caBundle is written by %s", strings.Join(injectors, " and "))
	var others []string
	for _, owner := range owners(c, conversion...) {
		if !slices.Contains(injectors, owner) {
			others = append(others, owner)
		}
	}
	switch {
	case len(injectors) > 1:
		note += ": they overwrite each other, and conversion fails in between; leave it to one"
	case len(others) > 0:
		note += fmt.Sprintf(", and spec.conversion by %s: let the latter ignore caBundle, or it takes it away", strings.Join(others, " and "))
	}
	return []string{note}
}

// owners returns the managedFields managers that own a field or something in
// it, with the time of their last write.
func owners(c crd.CRD, path ...any) []string {
	field, err := fieldpath.MakePath(path...)
	if err != nil {
		return nil
	}
	var found []string
	for _, entry := range c.ManagedFields {
		if owns(entry, field) {
			owner := fmt.Sprintf("%q", entry.Manager)
			if entry.Time != nil {
				owner += " (" + entry.Time.UTC().Format(time.RFC3339) + ")"
			}
			found = append(found, owner)
		}
	}
	return found
}

func owns(entry metav1.ManagedFieldsEntry, field fieldpath.Path) bool {
	var set fieldpath.Set
	if entry.FieldsV1 == nil || set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
		return false
	}
	found := false
	set.Iterate(func(path fieldpath.Path) {
		found = found || len(path) >= len(field) && path[:len(field)].Equals(field)
	})
	return found
}

package preflight_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/preflight"
)

// TestManyVersions compares CRDs of 10,000 versions, of which half go and the
// other half change: what is quadratic in their number would not end. The rules of
// validate have such a test of their own.
func TestManyVersions(t *testing.T) {
	t.Parallel()
	const versions = 10000
	before := many(0, versions, "{type: object, properties: {spec: {type: string, maxLength: 9}}}")
	after := many(versions/2, versions, "{type: object, properties: {spec: {type: string, maxLength: 8}}}")
	stored := make([]string, 0, versions)
	for i := range versions {
		stored = append(stored, fmt.Sprintf("v%d", i+1))
	}
	item := preflight.Compare(preflight.Input{
		Old: live(t, []byte(before+"status: {storedVersions: ["+strings.Join(stored, ", ")+"]}\n"), lifecycle.Observations{}),
		New: manifest(t, []byte(after), newFile), PreflightRules: preflight.Rules(),
	})
	if item.Verdict != v1alpha1.VerdictOKAfter || len(item.Steps) != versions/2 || len(item.Findings) < versions/2 {
		t.Errorf("%s with %d steps and %d findings", item.Verdict, len(item.Steps), len(item.Findings))
	}
}

// many returns a CRD with versions from v(first+1) to vN, the last of which is the
// storage version.
func many(first, versions int, schema string) string {
	var text strings.Builder
	text.WriteString("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: crontabs.example.com}\n" +
		"spec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: CronTab, plural: crontabs}\n  versions:\n")
	for i := first; i < versions; i++ {
		fmt.Fprintf(&text, "  - {name: v%d, served: true, storage: %t, schema: {openAPIV3Schema: %s}}\n", i+1, i == versions-1, schema)
	}
	return text.String()
}

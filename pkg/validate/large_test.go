package validate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// TestManyVersions runs all rules on 10,000 versions, each of which is deprecated
// or has a name of an odd kind: what is quadratic in their number would not end.
func TestManyVersions(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]string{"manifest": "", "live": "status: {storedVersions: [v1, gone]}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const versions = 10000
			var text strings.Builder
			text.WriteString("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: crontabs.example.com}\n" +
				status + "spec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: CronTab, plural: crontabs}\n  versions:\n")
			for i := range versions {
				pattern := []string{"v%d", "v%dalpha1", "v0%d", "v%drc1", "odd%d"}[i%5]
				fmt.Fprintf(&text, "  - {name: "+pattern+", served: true, storage: %t, deprecated: %t, schema: {openAPIV3Schema: {type: object}}}\n",
					i/2+1, i == 0, i%3 > 0)
			}
			found := validate.Run(validate.Rules(), decoded(t, []byte(text.String()), lifecycle.Observations{}, time.Time{}))
			if len(found) < versions/5 {
				t.Errorf("only %d findings", len(found))
			}
		})
	}
}

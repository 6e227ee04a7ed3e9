//go:build controlplane

package managedfields_test

import (
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestOnKubeAPIServer shows on kube-apiserver what the other tests show in
// process.
func TestOnKubeAPIServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		versions []string
		run      func(*server)
	}{
		"apply after removal":              {versions: []string{"v1beta1", "v1"}, run: applyAfterRemoval},
		"field that only the target knows": {versions: []string{"v1alpha1", "v1beta1", "v1"}, run: fieldThatOnlyTheTargetKnows},
	} {
		t.Run(name, func(t *testing.T) {
			bed, err := testbed.StartFull(t.Context(), testbed.FullOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(bed.Stop)
			if err := testbed.CreateNamespaces(t.Context(), bed.Config(), "default"); err != nil {
				t.Fatal(err)
			}
			test.run(create(t, bed, test.versions...))
		})
	}
}

package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestCRDIsDeletedMeanwhile has somebody delete the CRD while its objects are
// rewritten: the run says so, and not that objects failed, which running again
// would rewrite.
func TestCRDIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, "deleted.example.com", 40)
	behind, proxy := b.behindProxy(t)
	var once sync.Once
	proxy.StepIn(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if patchesObject(r) && !r.URL.Query().Has("dryRun") {
			once.Do(func() {
				if err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		next.ServeHTTP(w, r)
	})
	got := behind.must(t, 3, "promote", "v1", name, "--yes", "--until", "migrate", "--qps", "8")
	if out := got.stdout + got.stderr; !strings.Contains(out, "the CRD "+name+" is gone") && !strings.Contains(out, "is being deleted") {
		t.Error(got)
	}
}

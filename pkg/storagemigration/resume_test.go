package storagemigration_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// Whatever the mark says is done is done, as etcd shows; a later pass sends
// nothing for it, and a verification does all the same.
func TestPassResumesAtTheWatermark(t *testing.T) {
	t.Parallel()
	const n, broken = 160, 90
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flipAndWait(t, bed)
	var patches, early atomic.Int64
	var refuse atomic.Bool
	refuse.Store(true)
	mark := types.NamespacedName{}
	before := func(path string) bool {
		parts := strings.Split(path, "/")
		return parts[5]+"/"+parts[7] <= mark.String()
	}
	p := startProxy(t, func(r *http.Request) fault {
		if r.Method != http.MethodPatch {
			return pass
		}
		patches.Add(1)
		if mark.Name != "" && before(r.URL.Path) {
			early.Add(1)
		}
		if refuse.Load() && strings.HasSuffix(r.URL.Path, name(broken)) {
			return unavailable
		}
		return pass
	}, bed)
	objects := cronTabs(t, p.Config(), "v1")
	var told []types.NamespacedName
	options := storagemigration.PassOptions{
		PageSize: 50, RetryFor: time.Second,
		Watermark: func(through types.NamespacedName) { told = append(told, through) },
	}
	result, err := storagemigration.Pass(t.Context(), objects, options)
	if err != nil || result.Counts.Failed != 1 || len(told) == 0 {
		t.Fatalf("%+v, %v, %d marks", result, err, len(told))
	}
	through := told[len(told)-1]
	// Objects of even numbers are in a, odd ones in b; a comes first.
	if want := (types.NamespacedName{Namespace: "a", Name: name(broken - 2)}); through != want {
		t.Errorf("the mark is %s, want %s, the object before the one that failed", through, want)
	}
	for key, object := range stored(t, bed) {
		if key <= through.String() && object.Version() != "v1" {
			t.Errorf("%s is persisted at %s, the mark is %s", key, object.Version(), through)
		}
	}

	refuse.Store(false)
	mark, told = through, nil
	patches.Store(0)
	options.SkipThrough = through
	result, err = storagemigration.Pass(t.Context(), objects, options)
	if err != nil || !result.Complete || result.Counts.Listed != n || result.Counts.Failed != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	if early.Load() > 0 || patches.Load() != n-broken/2 {
		t.Errorf("%d patches, %d of them for objects that were done", patches.Load(), early.Load())
	}
	if want := (types.NamespacedName{Namespace: "b", Name: name(n - 1)}); len(told) == 0 || told[len(told)-1] != want {
		t.Errorf("the mark is %v in the end, want %s", told, want)
	}
	wantStored(t, bed, map[string]int{"v1": n})

	// A mark that says that everything is done, though nothing is: it costs a pass,
	// and never the truth.
	flip(t, bed, "v1beta1")
	waitForHash(t, bed, "v1beta1")
	patches.Store(0)
	options.SkipThrough = types.NamespacedName{Namespace: "z", Name: "z"}
	verified, err := storagemigration.Verify(t.Context(), objects, storagemigration.VerifyOptions{PassOptions: options})
	if err != nil || !verified.Evidence.Complete || verified.Rewritten != n || patches.Load() != 2*n {
		t.Errorf("%+v, %v, %d patches", verified, err, patches.Load())
	}
	wantStored(t, bed, map[string]int{"v1beta1": n})
}

func waitForHash(t *testing.T, bed testbed.Bed, version string) {
	t.Helper()
	options := barrierOptions()
	options.ExpectedHash = storagemigration.StorageVersionHash(testbed.CronTabGroup, version, testbed.CronTabKind)
	options.Canaries = -1
	if err := storagemigration.Barrier(t.Context(), newCluster(t, bed.Config()), options); err != nil {
		t.Fatal(err)
	}
}

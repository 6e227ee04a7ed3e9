package storagemigration_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func TestPassRewritesEverythingOnce(t *testing.T) {
	t.Parallel()
	const n = 1203 // Three pages.
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	before := stored(t, bed)
	flipAndWait(t, bed)

	var progress []v1alpha1.Progress
	options := storagemigration.PassOptions{Progress: func(p v1alpha1.Progress) { progress = append(progress, p) }}
	objects := cronTabs(t, bed.Config(), "v1")
	begin := time.Now()
	result, err := storagemigration.Pass(t.Context(), objects, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v in %s", result.Counts, time.Since(begin))
	// The canaries of the barrier were rewritten by it.
	canaries := result.Counts.Current
	want := v1alpha1.ObjectCounts{Listed: n, Rewritten: n - canaries, Current: canaries}
	if diff := cmp.Diff(want, result.Counts); diff != "" || canaries > 3 {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if !result.Complete || result.Clean() || len(result.Rewritten) != 5 {
		t.Errorf("result: %+v", result)
	}
	wantStored(t, bed, map[string]int{"v1": n})
	after := stored(t, bed)
	if diff := cmp.Diff(specs(t, before), specs(t, after)); diff != "" {
		t.Errorf("specs (-before +after):\n%s", diff)
	}
	if len(progress) == 0 {
		t.Fatal("no progress")
	}
	last := progress[len(progress)-1]
	if last.Limit < 1 || last.Limit > 128 {
		t.Errorf("the last window is %d", last.Limit)
	}
	last.Limit, last.Rate = 0, 0
	if diff := cmp.Diff(v1alpha1.Progress{Counts: want, Total: n, Pass: 1}, last); diff != "" {
		t.Errorf("last progress (-want +got):\n%s", diff)
	}
	if most := int(time.Since(begin)/(100*time.Millisecond)) + 2; len(progress) > most {
		t.Errorf("%d calls of the progress, want at most %d", len(progress), most)
	}

	// The second pass writes nothing at all: not one revision of etcd is used.
	revision := etcdRevision(t, bed)
	result, err = storagemigration.Pass(t.Context(), objects, storagemigration.PassOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v1alpha1.ObjectCounts{Listed: n, Current: n}, result.Counts); diff != "" {
		t.Errorf("counts of the second pass (-want +got):\n%s", diff)
	}
	if !result.Clean() || !result.Complete {
		t.Errorf("the second pass proves nothing: %+v", result)
	}
	if diff := cmp.Diff(revisions(after), revisions(stored(t, bed))); diff != "" {
		t.Errorf("mod revisions (-first +second pass):\n%s", diff)
	}
	if got := etcdRevision(t, bed); got != revision {
		t.Errorf("etcd is at revision %d after the second pass, %d before it", got, revision)
	}
}

func etcdRevision(t testing.TB, bed testbed.Bed) int64 {
	t.Helper()
	response, err := bed.Etcd().Get(t.Context(), "/none")
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Revision
}

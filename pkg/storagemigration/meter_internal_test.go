package storagemigration

import (
	"fmt"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func TestMeter(t *testing.T) {
	t.Parallel()
	var m meter
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var rate float64
	var left int64
	at := func(seconds int, perSecond int64) {
		for range seconds * 10 {
			now = now.Add(100 * time.Millisecond)
			rate, left = m.read(now, m.done+perSecond/10, 10_000)
		}
	}
	if rate, left = m.read(now, 0, 10_000); rate != 0 || left != 0 {
		t.Errorf("at the start: %f, %d", rate, left)
	}
	at(1, 1000)
	if rate < 990 || rate > 1010 || left < 8 || left > 10 {
		t.Errorf("after a second at 1000/s: %f, %d", rate, left)
	}
	at(1, 100) // It drops, not at once.
	if rate < 300 || rate > 950 {
		t.Errorf("a second after it fell to 100/s: %f", rate)
	}
	at(30, 100)
	if rate < 95 || rate > 105 {
		t.Errorf("long after it fell to 100/s: %f", rate)
	}
}

func TestFailureGroups(t *testing.T) {
	t.Parallel()
	var groups failureGroups
	for i := 999; i >= 0; i-- {
		groups.add(v1alpha1.ObjectFailure{
			Namespace: "a", Name: fmt.Sprintf("o%03d", i), Outcome: "refused", Reason: "AdmissionDenied", By: v1alpha1.PartyPolicy, ByName: "p", Message: fmt.Sprint(i),
		})
		// A thousand names: what a message says must not fill the memory.
		groups.add(v1alpha1.ObjectFailure{Name: "x", Outcome: "refused", Reason: "AdmissionDenied", By: v1alpha1.PartyQuota, ByName: fmt.Sprint(i)})
	}
	list := groups.list()
	if len(list) != maxGroups+1 {
		t.Fatalf("%d groups", len(list))
	}
	if list[0].Count != 1000 || fmt.Sprint(list[0].Examples) != "[a/o000 a/o001 a/o002]" || list[0].Message != "0" || list[1].ByName != "" || list[1].Count != 901 {
		t.Errorf("%+v", list[:2])
	}
}

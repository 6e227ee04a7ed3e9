package storagemigration_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// Throttling, overload and lost connections, before and after the server did its
// work, must leave no object behind and count none twice.
func TestPassSurvivesABadNetwork(t *testing.T) {
	t.Parallel()
	const n = 400
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flipAndWait(t, bed)

	var requests, lost atomic.Int64
	p := startProxy(t, nil, bed)
	p.setDecide(func(r *http.Request) fault {
		n := requests.Add(1)
		switch n % 40 {
		case 3:
			if n%160 == 3 { // Each holds all requests back for a second.
				return throttle
			}
		case 11:
			return unavailable
		case 19:
			return cutBefore
		case 27:
			if r.Method == http.MethodPatch {
				lost.Add(1)
				return cutAfter // Stored, but nobody is told.
			}
		case 35:
			go p.CloseConnections()
		}
		return pass
	})
	objects := cronTabs(t, p.Config(), "v1")
	var last v1alpha1.Progress
	result, err := storagemigration.Pass(t.Context(), objects, storagemigration.PassOptions{
		PageSize: 50,
		Progress: func(progress v1alpha1.Progress) { last = progress },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v, %d requests, %d faults, %d answers lost, %d connections", result.Counts, requests.Load(), p.faults.Load(), lost.Load(), p.Connections())
	wantSum(t, result)
	counts := result.Counts
	if counts.Listed != n || counts.Failed != 0 || counts.Deleted != 0 || !result.Complete {
		t.Errorf("result: %+v", result)
	}
	if p.faults.Load() == 0 || counts.Retries < p.faults.Load() || lost.Load() == 0 {
		t.Errorf("%d retries for %d faults", counts.Retries, p.faults.Load())
	}
	// The repeated patch finds that the object is no longer what the list said:
	// the first one is what changed it.
	if counts.Changed == 0 {
		t.Errorf("no patch was repeated after it had been stored: %+v", counts)
	}
	if last.Counts != counts || last.InFlight != 0 || last.Total != n {
		t.Errorf("last progress: %+v", last)
	}
	wantStored(t, bed, map[string]int{"v1": n})

	// Through the same network, the second pass still proves it, and writes nothing.
	before := etcdRevision(t, bed)
	verified, err := storagemigration.Verify(t.Context(), objects, storagemigration.VerifyOptions{})
	if err != nil || !verified.Evidence.Complete || verified.Evidence.Passes != 1 {
		t.Errorf("%+v, %v", verified, err)
	}
	if after := etcdRevision(t, bed); after != before {
		t.Errorf("etcd went from revision %d to %d", before, after)
	}
}

// A server that stays away ends the pass: not each object, one after the other.
func TestPassGivesUpWhenTheServerStaysAway(t *testing.T) {
	t.Parallel()
	const n = 300
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flipAndWait(t, bed)
	for what, broken := range map[string]fault{"429": throttle, "503": unavailable, "reset": cutBefore} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var patches atomic.Int64
			p := startProxy(t, func(r *http.Request) fault {
				if r.Method == http.MethodPatch && patches.Add(1) > 50 {
					return broken
				}
				return pass
			}, bed)
			begin := time.Now()
			result, err := storagemigration.Pass(t.Context(), cronTabs(t, p.Config(), "v1"), storagemigration.PassOptions{RetryFor: 2 * time.Second})
			took := time.Since(begin)
			t.Logf("%+v in %s: %v", result.Counts, took, err)
			if err == nil || !strings.Contains(err.Error(), "gave up after") {
				t.Errorf("error: %v", err)
			}
			wantSum(t, result)
			if result.Counts.Retries > 200 {
				t.Errorf("a server that is not there was asked %d times again", result.Counts.Retries)
			}
			if result.Complete || result.Counts.Listed < 50-16 || result.Counts.Listed > 50+16 {
				t.Errorf("result: %+v", result)
			}
			if took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// One object that is answered 503 for ever fails alone; the others go on.
func TestPassGivesUpOnOneObject(t *testing.T) {
	t.Parallel()
	const n = 200
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flipAndWait(t, bed)
	p := startProxy(t, func(r *http.Request) fault {
		if r.Method != http.MethodPatch {
			return pass
		}
		if strings.HasSuffix(r.URL.Path, name(7)) {
			return unavailable
		}
		time.Sleep(50 * time.Millisecond) // So that others still go on when it is given up.
		return pass
	}, bed)
	result, err := storagemigration.Pass(t.Context(), cronTabs(t, p.Config(), "v1"), storagemigration.PassOptions{
		RetryFor: time.Second, Concurrency: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	wantSum(t, result)
	if result.Counts.Failed != 1 || len(result.Failures) != 1 || result.Failures[0].Name != name(7) || result.Failures[0].Reason != "Unavailable" {
		t.Errorf("result: %+v", result)
	}
}

// Retry-After is respected: nothing is sent before its time.
func TestPassWaitsAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 1, testbed.InProcessOptions{})
	var times []time.Time
	p := startProxy(t, func(r *http.Request) fault {
		if r.Method != http.MethodPatch {
			return pass
		}
		if times = append(times, time.Now()); len(times) <= 2 {
			return throttle
		}
		return pass
	}, bed)
	result, err := storagemigration.Pass(t.Context(), cronTabs(t, p.Config(), "v1"), storagemigration.PassOptions{})
	if err != nil || result.Counts.Retries != 2 || len(times) != 3 {
		t.Fatalf("%+v, %v, %d patches", result, err, len(times))
	}
	for i := range 2 {
		if waited := times[i+1].Sub(times[i]); waited < time.Second || waited > 15*time.Second {
			t.Errorf("attempt %d came %s after the one before", i+2, waited)
		}
	}
}

// Fact 9: the continue token of a list expires when etcd is compacted; the list
// goes on, and no object is missed.
func TestFact9PassContinuesAnExpiredList(t *testing.T) {
	t.Parallel()
	const n = 300
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flipAndWait(t, bed)
	var expired atomic.Int64
	objects := expiringObjects{Objects: cronTabs(t, bed.Config(), "v1"), expired: &expired, expire: func() { forgetList(t, bed) }}
	result, err := storagemigration.Pass(t.Context(), objects, storagemigration.PassOptions{PageSize: 75, Concurrency: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v, %d pages answered 410 Gone", result.Counts, expired.Load())
	if expired.Load() == 0 {
		t.Error("no page answered 410 Gone: the test shows nothing")
	}
	if !result.Complete || result.Counts.Failed != 0 || result.Counts.Listed != n {
		t.Errorf("result: %+v", result)
	}
	for key, object := range stored(t, bed) {
		if object.Version() != "v1" {
			t.Errorf("%s is persisted at %s", key, object.Version())
		}
	}
}

// forgetList makes the server forget the revision that a list began at: a change
// of the CRD's spec gives it a new cache without the snapshots of the old one, and
// a compacted etcd has it no more either.
func forgetList(t *testing.T, bed *testbed.InProcess) {
	t.Helper()
	updateCRD(t, bed, func(crd *apiextensionsv1.CustomResourceDefinition) {
		testbed.Version(crd, "v1").Schema.OpenAPIV3Schema.Description = time.Now().String()
	})
	if _, err := bed.Etcd().Compact(t.Context(), etcdRevision(t, bed)); err != nil {
		t.Error(err)
	}
}

// The request of a 429 is not repeated by client-go behind the engine's back.
func TestObjectRequestsAreSentOnce(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 1, testbed.InProcessOptions{})
	var requests atomic.Int64
	p := startProxy(t, func(*http.Request) fault {
		requests.Add(1)
		return throttle
	}, bed)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, _, err := cronTabs(t, p.Config(), "v1").Count(ctx)
	if !apierrors.IsTooManyRequests(err) || requests.Load() != 1 {
		t.Errorf("%d requests, %v", requests.Load(), err)
	}
}

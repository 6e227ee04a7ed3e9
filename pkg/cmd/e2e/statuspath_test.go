package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// mainGuard is an admission plugin that lets nobody update the objects themselves,
// as a webhook whose rules name the resource and not its subresources does.
type mainGuard struct {
	// status extends it to the status subresource.
	status  atomic.Bool
	through atomic.Int64
}

func (g *mainGuard) Handles(operation admission.Operation) bool {
	return operation == admission.Update
}

func (g *mainGuard) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	switch {
	case a.GetResource().Resource != testbed.CronTabPlural:
		return nil
	case a.GetSubresource() == "status" && !g.status.Load():
		g.through.Add(1)
		return nil
	}
	return admission.NewForbidden(a, errors.New("the policy protects it"))
}

// TestPathStatus passes by a policy for the resource itself, from the rehearsal to
// the removal of the version; etcd shows that the status subresource rewrites the
// whole object.
func TestPathStatus(t *testing.T) {
	t.Parallel()
	guard := &mainGuard{}
	b := start(t, testbed.InProcessOptions{Admission: guard})
	const n, group = 40, "status.example.com"
	name := b.scene(t, group, n)

	got := b.must(t, 3, "promote", "v1", name, "--yes")
	contains(t, got.stderr, "the server would refuse to rewrite 40 of 40 objects")
	b.wantStored(t, group, map[string]int{"v1beta1": n})

	got = b.must(t, 0, "promote", "v1", name, "--dry-run=client", "-o", "json", "--path", "status")
	var plan v1alpha1.Plan
	if err := json.Unmarshal([]byte(got.stdout), &plan); err != nil {
		t.Fatal(err)
	}
	if plan.Intent.Path != "status" {
		t.Errorf("the intent: %+v", plan.Intent)
	}

	got = b.must(t, 0, "promote", "v1", name, "--yes", "--path", "status")
	contains(t, got.stderr, "no-op patches through v1/status", "--path status passes by webhooks and policies for crontabs; it does not pass by")
	contains(t, got.stdout, "40 objects: ")
	b.wantStored(t, group, map[string]int{"v1": n})
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1"})
	if guard.through.Load() < 2*n {
		t.Errorf("%d writes through the status subresource", guard.through.Load())
	}

	// managedFields cannot be moved on that path: the plan says so, and the version
	// stays where the policy does not let it be.
	got = b.must(t, 4, "retire", "v1beta1", name, "--yes", "--path", "status")
	contains(t, got.stderr, "managedFields entries are moved through the objects themselves")
	contains(t, got.stdout, "the policy protects it")
	b.wantVersions(t, name, []string{"v1beta1 unserved", "v1 storage"}, []string{"v1"})

	// A policy for the status subresource, too, is none that it passes by.
	guard.status.Store(true)
	got = b.must(t, 3, "migrate", name, "--yes", "--force", "--path", "status")
	contains(t, got.stderr, "the server would refuse to rewrite 40 of 40 objects")
}

// TestPathStatusNeedsTheSubresource refuses beforehand.
func TestPathStatusNeedsTheSubresource(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "nostatus.example.com"
	c := crontabs(group, "v1beta1", "v1")
	c.Spec.Versions[1].Subresources = nil
	name := b.createCRD(t, c)
	b.createObjects(t, group, "v1beta1", 3, "a", "b")
	before := b.revisions(t)
	got := b.must(t, 3, "promote", "v1", name, "--yes", "--path", "status")
	contains(t, got.stderr, "v1 has no status subresource: objects cannot be rewritten through it", "leave --path out")
	got = b.must(t, 1, "promote", "v1", name, "--yes", "--path", "spec")
	contains(t, got.stderr, `"spec" is not "status"`)
	b.wantUnwritten(t, before)

	// Some namespaces first: the plan says so.
	got = b.must(t, 0, "promote", "v1", name, "--yes", "--namespaces-first", "b", "--max-concurrency", "4", "--max-bandwidth", "2Mi")
	contains(t, got.stderr, "rewrite all objects, first those in b, at v1 with no-op patches through v1")
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1"})

	cluster := crontabs("cluster.example.com", "v1beta1", "v1")
	cluster.Spec.Scope = apiextensionsv1.ClusterScoped
	got = b.must(t, 1, "promote", "v1", b.createCRD(t, cluster), "--yes", "--namespaces-first", "b")
	contains(t, got.stderr, "are in no namespace")
}

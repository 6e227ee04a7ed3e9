package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

const lifeGroup = "life.example.com"

// TestPromoteAndRetireUnderWriters takes 2,000 objects from v1beta1 to v1 while
// writers create, update and delete at both versions, and appliers apply.
func TestPromoteAndRetireUnderWriters(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.createCRD(t, crontabs(lifeGroup, "v1beta1", "v1"))
	const n = 2000
	b.createObjects(t, lifeGroup, "v1beta1", n, "a", "b", "c")
	appliers := newAppliers(t, b)

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var work crew
	for i, version := range []string{"v1beta1", "v1beta1", "v1", "v1"} {
		work.writers = append(work.writers, &writer{
			name: fmt.Sprintf("writer-%d", i), client: b.objects(t), group: lifeGroup, version: version,
			random: rand.New(rand.NewPCG(seed, uint64(i))), ledger: map[types.NamespacedName]spec{},
		})
	}
	for i := range n {
		key := types.NamespacedName{Namespace: []string{"a", "b", "c"}[i%3], Name: fmt.Sprintf("object-%06d", i)}
		object := newCronTab(lifeGroup, "v1", key.Namespace, key.Name, i)
		work.writers[i%len(work.writers)].adopt(key, specOf(object.Object))
	}
	runs := []func(context.Context) error{appliers.run}
	for _, w := range work.writers {
		runs = append(runs, w.run)
	}
	work.begin(t.Context(), runs...)

	began := time.Now()
	promoted := b.run(t, "promote", "v1", name, "--yes")
	promoteTook := time.Since(began)
	began = time.Now()
	retired := result{}
	if promoted.code == 0 {
		retired = b.run(t, "retire", "v1beta1", name, "--yes")
	}
	retireTook := time.Since(began)
	time.Sleep(300 * time.Millisecond) // A while longer, on the CRD as it is now.
	if err := work.end(); err != nil {
		t.Error(err)
	}
	if promoted.code != 0 || retired.code != 0 {
		t.Fatalf("promote: %s\nretire: %s", promoted, retired)
	}
	t.Logf("promote took %s, retire %s\n%s%s", promoteTook, retireTook, promoted.stdout, retired.stdout)

	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	want := map[types.NamespacedName]spec{}
	for i, w := range work.writers {
		t.Logf("%s: created %d, updated %d, deleted %d; %d requests at v1beta1", w.name, w.created, w.updated, w.deleted, w.atOld)
		if i < 2 && (!w.moved || w.atOld == 0) {
			t.Errorf("%s made %d requests at v1beta1, and never saw it unserved: the test tests nothing", w.name, w.atOld)
		}
		for key, s := range w.ledger {
			want[key] = s
		}
	}
	stored, err := testbed.Stored(t.Context(), b.Etcd(), lifeGroup, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range stored {
		key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
		if object.Version() != "v1" {
			t.Errorf("%s is stored at %s", key, object.Version())
		}
		if strings.Contains(string(object.Raw), lifeGroup+"/v1beta1") {
			t.Errorf("%s names v1beta1 in etcd: %s", key, object.Raw)
		}
		if appliers.has(key) {
			continue
		}
		var body struct{ Spec spec }
		if err := object.Unmarshal(&body); err != nil {
			t.Fatal(err)
		}
		if left, ok := want[key]; !ok {
			t.Errorf("%s was deleted by its writer and is there", key)
		} else if left != body.Spec {
			t.Errorf("%s: %+v is stored, its writer left %+v", key, body.Spec, left)
		}
		delete(want, key)
	}
	for key := range want {
		t.Errorf("%s is lost", key)
	}
	appliers.check(t)
}

// appliers are two managers of the same objects, one of each version, of which
// half are applied again all the while and half are left alone.
type appliers struct {
	client  dynamic.Interface
	names   []string
	version string
	applied int
}

const (
	betaManager = "beta-manager"
	gaManager   = "ga-manager"
)

func newAppliers(t *testing.T, b *bed) *appliers {
	t.Helper()
	a := &appliers{client: b.objects(t), version: "v1beta1"}
	for i := range 30 {
		a.names = append(a.names, fmt.Sprintf("applied-%02d", i))
		if err := a.beta(t.Context(), a.names[i], 1); err != nil {
			t.Fatal(err)
		}
		if err := a.ga(t.Context(), a.names[i], 1); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func (a *appliers) has(key types.NamespacedName) bool {
	return key.Namespace == "a" && strings.HasPrefix(key.Name, "applied-")
}

func (a *appliers) apply(ctx context.Context, manager, version, name string, spec map[string]any) error {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(lifeGroup + "/" + version)
	object.SetKind(testbed.CronTabKind)
	object.SetName(name)
	w := &writer{client: a.client, group: lifeGroup, version: version}
	err := w.do(func(objects dynamic.NamespaceableResourceInterface) error {
		object.SetAPIVersion(lifeGroup + "/" + w.version)
		_, err := objects.Namespace("a").Apply(ctx, name, object, metav1.ApplyOptions{FieldManager: manager})
		return err
	})
	if w.moved {
		a.version = "v1"
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("applying %s as %s at %s: %w", name, manager, w.version, err)
	}
	return nil
}

func (a *appliers) beta(ctx context.Context, name string, i int) error {
	return a.apply(ctx, betaManager, a.version, name, map[string]any{"cronSpec": fmt.Sprint(i), "image": "beta"})
}

func (a *appliers) ga(ctx context.Context, name string, i int) error {
	return a.apply(ctx, gaManager, "v1", name, map[string]any{"replicas": int64(i)})
}

func (a *appliers) run(ctx context.Context) error {
	for i := 2; ctx.Err() == nil; i++ {
		name := a.names[i%(len(a.names)/2)]
		if err := a.beta(ctx, name, i); err != nil {
			return err
		}
		if err := a.ga(ctx, name, i); err != nil {
			return err
		}
		a.applied++
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// check applies as both managers at v1, each without a field that it applied
// before: that field has to go, and the other manager's to stay.
func (a *appliers) check(t *testing.T) {
	t.Helper()
	t.Logf("applied %d times", a.applied)
	for _, name := range a.names {
		if err := a.apply(t.Context(), betaManager, "v1", name, map[string]any{"cronSpec": "last"}); err != nil {
			t.Error(err)
			continue
		}
		object, err := a.client.Resource(resource(lifeGroup, "v1")).Namespace("a").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := specOf(object.Object); got.Image != "" || got.CronSpec != "last" || got.Replicas == 0 {
			t.Errorf("%s after an apply without image: %+v", name, got)
		}
		if err := a.apply(t.Context(), gaManager, "v1", name, map[string]any{}); err != nil {
			t.Error(err)
			continue
		}
		if object, err = a.client.Resource(resource(lifeGroup, "v1")).Namespace("a").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		} else if got := specOf(object.Object); got != (spec{CronSpec: "last"}) {
			t.Errorf("%s after an apply without replicas: %+v", name, got)
		}
	}
}

package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// writer creates, updates, applies and deletes objects of its own at both
// versions, and keeps a ledger of what it left.
type writer struct {
	name       string
	group      string
	namespaces []string
	servers    []dynamic.Interface
	random     *rand.Rand
	// patience is how long it goes on without an answer.
	patience time.Duration

	ledger map[string]*unstructured.Unstructured
	keys   []string
	next   int
	writes int
}

// crew are the writers of a scene.
type crew struct {
	writers []*writer
	stop    context.CancelFunc
	done    sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// begin has writers write until end, to the servers in turn.
func begin(ctx context.Context, group string, namespaces []string, patience time.Duration, configs []*rest.Config) (*crew, error) {
	c := &crew{}
	ctx, c.stop = context.WithCancel(ctx)
	for i := range choose(4, 2) {
		w := &writer{
			name: fmt.Sprintf("writer%d", i), group: group, namespaces: namespaces, patience: patience,
			random: rand.New(rand.NewPCG(uint64(i), 1)), ledger: map[string]*unstructured.Unstructured{},
		}
		for _, config := range configs {
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				return nil, err
			}
			w.servers = append(w.servers, client)
		}
		c.writers = append(c.writers, w)
		c.done.Go(func() {
			if err := w.run(ctx); err != nil {
				c.mu.Lock()
				c.err = errors.Join(c.err, err)
				c.mu.Unlock()
			}
		})
	}
	return c, nil
}

// end stops the writers and returns what went wrong.
func (c *crew) end() error {
	c.stop()
	c.done.Wait()
	return c.err
}

// writes returns how often the writers, which have ended, wrote.
func (c *crew) writes() (n int) {
	for _, w := range c.writers {
		n += w.writes
	}
	return n
}

func (w *writer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.write(); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		w.writes++
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(10+w.random.IntN(20)) * time.Millisecond):
		}
	}
	return nil
}

// at returns the objects of a namespace at a random version on a random server.
func (w *writer) at(namespace string) (objects dynamic.ResourceInterface, version string) {
	version = []string{"v1beta1", "v1"}[w.random.IntN(2)]
	server := w.servers[w.random.IntN(len(w.servers))]
	gvr := schema.GroupVersionResource{Group: w.group, Version: version, Resource: testbed.CronTabPlural}
	return server.Resource(gvr).Namespace(namespace), version
}

// write does one thing and makes sure of what came of it.
func (w *writer) write() error {
	dice := w.random.IntN(10)
	if dice < 3 || len(w.keys) < 5 {
		return w.create()
	}
	i := w.random.IntN(len(w.keys))
	key := w.keys[i]
	switch before := w.ledger[key]; {
	case dice < 6:
		return w.change(before, func(ctx context.Context, object *unstructured.Unstructured) error {
			objects, version := w.at(object.GetNamespace())
			return update(ctx, objects, w.group+"/"+version, object)
		})
	case dice < 8:
		return w.change(before, func(ctx context.Context, object *unstructured.Unstructured) error {
			objects, version := w.at(object.GetNamespace())
			applied := object.DeepCopy()
			applied.SetAPIVersion(w.group + "/" + version)
			_, err := objects.Apply(ctx, object.GetName(), applied, metav1.ApplyOptions{FieldManager: w.name, Force: true})
			return err
		})
	default:
		w.keys = append(w.keys[:i], w.keys[i+1:]...)
		delete(w.ledger, key)
		return w.settle(before, nil, func(ctx context.Context) error {
			objects, _ := w.at(before.GetNamespace())
			return objects.Delete(ctx, before.GetName(), metav1.DeleteOptions{})
		})
	}
}

// update replaces what is there by an object.
func update(ctx context.Context, objects dynamic.ResourceInterface, apiVersion string, object *unstructured.Unstructured) error {
	found, err := objects.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	next := object.DeepCopy()
	next.SetAPIVersion(apiVersion)
	next.SetResourceVersion(found.GetResourceVersion())
	_, err = objects.Update(ctx, next, metav1.UpdateOptions{})
	return err
}

func (w *writer) create() error {
	w.next++
	namespace := w.namespaces[w.next%len(w.namespaces)]
	object := newObject(w.group, "v1", namespace, fmt.Sprintf("%s-%06d", w.name, w.next), w.next)
	w.keys = append(w.keys, object.GetNamespace()+"/"+object.GetName())
	w.ledger[namespace+"/"+object.GetName()] = object
	return w.settle(nil, object, func(ctx context.Context) error {
		objects, version := w.at(namespace)
		created := object.DeepCopy()
		created.SetAPIVersion(w.group + "/" + version)
		_, err := objects.Create(ctx, created, metav1.CreateOptions{FieldManager: w.name})
		return err
	})
}

// change writes another spec and another label into an object.
func (w *writer) change(before *unstructured.Unstructured, write func(context.Context, *unstructured.Unstructured) error) error {
	after := before.DeepCopy()
	w.next++
	after.Object["spec"].(map[string]any)["replicas"] = int64(w.next)
	after.SetLabels(map[string]string{"number": fmt.Sprint(w.next)})
	w.ledger[after.GetNamespace()+"/"+after.GetName()] = after
	return w.settle(before, after, func(ctx context.Context) error { return write(ctx, after) })
}

// settle repeats a write until the object is as it has to be. nil is no object.
// Where an answer was lost, the object says whether the write was done; it may be
// as before or as after, and nothing else.
func (w *writer) settle(before, after *unstructured.Unstructured, write func(context.Context) error) error {
	either := before
	if either == nil {
		either = after
	}
	name := either.GetNamespace() + "/" + either.GetName()
	for deadline := time.Now().Add(w.patience); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		err := write(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		time.Sleep(20 * time.Millisecond)
		if apierrors.IsConflict(err) {
			continue
		}
		now, readErr := w.read(either)
		switch {
		case readErr != nil: // Not yet.
		case same(now, after):
			return nil
		case !same(now, before):
			return fmt.Errorf("%w: after %w, %s is neither what it was nor what was written", errUnexpected, err, name)
		}
	}
}

// read returns what there is of an object, nil for none.
func (w *writer) read(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	objects, _ := w.at(object.GetNamespace())
	found, err := objects.Get(ctx, object.GetName(), metav1.GetOptions{})
	var status apierrors.APIStatus
	if apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == object.GetName() {
		return nil, nil
	}
	return found, err
}

// same compares what no migration may change.
func same(a, b *unstructured.Unstructured) bool {
	if a == nil || b == nil {
		return a == b
	}
	return planned(a) == planned(b)
}

// planned is the content of an object without what the server adds.
func planned(object *unstructured.Unstructured) string {
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return err.Error()
	}
	return content(raw, false)
}

// left compares what the writers left with what is in etcd, besides the objects
// that nobody wrote.
func (c *crew) left(stored []testbed.StoredObject, still map[string]string) error {
	want := map[string]string{}
	for _, w := range c.writers {
		for key, object := range w.ledger {
			want[key] = planned(object)
		}
	}
	var errs []error
	for _, object := range stored {
		key := object.Namespace + "/" + object.Name
		if still[object.Key] != "" || !strings.HasPrefix(object.Name, "writer") {
			continue
		}
		switch expected, known := want[key]; {
		case !known:
			errs = append(errs, fmt.Errorf("%w: %s is there, and its writer deleted it", errUnexpected, key))
		case expected != content(object.Raw, false):
			errs = append(errs, fmt.Errorf("%w: %s is not as its writer left it: %s", errUnexpected, key, object.Raw))
		}
		delete(want, key)
	}
	for key := range want {
		errs = append(errs, fmt.Errorf("%w: %s is lost", errUnexpected, key))
	}
	return errors.Join(errs...)
}

// newObject builds a CronTab with labels and annotations.
func newObject(group, version, namespace, name string, i int) *unstructured.Unstructured {
	object := testbed.NewCronTab(version, namespace, name, i)
	object.SetAPIVersion(group + "/" + version)
	object.SetLabels(map[string]string{"number": fmt.Sprint(i)})
	object.SetAnnotations(map[string]string{"example.com/note": strings.Repeat("x", i%50)})
	return object
}

// patchMerge sends a merge patch.
func patchMerge(ctx context.Context, objects dynamic.ResourceInterface, name, body string, subresources ...string) error {
	_, err := objects.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
	return err
}

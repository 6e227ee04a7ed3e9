package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// spec is the spec of a CronTab as its writer left it.
type spec struct {
	CronSpec string `json:"cronSpec,omitempty"`
	Image    string `json:"image,omitempty"`
	Replicas int64  `json:"replicas,omitempty"`
}

// writer creates, updates and deletes objects that nobody else writes, but for
// the tool, and keeps a ledger of them.
type writer struct {
	name    string
	client  dynamic.Interface
	group   string
	version string
	random  *rand.Rand

	ledger map[types.NamespacedName]spec
	keys   []types.NamespacedName
	next   int

	created, updated, deleted, atOld int
	moved                            bool
}

// adopt gives the writer an object that exists.
func (w *writer) adopt(key types.NamespacedName, s spec) {
	w.ledger[key] = s
	w.keys = append(w.keys, key)
}

// run writes until the context ends.
func (w *writer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		var err error
		switch dice := w.random.IntN(10); {
		case dice < 3 || len(w.keys) < 10:
			err = w.create()
		case dice < 5:
			err = w.update()
		case dice < 8:
			err = w.patch()
		default:
			err = w.delete()
		}
		if err != nil {
			return fmt.Errorf("%s at %s: %w", w.name, w.version, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(5+w.random.IntN(10)) * time.Millisecond):
		}
	}
	return nil
}

// do sends a request until the server has answered it. A version that is no
// longer served makes the writer go on at v1, as its owner would.
func (w *writer) do(request func(objects dynamic.NamespaceableResourceInterface) error) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := request(w.client.Resource(resource(w.group, w.version)))
		var status apierrors.APIStatus
		switch {
		case err == nil:
			if w.version != "v1" {
				w.atOld++
			}
			return nil
		case apierrors.IsNotFound(err) && errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Name == "") && w.version != "v1":
			w.version, w.moved = "v1", true
		case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsConflict(err):
			time.Sleep(20 * time.Millisecond)
		default:
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("for 30 seconds: %w", err)
		}
	}
}

func (w *writer) pick() types.NamespacedName { return w.keys[w.random.IntN(len(w.keys))] }

func (w *writer) create() error {
	w.next++
	namespace := []string{"a", "b", "c"}[w.next%3]
	object := newCronTab(w.group, w.version, namespace, fmt.Sprintf("%s-%06d", w.name, w.next), w.next)
	err := w.do(func(objects dynamic.NamespaceableResourceInterface) error {
		object.SetAPIVersion(w.group + "/" + w.version)
		_, err := objects.Namespace(namespace).Create(context.Background(), object, metav1.CreateOptions{FieldManager: w.name})
		return err
	})
	if err == nil {
		w.created++
		w.adopt(types.NamespacedName{Namespace: namespace, Name: object.GetName()}, specOf(object.Object))
	}
	return err
}

// update reads and writes the whole object.
func (w *writer) update() error {
	key, replicas := w.pick(), int64(w.random.IntN(1000)+1)
	err := w.do(func(objects dynamic.NamespaceableResourceInterface) error {
		object, err := objects.Namespace(key.Namespace).Get(context.Background(), key.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := specOf(object.Object); got != w.ledger[key] {
			return fmt.Errorf("%w: %s is %+v, its writer left %+v", errUnexpected, key, got, w.ledger[key])
		}
		object.Object["spec"].(map[string]any)["replicas"] = replicas
		_, err = objects.Namespace(key.Namespace).Update(context.Background(), object, metav1.UpdateOptions{FieldManager: w.name})
		return err
	})
	if err == nil {
		w.updated++
		s := w.ledger[key]
		s.Replicas = replicas
		w.ledger[key] = s
	}
	return err
}

func (w *writer) patch() error {
	key, image := w.pick(), fmt.Sprintf("example.com/cron:%d", w.random.IntN(1000))
	body := fmt.Appendf(nil, `{"spec":{"image":%q}}`, image)
	err := w.do(func(objects dynamic.NamespaceableResourceInterface) error {
		_, err := objects.Namespace(key.Namespace).Patch(context.Background(), key.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: w.name})
		return err
	})
	if err == nil {
		w.updated++
		s := w.ledger[key]
		s.Image = image
		w.ledger[key] = s
	}
	return err
}

func (w *writer) delete() error {
	key := w.pick()
	err := w.do(func(objects dynamic.NamespaceableResourceInterface) error {
		return objects.Namespace(key.Namespace).Delete(context.Background(), key.Name, metav1.DeleteOptions{})
	})
	if err == nil {
		w.deleted++
		delete(w.ledger, key)
		w.keys = slices.DeleteFunc(w.keys, func(k types.NamespacedName) bool { return k == key })
	}
	return err
}

// specOf returns the spec of an object.
func specOf(object map[string]any) spec {
	var s spec
	data, err := json.Marshal(object["spec"])
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		panic(err) // These objects are the test's own.
	}
	return s
}

// crew is writers at work.
type crew struct {
	writers []*writer
	stop    context.CancelFunc
	done    sync.WaitGroup
	errs    []error
	lock    sync.Mutex
}

func (c *crew) begin(ctx context.Context, run ...func(context.Context) error) {
	ctx, c.stop = context.WithCancel(ctx)
	for _, one := range run {
		c.done.Go(func() {
			if err := one(ctx); err != nil {
				c.lock.Lock()
				c.errs = append(c.errs, err)
				c.lock.Unlock()
			}
		})
	}
}

// end stops the writers and returns what went wrong.
func (c *crew) end() error {
	c.stop()
	c.done.Wait()
	return errors.Join(c.errs...)
}

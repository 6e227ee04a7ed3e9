package chaos_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// maxProblems is how much a witness says of what went wrong.
const maxProblems = 8

// witness follows etcd and checks after each single revision that
// status.storedVersions names every version that an object is persisted at, and
// that no object is lost or altered that nobody writes.
type witness struct {
	etcd            *clientv3.Client
	crdKey, objects string
	stop            context.CancelFunc
	done            sync.WaitGroup

	mu sync.Mutex
	// at is the version that each object is persisted at.
	at map[string]string
	// counts are the objects at each version.
	counts map[string]int
	// stored is status.storedVersions; exists says that there is a CRD.
	stored []string
	exists bool
	// still are the objects that nobody writes, and what they have to be.
	still map[string]string
	// trimmed says that somebody else makes storedVersions lie: while it is set,
	// the list is not looked at.
	trimmed bool
	// revision is the last one that was seen, checked how many were.
	revision, checked int64
	problems          []string
}

// watch starts a witness. The objects that are there now are those that have to
// stay as they are.
func watch(t testing.TB, etcd *clientv3.Client, group, crd string) *witness {
	t.Helper()
	w := &witness{
		etcd:    etcd,
		crdKey:  "/registry/apiextensions.k8s.io/customresourcedefinitions/" + crd,
		objects: "/registry/" + group + "/" + testbed.CronTabPlural + "/",
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w.stop = stop
	if err := w.snapshot(ctx); err != nil {
		t.Fatal(err)
	}
	w.done.Go(func() { w.follow(ctx) })
	t.Cleanup(func() {
		stop()
		w.done.Wait()
	})
	return w
}

// snapshot reads the CRD and the objects at one revision.
func (w *witness) snapshot(ctx context.Context) error {
	response, err := w.etcd.Txn(ctx).Then(clientv3.OpGet(w.crdKey), clientv3.OpGet(w.objects, clientv3.WithPrefix())).Commit()
	if err != nil {
		return fmt.Errorf("reading etcd: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.still
	w.at, w.counts, w.exists = map[string]string{}, map[string]int{}, false
	for _, kv := range response.Responses[0].GetResponseRange().Kvs {
		w.takeCRD(kv)
	}
	still := map[string]string{}
	for _, kv := range response.Responses[1].GetResponseRange().Kvs {
		w.takeObject(kv)
		still[string(kv.Key)] = content(kv.Value, true)
	}
	w.revision = response.Header.Revision
	if before == nil {
		w.still = still
		return nil
	}
	for key := range before {
		if still[key] == "" {
			w.problem("%s is gone", key)
		}
	}
	w.check(w.revision)
	return nil
}

// follow looks at every revision until the context ends.
func (w *witness) follow(ctx context.Context) {
	for ctx.Err() == nil {
		from := w.revision + 1
		for response := range w.etcd.Watch(clientv3.WithRequireLeader(ctx), "/registry/", clientv3.WithPrefix(), clientv3.WithRev(from)) {
			w.mu.Lock()
			for _, event := range response.Events {
				w.take(event)
			}
			w.mu.Unlock()
		}
		if ctx.Err() != nil {
			return
		}
		// Compacted away, or the connection is new: begin with what there is.
		if err := w.snapshot(ctx); err != nil {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (w *witness) take(event *clientv3.Event) {
	key := string(event.Kv.Key)
	w.revision = event.Kv.ModRevision
	gone := event.Type == mvccpb.DELETE
	switch {
	case key == w.crdKey && gone:
		w.exists = false
	case key == w.crdKey:
		w.takeCRD(event.Kv)
	case strings.HasPrefix(key, w.objects) && gone:
		if w.still[key] != "" {
			w.problem("revision %d: %s is deleted", w.revision, key)
		}
		w.counts[w.at[key]]--
		delete(w.at, key)
	case strings.HasPrefix(key, w.objects):
		w.takeObject(event.Kv)
	default:
		return
	}
	w.check(w.revision)
}

func (w *witness) takeCRD(kv *mvccpb.KeyValue) {
	var crd struct {
		Status struct{ StoredVersions []string }
	}
	if err := json.Unmarshal(kv.Value, &crd); err != nil {
		w.problem("the CRD cannot be read: %v", err)
		return
	}
	w.exists, w.stored = true, crd.Status.StoredVersions
}

func (w *witness) takeObject(kv *mvccpb.KeyValue) {
	key := string(kv.Key)
	var head struct{ APIVersion string }
	if err := json.Unmarshal(kv.Value, &head); err != nil {
		w.problem("%s cannot be read: %v", key, err)
		return
	}
	_, version, _ := strings.Cut(head.APIVersion, "/")
	if old, known := w.at[key]; known {
		w.counts[old]--
	}
	w.at[key] = version
	w.counts[version]++
	if want := w.still[key]; want != "" && want != content(kv.Value, true) {
		w.problem("revision %d: %s is altered: %s", kv.ModRevision, key, kv.Value)
	}
}

// check compares what storedVersions claims with what is there.
func (w *witness) check(revision int64) {
	w.checked++
	if !w.exists || w.trimmed {
		return
	}
	for version, n := range w.counts {
		if n > 0 && !slices.Contains(w.stored, version) {
			w.problem("revision %d: storedVersions is %q, and %d objects are persisted at %s", revision, w.stored, n, version)
		}
	}
}

func (w *witness) problem(format string, args ...any) {
	if len(w.problems) < maxProblems {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

// expect tells the witness of what others are about to do: to delete or change
// objects that it has an eye on, or to make storedVersions lie.
func (w *witness) expect(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// sync waits until the witness has seen all that was written before.
func (w *witness) sync(ctx context.Context) error {
	response, err := w.etcd.Put(ctx, "/registry/chaos/mark", "")
	if err != nil {
		return fmt.Errorf("writing to etcd: %w", err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		w.mu.Lock()
		seen := w.revision
		w.mu.Unlock()
		switch {
		case seen >= response.Header.Revision:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w: the witness has seen revision %d of %d", errUnexpected, seen, response.Header.Revision)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// content is a hash of what no migration may change of an object. Of an object
// that a writer only planned, the identity is not known.
func content(raw []byte, identity bool) string {
	var object struct {
		Metadata struct {
			Name              string            `json:"name"`
			Namespace         string            `json:"namespace"`
			UID               string            `json:"uid"`
			CreationTimestamp string            `json:"creationTimestamp"`
			DeletionTimestamp string            `json:"deletionTimestamp"`
			Labels            map[string]string `json:"labels"`
			Annotations       map[string]string `json:"annotations"`
			Finalizers        []string          `json:"finalizers"`
			OwnerReferences   []any             `json:"ownerReferences"`
		} `json:"metadata"`
		Spec   any `json:"spec"`
		Status any `json:"status"`
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return "not JSON: " + err.Error()
	}
	if !identity {
		object.Metadata.UID, object.Metadata.CreationTimestamp = "", ""
	}
	text, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

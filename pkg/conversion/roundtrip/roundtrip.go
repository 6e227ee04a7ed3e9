// Package roundtrip finds out what becomes of objects that are converted to
// another version of their CRD and back, and which stage did it: the conversion,
// pruning or defaulting. It asks the server with reads and dry runs, and replays
// each stage with upstream's code. Nothing is written.
package roundtrip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

const (
	// DefaultSample is how many objects are taken where there are more.
	DefaultSample = 500
	// MigrationSample is how many are taken before a migration, which makes a loss
	// final: all that most CRDs have.
	MigrationSample = 5000
	// defaultConcurrency is that of the engine that rewrites objects.
	defaultConcurrency = 16
	// maxGenerated bounds the samples of one version.
	maxGenerated = 300
)

// Options says what to find out.
type Options struct {
	CRD crd.CRD
	// From and To narrow the pairs of versions; empty stands for each served one.
	From, To string
	// Sample is how many live objects to take, 0 means 500; All takes every one.
	Sample int
	All    bool
	// Closely is how many of them, about, are held against the server's own reads and
	// dry runs, too, which takes several times as long as the replay of a conversion;
	// 0 means all. So are those whose conversion cannot be replayed.
	Closely int
	// Namespace, Selector and Filter narrow the live objects.
	Namespace, Selector string
	Filter              func(namespace, name string) bool
	// Named are the live objects to choose from, if they are known; nil stands for
	// all that there are.
	Named []cluster.ObjectID
	// Objects are taken instead of live ones, if the slice is not nil.
	Objects []map[string]any
	// Generate makes up samples from the schemas, too. Without any object they are
	// made up anyway.
	Generate bool
	// Concurrency is the number of objects in work at a time; 0 means 16.
	Concurrency int
	// FieldManager of the dry runs.
	FieldManager string
	// ShowValues has the report tell values.
	ShowValues bool
	// Caller is the webhook to replay conversions with; nil stands for that of the
	// CRD.
	Caller review.Caller
	// Progress, if not nil, is called after each object, one call at a time; total
	// is 0 where it is not known.
	Progress func(done, total int64)
}

// run is one Run.
type run struct {
	options   Options
	cluster   cluster.Interface
	versions  versions
	storage   *version
	converter review.Converter
	trips     []trip
	// where is at which version differences were made, by whereKey.
	where sync.Map
	// unreachable is why the conversion cannot be replayed; it is asked no more.
	unreachable atomic.Pointer[string]

	mutex sync.Mutex
	found map[pairKey]*collected
	open  map[string]bool
	done  int64
}

// Run finds out what round trips do to the objects of a CRD. c is nil for a
// manifest without a cluster. An error means that it could not be found out; what
// becomes of single objects is no error. What was found until then is returned with it.
func Run(ctx context.Context, c cluster.Interface, options Options) (*v1alpha1.RoundTrip, error) {
	r, err := newRun(c, options)
	if err != nil {
		return nil, err
	}
	report := &v1alpha1.RoundTrip{
		CRD: options.CRD.Name, Origin: options.CRD.Origin.String(), Strategy: string(options.CRD.ConversionStrategy()),
		StorageVersion: r.storage.name, Pairs: []v1alpha1.RoundTripPair{},
	}
	switch {
	case options.Objects != nil:
		report.Total = int64(len(options.Objects))
		err = r.files(ctx)
	case c != nil && options.CRD.Origin.Live():
		report.Total, err = r.live(ctx)
	}
	report.Objects = r.done
	if err != nil {
		r.report(report)
		return report, err
	}
	report.Complete = report.Objects == report.Total
	if options.Generate || report.Total == 0 {
		if report.Generated, err = r.generated(ctx); err != nil {
			return nil, err
		}
	}
	r.report(report)
	return report, nil
}

func newRun(c cluster.Interface, options Options) (*run, error) {
	options.Sample = cmp.Or(options.Sample, DefaultSample)
	options.Concurrency = cmp.Or(options.Concurrency, defaultConcurrency)
	all, err := newVersions(options.CRD)
	if err != nil {
		return nil, err
	}
	r := &run{options: options, cluster: c, versions: all, storage: all[options.CRD.StorageVersion()], found: map[pairKey]*collected{}, open: map[string]bool{}}
	if r.storage == nil {
		return nil, fmt.Errorf("the CRD %s has no storage version", options.CRD.Name)
	}
	if err := r.choosePairs(); err != nil {
		return nil, err
	}
	r.converter = review.None{}
	if options.CRD.ConversionStrategy() == apiextensionsv1.WebhookConverter {
		r.converter = r.webhook()
	}
	return r, nil
}

// choosePairs chooses the ordered pairs of versions.
func (r *run) choosePairs() error {
	for _, name := range []string{r.options.From, r.options.To} {
		switch v := r.options.CRD.Version(name); {
		case name == "":
		case v == nil:
			return fmt.Errorf("the CRD %s has no version %s: it has %v", r.options.CRD.Name, name, r.options.CRD.VersionNames())
		case !v.Served:
			return fmt.Errorf("version %s of the CRD %s is not served: no client can go there", name, r.options.CRD.Name)
		}
	}
	served := r.options.CRD.Served()
	for _, from := range served {
		for _, to := range served {
			if from == to || r.options.From != "" && from != r.options.From || r.options.To != "" && to != r.options.To {
				continue
			}
			r.trips = append(r.trips, trip{from: r.versions[from], to: r.versions[to], storage: r.storage})
			r.found[pairKey{from, to}] = &collected{differences: map[findingKey]*finding{}, failures: map[failureKey]*finding{}}
		}
	}
	return nil
}

// webhook returns the converter that calls the webhook; one that always fails if
// there is no way to it.
func (r *run) webhook() review.Converter {
	caller := r.options.Caller
	if caller == nil {
		var err error
		if caller, err = review.CallerFor(r.cluster, r.options.CRD); err != nil {
			r.giveUp(err)
			return review.None{}
		}
	}
	return review.Webhook{Caller: reachable{caller}, ReviewVersion: review.VersionOf(r.options.CRD)}
}

// giveUp notes that the conversion cannot be replayed.
func (r *run) giveUp(err error) {
	text := cluster.Explain(err).Message
	r.unreachable.CompareAndSwap(nil, &text)
}

// objects returns the endpoint of a version.
func (r *run) objects(version string) cluster.Objects {
	return r.cluster.Objects(kschema.GroupVersionResource{Group: r.options.CRD.Spec.Group, Version: version, Resource: r.options.CRD.Spec.Names.Plural})
}

// live takes live objects and returns how many there are.
func (r *run) live(ctx context.Context) (int64, error) {
	served := r.options.CRD.Served()
	if len(served) == 0 || len(r.trips) == 0 {
		return 0, nil
	}
	// Listed where the objects are persisted: an object that cannot be converted
	// fails the whole list at another version.
	list := served[0]
	if slices.Contains(served, r.storage.name) {
		list = r.storage.name
	}
	page := cluster.PageOptions{LabelSelector: r.options.Selector}
	if r.options.CRD.Spec.Scope == apiextensionsv1.NamespaceScoped {
		page.Namespace = r.options.Namespace
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(r.options.Concurrency)
	var index int64
	work := func(key types.NamespacedName, of int64) {
		place := placed{name: display(key), index: index}
		index++
		group.Go(func() error {
			if err := groupCtx.Err(); err != nil {
				return err
			}
			return r.object(groupCtx, key, place, of)
		})
	}
	total, err := r.each(groupCtx, r.objects(list), page, work)
	if waited := group.Wait(); waited != nil {
		return 0, fmt.Errorf("round trips of %s: %w", r.options.CRD.Name, waited)
	}
	if err != nil {
		return 0, fmt.Errorf("round trips of %s: %w", r.options.CRD.Name, err)
	}
	return total, nil
}

// each calls work for each object to take, and how many these are where that is
// known, and returns how many objects there are.
func (r *run) each(ctx context.Context, objects cluster.Objects, page cluster.PageOptions, work func(key types.NamespacedName, of int64)) (total int64, _ error) {
	o := r.options
	if o.All && o.Named == nil {
		// Listing goes on while objects are looked at; the limit holds it back.
		err := cluster.EachPage(ctx, objects, page, func(listed *metav1.PartialObjectMetadataList) error {
			for i := range listed.Items {
				key := types.NamespacedName{Namespace: listed.Items[i].Namespace, Name: listed.Items[i].Name}
				if o.Filter == nil || o.Filter(key.Namespace, key.Name) {
					total++
					work(key, 0)
				}
			}
			return nil
		})
		return total, err
	}
	var keys []types.NamespacedName
	var err error
	if o.Named != nil {
		keys, total = conversion.ChooseNamed(o.Named, o.All, o.Sample)
	} else {
		keys, total, err = conversion.Choose(ctx, objects, page, o.Filter, o.Sample)
	}
	for _, key := range keys {
		work(key, int64(len(keys)))
	}
	return total, err
}

// files takes the objects of the options.
func (r *run) files(ctx context.Context) error {
	return r.count(ctx, len(r.options.Objects), func(ctx context.Context, i int) error {
		object := r.options.Objects[i]
		metadata, _ := object["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		namespace, _ := metadata["namespace"].(string)
		if err := r.offline(ctx, object, placed{name: display(types.NamespacedName{Namespace: namespace, Name: name}), index: int64(i)}); err != nil {
			return err
		}
		r.step(int64(len(r.options.Objects)))
		return nil
	})
}

// count calls work for 0 to n-1, several at a time.
func (r *run) count(ctx context.Context, n int, work func(context.Context, int) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(r.options.Concurrency)
	for i := range n {
		group.Go(func() error {
			if err := groupCtx.Err(); err != nil {
				return err
			}
			return work(groupCtx, i)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("round trips of %s: %w", r.options.CRD.Name, err)
	}
	return nil
}

// step counts an object.
func (r *run) step(total int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.done++
	if r.options.Progress != nil {
		r.options.Progress(r.done, total)
	}
}

// replayTrip replays one round trip of an object and notes what came of it.
func (r *run) replayTrip(ctx context.Context, t trip, object map[string]any, written bool, at placed) error {
	if r.unreachable.Load() != nil {
		r.askReplay(t)
		return nil
	}
	found, err := r.judge(ctx, t, object, written)
	if err != nil {
		return r.failed(ctx, t, at, err)
	}
	r.record(t, at, found)
	return nil
}

// failed notes why an object did not make a round trip. It returns the error of a
// context.
func (r *run) failed(ctx context.Context, t trip, at placed, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", at.name, context.Cause(ctx))
	}
	var lost *unreachableError
	if errors.As(err, &lost) {
		r.giveUp(lost.err)
		r.askReplay(t)
		return nil
	}
	failure := cluster.Explain(err)
	r.recordFailure(t, at, string(cluster.ReasonConversionFailed), failure.Message)
	return nil
}

func display(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

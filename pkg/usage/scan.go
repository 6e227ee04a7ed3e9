package usage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// Surroundings are the objects of a cluster that name versions of CRDs. They are
// read once, whatever the number of targets is.
type Surroundings struct {
	client  cluster.Interface
	targets []Target
	// helm says that somebody looks into the releases of Helm.
	helm bool

	lock sync.Mutex
	read bool
	// served are the resources that can be listed, failed the groups whose
	// discovery failed.
	served map[schema.GroupResource]schema.GroupVersionResource
	failed map[string]error
}

// Around returns what is around the CRDs of targets.
func Around(client cluster.Interface, targets []Target) *Surroundings {
	return &Surroundings{client: client, targets: targets}
}

// find returns the resource at the version that the server prefers; an error if it
// is unknown whether there is one.
func (s *Surroundings) find(ctx context.Context, resource schema.GroupResource) (found schema.GroupVersionResource, ok bool, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.read {
		if err := s.discover(ctx); err != nil {
			return found, false, err
		}
	}
	found, ok = s.served[resource]
	if !ok {
		err = s.failed[resource.Group]
	}
	return found, ok, err
}

func (s *Surroundings) discover(ctx context.Context) error {
	resources, err := s.client.Discovery().ListableResources(ctx)
	failed := new(discovery.ErrGroupDiscoveryFailed)
	if err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("reading discovery: %w", err)
	}
	s.served, s.failed, s.read = map[schema.GroupResource]schema.GroupVersionResource{}, map[string]error{}, true
	for _, resource := range resources {
		s.served[resource.GroupResource()] = resource.GroupVersionResource
	}
	for group, err := range failed.Groups {
		s.failed[group.Group] = err
	}
	return nil
}

// target returns the target, and its version, that an apiVersion and a kind name.
func (s *Surroundings) target(apiVersion, kind string) (target Target, version string, named bool) {
	for _, target := range s.targets {
		if version, named := target.Has(apiVersion); named && target.Kind() == kind {
			return target, version, true
		}
	}
	return Target{}, "", false
}

// scan looks at all objects of some resources, once for all targets.
type scan struct {
	*Surroundings

	source v1alpha1.UsageSource
	// optional says that what cannot be read does not change the verdict.
	optional bool
	// needed says that it is worth a word where the server has no such resource.
	needed bool
	kinds  []scanned
	// finish, if there is one, reports what was known only in the end.
	finish func(report reporter) []v1alpha1.Unlooked

	once     sync.Once
	err      error
	evidence map[string][]v1alpha1.UsageEvidence
	unlooked []v1alpha1.Unlooked
}

var _ Collector = &scan{}

// scanned is a resource and what is read of its objects.
type scanned struct {
	resource schema.GroupResource
	// page is how many objects are read at a time.
	page     int64
	selector string
	// visit reports what an object names.
	visit func(object *unstructured.Unstructured, report reporter) error
}

// reporter takes down evidence for a CRD.
type reporter func(target Target, evidence v1alpha1.UsageEvidence)

// Source implements [Collector].
func (s *scan) Source() v1alpha1.UsageSource { return s.source }

// Collect implements [Collector].
func (s *scan) Collect(ctx context.Context, target Target) ([]v1alpha1.UsageEvidence, []v1alpha1.Unlooked, error) {
	s.once.Do(func() { s.err = s.all(ctx) })
	if s.err != nil {
		return nil, nil, s.err
	}
	return s.evidence[target.CRD.Name], slices.Clone(s.unlooked), nil
}

func (s *scan) all(ctx context.Context) error {
	s.evidence = map[string][]v1alpha1.UsageEvidence{}
	report := func(target Target, evidence v1alpha1.UsageEvidence) {
		evidence.Source = s.source
		s.evidence[target.CRD.Name] = append(s.evidence[target.CRD.Name], evidence)
	}
	for _, kind := range s.kinds {
		err := s.one(ctx, kind, report)
		if ctx.Err() != nil {
			return fmt.Errorf("listing %s: %w", kind.resource, context.Cause(ctx))
		}
		if err != nil {
			s.unlooked = append(s.unlooked, v1alpha1.Unlooked{Source: s.source, Why: why(kind.resource.String(), err), Optional: s.optional})
		}
	}
	if s.finish != nil {
		s.unlooked = append(s.unlooked, s.finish(report)...)
	}
	return nil
}

// one reads the objects of one resource. That the server has none is no error, but
// it can be worth a word.
func (s *scan) one(ctx context.Context, kind scanned, report reporter) error {
	resource, there, err := s.find(ctx, kind.resource)
	if err != nil {
		return err
	}
	if !there {
		if s.needed {
			s.unlooked = append(s.unlooked, v1alpha1.Unlooked{Source: s.source, Why: "the server has no " + kind.resource.String(), Optional: true})
		}
		return nil
	}
	options := cluster.PageOptions{Limit: kind.page, LabelSelector: kind.selector}
	err = cluster.EachObject(ctx, s.client.Objects(resource), options, func(object *unstructured.Unstructured) error {
		return kind.visit(object, report)
	})
	if apierrors.IsNotFound(err) { // It has gone since discovery was read.
		return nil
	}
	return err
}

// decode reads the fields of interest of an object. A field of an unexpected type
// is that of another API with the same name: there is nothing in it for us.
func decode[T any](object *unstructured.Unstructured) (T, bool) {
	var into T
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &into)
	return into, err == nil
}

// several names the first of some names, and says how many more there are.
func several(names []string, verb string) string {
	text := strings.Join(names[:min(len(names), maxExamples)], ", ")
	if more := len(names) - maxExamples; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(names) == 1 && verb != "" {
		verb += "s"
	}
	return strings.TrimSpace(text + " " + verb)
}

package conversion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// Detour tells whether objects that the schema of one version refuses can be
// rewritten through another one: validation is that of the version of the request
// (fact 12). It looks at each object itself, never at a sample: a version drops
// for good what its schema lacks, and which fields an object has only the object
// tells.
type Detour struct {
	version   string
	rehearsal *rehearsal
	// endpoint is where the objects are refused.
	endpoint cluster.Objects
}

// Detours returns the versions of a CRD that a detour may lead through. With a
// conversion webhook there are none: what it loses cannot be seen beforehand.
func Detours(c crd.CRD, endpoint string) []string {
	if c.ConversionStrategy() != apiextensionsv1.NoneConverter {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.Served()), func(version string) bool { return version == endpoint })
}

// NewDetour returns the detour around the version that the options name, for a
// migration that they rehearse.
func NewDetour(c cluster.Interface, options RehearseOptions, version string) *Detour {
	endpoint := c.Objects(options.Resource.WithVersion(options.RequestVersion))
	options.RequestVersion = version
	return &Detour{version: version, rehearsal: newRehearsal(c, options), endpoint: endpoint}
}

// Takes returns nil if the object can be rewritten by the detour and loses nothing
// by it, and otherwise why not. It is meant for an object of which the resource
// version is known: one that was written meanwhile may be another by now, and the
// server refuses the patch of what it was.
func (d *Detour) Takes(ctx context.Context, key types.NamespacedName) error {
	result, err := d.rehearsal.object(ctx, key)
	switch {
	case err != nil:
		return err
	case result.gone:
		return errors.New("it is gone")
	case result.busy:
		return errors.New("somebody else keeps writing it")
	case result.failure != nil:
		return fmt.Errorf("%s refuses it, too: %s", d.version, result.failure.Message)
	}
	// What the version of the request shows and the one that refused does not know
	// is not lost by this rewrite, but by the next write of anybody.
	var object *unstructured.Unstructured
	err = cluster.Retry(ctx, func() (err error) {
		object, err = d.endpoint.Get(ctx, key)
		return err
	})
	if err != nil {
		return err
	}
	next := compareObjects(result.after.Object, object.Object, d.rehearsal.options.Schema)
	var lost []string
	for _, loss := range losses(slices.Concat(result.differences, next)) {
		lost = append(lost, loss.path)
	}
	if len(lost) > 0 {
		return fmt.Errorf("%s would lose or change %s", d.version, strings.Join(slices.Compact(lost), ", "))
	}
	return nil
}

// detour looks for another way for an object that the schema refuses: the one that
// was chosen, by which it then counts as well, and those that may be offered.
func (r *rehearsal) detour(ctx context.Context, key types.NamespacedName, result *outcome) error {
	if result.failure == nil || result.failure.Reason != string(cluster.ReasonInvalid) {
		return nil
	}
	for _, detour := range r.detours {
		err := detour.Takes(ctx, key)
		if ctx.Err() != nil {
			return fmt.Errorf("looking for another way: %w", context.Cause(ctx))
		}
		switch {
		case err != nil && detour.version == r.options.RefusedThrough:
			result.failure.Message += fmt.Sprintf("; through %s: %s", detour.version, cluster.Explain(err).Message)
		case err != nil:
		case detour.version == r.options.RefusedThrough:
			result.failure, result.through = nil, append(result.through, detour.version)
		default:
			result.through = append(result.through, detour.version)
		}
	}
	return nil
}

// newDetours returns the detours that options name.
func newDetours(c cluster.Interface, options RehearseOptions) []*Detour {
	versions := options.Offer
	if options.RefusedThrough != "" {
		versions = []string{options.RefusedThrough}
	}
	options.RefusedThrough, options.Offer, options.Progress = "", nil, nil
	detours := make([]*Detour, 0, len(versions))
	for _, version := range versions {
		detours = append(detours, NewDetour(c, options, version))
	}
	return detours
}

// through returns how many of the refused objects each detour takes.
func (r *rehearsal) through() []v1alpha1.Detour {
	var all []v1alpha1.Detour
	for _, detour := range r.detours {
		if n := r.taken[detour.version]; n > 0 {
			all = append(all, v1alpha1.Detour{Version: detour.version, Objects: n})
		}
	}
	return all
}

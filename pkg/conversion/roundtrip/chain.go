package roundtrip

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// version is a version of the CRD as the server uses it.
type version struct {
	name, apiVersion string
	schema           *schema.Schema
}

// versions are those of a CRD by name.
type versions map[string]*version

func newVersions(one crd.CRD) (versions, error) {
	all := versions{}
	for i := range one.Spec.Versions {
		name := one.Spec.Versions[i].Name
		known, err := schema.Served(one.CustomResourceDefinition, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.Name, err)
		}
		all[name] = &version{name: name, apiVersion: one.Spec.Group + "/" + name, schema: known}
	}
	return all, nil
}

// hop is one thing that the server does to an object on its way.
type hop struct {
	to *version
	// defaults says that defaults are set at the version. The server does so when
	// a client writes at it, and when it reads what is stored at it; not when it
	// has converted to it.
	defaults bool
	// turn says that the object is at the far end of the way.
	turn bool
}

// chain is the way of an object from a version to another one and back. Each
// conversion has the storage version at one of its ends: a client writes at its
// version, the server stores, another client reads.
func chain(from, to, storage *version, written bool) []hop {
	var hops []hop
	if written {
		// What a client sends; an object that was read has been through it.
		hops = append(hops, hop{to: from, defaults: true})
	}
	if from != storage {
		hops = append(hops, hop{to: storage, defaults: true})
	}
	if to != storage {
		hops = append(hops, hop{to: to, defaults: true})
	}
	if len(hops) == 0 {
		hops = append(hops, hop{to: storage, defaults: true})
	}
	hops[len(hops)-1].turn = true
	if to != storage {
		hops = append(hops, hop{to: storage, defaults: true})
	}
	if from != storage {
		hops = append(hops, hop{to: from})
	}
	return hops
}

// stages says up to which hop what is done; a stage that does not count happens
// at none.
type stages struct{ prune, defaults int }

// every is more hops than there are.
const every = 1 << 10

// replayed is what came of a replay.
type replayed struct {
	object map[string]any
	// read and written are the object at the turn, before and after defaults.
	read, written map[string]any
	// touched says that pruning or defaulting changed anything.
	touched bool
}

// replay sends an object on its way and changes nothing of it.
func replay(ctx context.Context, converter review.Converter, object map[string]any, hops []hop, s stages) (replayed, error) {
	result := replayed{object: runtime.DeepCopyJSON(object)}
	for i, h := range hops {
		if result.object["apiVersion"] != h.to.apiVersion {
			converted, err := converter.Convert(ctx, []map[string]any{result.object}, h.to.apiVersion)
			if err != nil {
				return replayed{}, &conversionError{from: result.object["apiVersion"], to: h.to.apiVersion, err: err}
			}
			result.object = converted[0]
		}
		before := result.object
		if i < s.prune || i < s.defaults && h.defaults {
			before = runtime.DeepCopyJSON(result.object)
		}
		if i < s.prune {
			if err := h.to.schema.Coerce(result.object); err != nil {
				return replayed{}, fmt.Errorf("reading at %s: %w", h.to.name, err)
			}
		}
		read := result.object
		if i < s.defaults && h.defaults {
			if h.turn {
				read = runtime.DeepCopyJSON(read)
			}
			h.to.schema.Default(result.object)
		}
		result.touched = result.touched || !conversion.Same(before, result.object)
		if h.turn {
			// Only defaults tell the two apart, and what comes next changes a copy.
			result.read, result.written = read, result.object
			result.object = runtime.DeepCopyJSON(result.object)
		}
	}
	return result, nil
}

// conversionError is the failure of a conversion.
type conversionError struct {
	from any
	to   string
	err  error
}

func (e *conversionError) Error() string {
	return fmt.Sprintf("converting %v to %s: %s", e.from, e.to, e.err)
}

func (e *conversionError) Unwrap() error { return e.err }

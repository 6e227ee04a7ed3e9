package roundtrip

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// generated takes samples that are made up from the schemas of the versions and
// returns how many.
func (r *run) generated(ctx context.Context) (int64, error) {
	type sample struct {
		trip   trip
		object map[string]any
		name   string
	}
	var samples []sample
	made := map[string]bool{}
	count := int64(0)
	for _, t := range r.trips {
		variants, left := t.from.schema.Variants(maxGenerated)
		if !made[t.from.name] {
			made[t.from.name] = true
			count += int64(len(variants))
			if left > 0 {
				r.ask(fmt.Sprintf("what becomes of %d more forms that the schema of %s allows: %d were made up", left, t.from.name, len(variants)))
			}
		}
		for _, variant := range variants {
			object := r.envelope(variant.Object, t.from)
			// As it is after it was created: what happens then is no round trip.
			if t.from.schema.Coerce(object) != nil {
				continue
			}
			t.from.schema.Default(object)
			samples = append(samples, sample{trip: t, object: object, name: variant.Name})
		}
	}
	err := r.count(ctx, len(samples), func(ctx context.Context, i int) error {
		s := samples[i]
		return r.replayTrip(ctx, s.trip, s.object, false, placed{name: "generated: " + s.name, index: int64(i), generated: true})
	})
	return count, err
}

// envelope makes an object of a sample.
func (r *run) envelope(fields map[string]any, v *version) map[string]any {
	metadata := map[string]any{
		"name": "generated", "uid": "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "creationTimestamp": "2026-01-02T03:04:05Z",
		"labels": map[string]any{"crdver.dev/label": "value"}, "annotations": map[string]any{"crdver.dev/annotation": "value"},
	}
	if r.options.CRD.Spec.Scope == apiextensionsv1.NamespaceScoped {
		metadata["namespace"] = metav1.NamespaceDefault
	}
	fields["apiVersion"], fields["kind"], fields["metadata"] = v.apiVersion, r.options.CRD.Spec.Names.Kind, metadata
	return fields
}

// offline replays the round trips of an object that no server has: at each other
// version it is what a client would read there.
func (r *run) offline(ctx context.Context, object map[string]any, at placed) error {
	for _, t := range r.trips {
		written := object["apiVersion"] == t.from.apiVersion
		start := object
		if !written {
			if r.unreachable.Load() != nil {
				r.askReplay(t)
				continue
			}
			own := r.own(object)
			if own == nil {
				return fmt.Errorf("%s: the CRD %s has no version %v", at.name, r.options.CRD.Name, object["apiVersion"])
			}
			all, err := replay(ctx, r.converter, object, append(chain(own, own, r.storage, true), hop{to: t.from}), stages{prune: every, defaults: every})
			if err != nil {
				if err := r.failed(ctx, t, at, err); err != nil {
					return err
				}
				continue
			}
			start = all.object
		}
		if err := r.replayTrip(ctx, t, start, written, at); err != nil {
			return err
		}
	}
	return nil
}

// own returns the version of an object.
func (r *run) own(object map[string]any) *version {
	for _, v := range r.versions {
		if v.apiVersion == object["apiVersion"] {
			return v
		}
	}
	return nil
}

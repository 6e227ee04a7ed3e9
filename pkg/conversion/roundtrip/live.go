package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
)

// readTries is how often an object is read that somebody else keeps writing.
const readTries = 5

// forms are one object at several versions, as the server shows it.
type forms map[string]map[string]any

// object finds out what becomes of one live object.
func (r *run) object(ctx context.Context, key types.NamespacedName, at placed, total int64) error {
	closely := r.closely(at, total)
	names := r.readAt()
	if !closely {
		names = r.sentFrom()
	}
	for range readTries {
		read, again, err := r.read(ctx, names, key, at)
		if err != nil {
			return err
		}
		if again {
			continue
		}
		if read == nil {
			return nil // It is gone.
		}
		if closely {
			if err := r.server(ctx, key, read, at); err != nil {
				return err
			}
		}
		for _, t := range r.trips {
			if read[t.from.name] == nil || closely && read[t.to.name] == nil {
				continue // The failure is noted.
			}
			if err := r.replayTrip(ctx, t, read[t.from.name], false, at); err != nil {
				return err
			}
		}
		r.step(total)
		return nil
	}
	r.ask("what becomes of objects that were written all the time, as " + at.name)
	return nil
}

// closely reports whether an object is held against what the server does, too: as
// many as the options say, spread over the list, where total is known, and otherwise
// every tenth.
func (r *run) closely(at placed, total int64) bool {
	if r.options.Closely == 0 || r.unreachable.Load() != nil {
		return true
	}
	stride := int64(10)
	if total > 0 {
		stride = max(1, total/int64(r.options.Closely))
	}
	return at.index%stride == 0
}

// sentFrom returns the versions that objects are sent from.
func (r *run) sentFrom() []string {
	var names []string
	for _, t := range r.trips {
		if !slices.Contains(names, t.from.name) {
			names = append(names, t.from.name)
		}
	}
	return names
}

// read reads an object at some versions. One at which it cannot be read is not in the
// result. again says that it was written meanwhile.
func (r *run) read(ctx context.Context, names []string, key types.NamespacedName, at placed) (read forms, again bool, err error) {
	read = forms{}
	resourceVersion := ""
	for _, name := range names {
		var content map[string]any
		err := cluster.Retry(ctx, func() error {
			object, err := r.objects(name).Get(ctx, key)
			if err == nil {
				content = object.Object
			}
			return err
		})
		if err != nil {
			gone, err := r.readFailed(ctx, name, key, at, err)
			if gone || err != nil {
				return nil, false, err
			}
			continue
		}
		metadata, _ := content["metadata"].(map[string]any)
		seen, _ := metadata["resourceVersion"].(string)
		if resourceVersion != "" && seen != resourceVersion {
			return nil, true, nil
		}
		resourceVersion, read[name] = seen, content
	}
	return read, false, nil
}

// readAt returns the versions to read at: those of the pairs, and the storage
// version, if it is served, which shows what the others are made of.
func (r *run) readAt() []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if v := r.options.CRD.Version(r.storage.name); v.Served {
		add(v.Name)
	}
	for _, t := range r.trips {
		add(t.from.name)
		add(t.to.name)
	}
	return names
}

// readFailed tells what an error of a read says. It returns the error where it is
// no word about the object.
func (r *run) readFailed(ctx context.Context, version string, key types.NamespacedName, at placed, err error) (gone bool, _ error) {
	if cluster.AboutObject(err, r.options.CRD.Spec.Names.Plural, key.Name) && apierrors.IsNotFound(err) {
		return true, nil
	}
	var status apierrors.APIStatus
	failure := cluster.Explain(err)
	if ctx.Err() != nil || !errors.As(err, &status) || failure.Reason != cluster.ReasonConversionFailed {
		return false, fmt.Errorf("reading %s: %w", at.name, err)
	}
	for _, t := range r.trips {
		if t.from.name == version || t.to.name == version {
			r.recordFailure(t, at, string(failure.Reason), failure.Message)
		}
	}
	return false, nil
}

// server compares what the server does with what is expected of it: that reading
// at a version gives what the conversion gives, and that an object which is
// written as it was read comes back as the stages make it. What is not expected is
// the server's own doing. Where the conversion cannot be replayed, what the
// server does is all there is.
func (r *run) server(ctx context.Context, key types.NamespacedName, read forms, at placed) error {
	for name, content := range read {
		v := r.versions[name]
		if !slices.ContainsFunc(r.trips, func(t trip) bool { return t.from == v || t.to == v }) {
			continue
		}
		if err := r.checkRead(ctx, v, read, at); err != nil {
			return err
		}
		after, err := r.rewrite(ctx, v, key, content, at)
		if err != nil {
			return err
		}
		if after != nil {
			if err := r.checkRewrite(ctx, v, content, after, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRead compares what the server shows at a version with what the conversion
// makes of what it shows at the storage version. That says something only where
// nothing can be persisted at another version.
func (r *run) checkRead(ctx context.Context, v *version, read forms, at placed) error {
	stored := read[r.storage.name]
	trusted := slices.Equal(r.options.CRD.Status.StoredVersions, []string{r.storage.name})
	if v == r.storage || stored == nil || !trusted || r.unreachable.Load() != nil {
		return nil
	}
	want, err := replay(ctx, r.converter, stored, []hop{{to: v}}, stages{prune: every})
	if err != nil {
		return r.failed(ctx, trip{from: r.storage, to: v}, at, err)
	}
	r.recordServer(trip{from: r.storage, to: v}, at, conversion.Differences(want.object, read[v.name], v.schema), nil, v.name)
	return nil
}

// rewrite has the server write an object again as a dry run; nil if it would not.
func (r *run) rewrite(ctx context.Context, v *version, key types.NamespacedName, content map[string]any, at placed) (map[string]any, error) {
	metadata, _ := content["metadata"].(map[string]any)
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": metadata["resourceVersion"]}})
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	var after map[string]any
	err = cluster.Retry(ctx, func() error {
		object, err := r.objects(v.name).Patch(ctx, key, cluster.PatchRequest{
			Type: types.MergePatchType, Body: body, DryRun: true, FieldManager: r.options.FieldManager,
		})
		if err == nil {
			after = object.Object
		}
		return err
	})
	if err == nil {
		return after, nil
	}
	if cluster.AboutObject(err, r.options.CRD.Spec.Names.Plural, key.Name) && (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) {
		return nil, nil // Deleted or written meanwhile; the replay still tells.
	}
	var status apierrors.APIStatus
	if ctx.Err() != nil || !errors.As(err, &status) {
		return nil, fmt.Errorf("a dry run for %s: %w", at.name, err)
	}
	failure := cluster.Explain(err)
	switch failure.Reason {
	case cluster.ReasonForbidden, cluster.ReasonUnavailable, cluster.ReasonTooLarge, cluster.ReasonFieldLoss, cluster.ReasonOther:
		r.ask(fmt.Sprintf("what the server does when an object is written at %s: %s", v.name, failure.Message))
	case cluster.ReasonInvalid, cluster.ReasonAdmissionDenied, cluster.ReasonConversionFailed:
		if strings.Contains(strings.ReplaceAll(failure.Message, " ", ""), "dryrun") {
			r.ask(fmt.Sprintf("what the server does when an object is written at %s: %s", v.name, failure.Message))
			return nil, nil
		}
		for _, t := range r.trips {
			if t.to == v {
				r.recordFailure(t, at, string(failure.Reason), fmt.Sprintf("written at %s as it was read: %s", v.name, failure.Message))
			}
		}
	}
	return nil, nil
}

// checkRewrite compares an object that the server wrote again with what the stages
// make of it.
func (r *run) checkRewrite(ctx context.Context, v *version, before, after map[string]any, at placed) error {
	got := conversion.Differences(before, after, v.schema)
	if len(got) == 0 {
		return nil
	}
	var want []conversion.Difference
	if r.unreachable.Load() == nil {
		// The server sets the defaults of the version that is written at, too.
		result, err := replay(ctx, r.converter, before, chain(v, r.storage, r.storage, true), stages{prune: every, defaults: every})
		if err == nil {
			want = conversion.Differences(before, result.object, v.schema)
		} else if err := r.failed(ctx, trip{from: v, to: r.storage}, at, err); err != nil || r.unreachable.Load() == nil {
			return err
		}
		// Where the webhook cannot be called, this is the first to find out: what the
		// server showed is all there is, and is not to be dropped.
	}
	for _, t := range r.trips {
		if t.from == v {
			r.recordServer(t, at, got, want, "")
		}
	}
	return nil
}

// recordServer notes what the server does and the stages do not.
func (r *run) recordServer(t trip, at placed, got, want []conversion.Difference, version string) {
	stage := v1alpha1.StageServer
	if r.unreachable.Load() != nil {
		stage = v1alpha1.StageUnknown
	}
	var found []blamed
	for _, d := range got {
		same := func(w conversion.Difference) bool { return conversion.Within(d.At, w.At) && w.Change == d.Change }
		if !slices.ContainsFunc(want, same) {
			found = append(found, blamed{Difference: d, stage: stage, version: version})
		}
	}
	if len(found) > 0 {
		r.recordExtra(t, at, found)
	}
}

package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// lostPatch is a patch of the CRD whose answer was lost: it may have arrived, or arrive
// yet. The resourceVersion in it lets only one of it and a later one through.
type lostPatch struct {
	before, want *apiextensionsv1.CustomResourceDefinition
	manager      string
	subresource  string
}

// lost returns the patch that was sent to the CRD as it was read, if err leaves open
// whether it was done, and nil where it does not.
func lost(ctx context.Context, err error, read *apiextensionsv1.CustomResourceDefinition, body []byte, manager, subresource string) *lostPatch {
	if ctx.Err() != nil || !cluster.Transient(err) && !cluster.Unanswered(err) {
		return nil
	}
	want, err := patched(read, body)
	if err != nil {
		return nil // What it would have come to is not known.
	}
	return &lostPatch{before: read, want: want, manager: manager, subresource: subresource}
}

// patched returns what a JSON patch makes of the CRD.
func patched(read *apiextensionsv1.CustomResourceDefinition, body []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	document, err := json.Marshal(read)
	if err != nil {
		return nil, fmt.Errorf("encoding the CRD: %w", err)
	}
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, fmt.Errorf("decoding the patch: %w", err)
	}
	if document, err = patch.Apply(document); err != nil {
		return nil, fmt.Errorf("applying the patch: %w", err)
	}
	want := new(apiextensionsv1.CustomResourceDefinition)
	if err := json.Unmarshal(document, want); err != nil {
		return nil, fmt.Errorf("decoding the CRD: %w", err)
	}
	if !equality.Semantic.DeepEqual(want.Spec, read.Spec) {
		want.Generation++ // As the server does.
	}
	return want, nil
}

// arrived tells whether the CRD is as the patch made it: written since, by our manager,
// with what the patch sets, and with nothing else that counts changed. Conditions, and
// the hold that this run renews meanwhile, do not count. By the generation, nobody has
// changed the spec back and forth.
func (l *lostPatch) arrived(now *apiextensionsv1.CustomResourceDefinition) bool {
	if l == nil || now.UID != l.before.UID || now.Generation != l.want.Generation || now.ResourceVersion == l.before.ResourceVersion || now.DeletionTimestamp != nil {
		return false
	}
	ours := false
	for _, entry := range now.ManagedFields {
		ours = ours || entry.Manager == l.manager && entry.Subresource == l.subresource
	}
	if !ours || !equality.Semantic.DeepEqual(now.Spec, l.want.Spec) || !maps.Equal(withoutHold(now.Annotations), withoutHold(l.want.Annotations)) {
		return false
	}
	if l.subresource != "" {
		return equality.Semantic.DeepEqual(now.Status.StoredVersions, l.want.Status.StoredVersions)
	}
	return true
}

func withoutHold(annotations map[string]string) map[string]string {
	annotations = maps.Clone(annotations)
	delete(annotations, lifecycle.HoldAnnotation)
	return annotations
}

package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// Look is how the objects of a CRD were looked at for some that cannot be read.
type Look struct {
	// Whole says that every page was listed, or that something was found.
	Whole bool
	// Error says why the objects could not be listed, other than what was found.
	Error string
}

// Unreadable lists the objects of a CRD, metadata only, for some that the server
// cannot decode: the pages of a list with a limit come from etcd and fail with
// the cause (fact 14). Only the whole list proves that there are none; without
// whole, it ends after the first page.
func (o *Observer) Unreadable(ctx context.Context, c crd.CRD, whole bool, observations *lifecycle.Observations) Look {
	endpoint := lifecycle.New(c, lifecycle.Observations{}).Endpoint()
	if endpoint == "" {
		return Look{Error: "no version is served"}
	}
	objects := o.objectsAt(c, endpoint)
	var err error
	complete := false
	if whole {
		complete = true
		err = cluster.EachPage(ctx, objects, cluster.PageOptions{}, func(*metav1.PartialObjectMetadataList) error { return nil })
	} else {
		err = cluster.Retry(ctx, func() error {
			page, err := objects.ListMetadata(ctx, cluster.PageOptions{Limit: objectsPageSize})
			complete = err == nil && page.Continue == ""
			return err
		})
	}
	if err == nil {
		return Look{Whole: complete}
	}
	found := cluster.Unreadable(err)
	for _, object := range found {
		o.noteUnreadable(c, object, observations)
	}
	if len(found) == 0 {
		return Look{Error: cluster.Explain(err).Message}
	}
	if len(observations.LostVersions) > 0 {
		observations.LostVersion = observations.LostVersions[0]
	}
	return Look{Whole: true}
}

func (o *Observer) noteUnreadable(c crd.CRD, object cluster.UnreadableObject, observations *lifecycle.Observations) {
	version, own := strings.CutPrefix(object.GroupVersion, c.Spec.Group+"/")
	switch {
	case own && c.Version(version) == nil:
		observations.LostObjects++
		if !slices.Contains(observations.LostVersions, version) {
			observations.LostVersions = append(observations.LostVersions, version)
		}
	case object.Conversion:
		// The webhook failed, or the server has not caught up with the CRD: the
		// object is intact.
		observations.ObjectsError = object.Message
	default:
		name := object.Key
		if _, rest, found := strings.Cut(object.Key, "/"+c.Spec.Group+"/"+c.Spec.Names.Plural+"/"); found {
			name = rest
		}
		observations.Corrupt = append(observations.Corrupt, lifecycle.UnreadableObject{Name: name, Message: object.Message})
	}
}

// suspect reports whether versions may have been removed while objects were
// stored at them.
func suspect(c crd.CRD) bool {
	return !lifecycle.New(c, lifecycle.Observations{}).Trust.Trusted || c.Condition(apiextensionsv1.StorageMigrating) != nil
}

// Suspect reports whether more than the first objects of a CRD are worth a look.
func Suspect(c crd.CRD) bool { return suspect(c) || len(lifecycle.Rescued(c)) > 0 }

// unknown takes back a number of objects that was told although not all of them
// can be read: the first one can.
func (o *Observer) unknown(c crd.CRD, observations *lifecycle.Observations) {
	switch {
	case observations.LostVersion != "":
		observations.ObjectsError = lifecycle.Lost(c, observations.LostVersion) + ": " + lifecycle.Rescue(c, observations.LostVersion)
	case len(observations.Corrupt) > 0 && observations.ObjectsError == "":
		observations.ObjectsError = "the object " + observations.Corrupt[0].Name + " cannot be decoded: " + observations.Corrupt[0].Message
	}
}

// lostConversion asks the conversion webhook whether it knows the versions that
// are missing, with an object that is made up. No object can be read that is
// stored at one; a webhook that wants more of an object is no worse for that.
func (o *Observer) lostConversion(ctx context.Context, c crd.CRD, observations *lifecycle.Observations) {
	for _, version := range observations.LostVersions {
		converter, err := review.For(o.cluster, c)
		if err == nil {
			object := map[string]any{
				"apiVersion": c.Spec.Group + "/" + version, "kind": c.Spec.Names.Kind,
				"metadata": map[string]any{"name": "made-up", "uid": "00000000-0000-0000-0000-000000000000"},
				"spec":     map[string]any{},
			}
			_, err = converter.Convert(ctx, []map[string]any{object}, c.Spec.Group+"/"+c.StorageVersion())
		}
		if err != nil {
			observations.LostConversion = fmt.Sprintf("%s to %s: %s", version, c.StorageVersion(), cluster.Explain(err).Message)
			return
		}
	}
}

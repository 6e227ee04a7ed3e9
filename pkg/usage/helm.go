package usage

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const (
	// helmPage is small: each release may have a megabyte.
	helmPage = 10
	// maxRelease bounds what a release unpacks to. Packed it has at most 1 MiB, or
	// etcd would not take it; more than this is not text.
	maxRelease = 32 << 20
	// helmDeployed selects the revision of each release that is deployed: Helm
	// labels older ones "superseded". It is what the next upgrade is compared with,
	// and that fails if the server does not know an apiVersion in it.
	helmDeployed = "owner=helm,status=deployed"
)

// errNoRelease says that an object does not hold a release of Helm.
var errNoRelease = errors.New("not a release of Helm")

// Helm looks into the releases that Helm keeps in Secrets and ConfigMaps. They are
// unpacked in memory; of the manifests, only apiVersion, kind and names are read.
func (s *Surroundings) Helm() Collector {
	s.helm = true
	h := &helm{Surroundings: s, newest: map[string]*release{}}
	return &scan{Surroundings: s, source: v1alpha1.UsageHelm, needed: true, finish: h.finish, kinds: []scanned{
		{resource: schema.GroupResource{Resource: "secrets"}, page: helmPage, selector: helmDeployed, visit: h.visit},
		{resource: schema.GroupResource{Resource: "configmaps"}, page: helmPage, selector: helmDeployed, visit: h.visit},
	}}
}

type helm struct {
	*Surroundings

	// newest is by namespace/name of the release.
	newest map[string]*release
	// unreadable are objects that hold no release.
	unreadable []string
}

// release is what is kept of a release.
type release struct {
	revision int
	uses     manages
}

// packedRelease is what matters of a release as Helm stores it.
type packedRelease struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Manifest  string `json:"manifest"`
	Hooks     []struct {
		Manifest string `json:"manifest"`
	} `json:"hooks"`
}

func (h *helm) visit(object *unstructured.Unstructured, _ reporter) error {
	packed, err := unpackRelease(object)
	if err != nil {
		h.unreadable = append(h.unreadable, display(object))
		return nil //nolint:nilerr // Anybody can label a Secret; it is named in the end.
	}
	// A release that says nothing of itself is that of the object.
	name := packed.Namespace + "/" + packed.Name
	if packed.Name == "" {
		name = display(object)
	}
	revision, _ := strconv.Atoi(object.GetLabels()["version"]) // 0 is older than any.
	if known := h.newest[name]; known != nil && known.revision >= revision {
		return nil
	}
	one := &release{revision: revision, uses: manages{Surroundings: h.Surroundings}}
	h.read(&one.uses, packed.Manifest)
	for _, hook := range packed.Hooks {
		h.read(&one.uses, hook.Manifest)
	}
	h.newest[name] = one
	return nil
}

// unpackRelease decodes data.release: base64 of gzip of JSON, and of a Secret,
// base64 once more.
func unpackRelease(object *unstructured.Unstructured) (packedRelease, error) {
	var unpacked packedRelease
	text, found, err := unstructured.NestedString(object.Object, "data", "release")
	if err != nil || !found {
		return unpacked, errNoRelease
	}
	data := []byte(text)
	if object.GetKind() == "Secret" {
		if data, err = base64.StdEncoding.DecodeString(text); err != nil {
			return unpacked, errNoRelease
		}
	}
	zipped := base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data))
	plain, err := gzip.NewReader(zipped)
	if err != nil {
		return unpacked, fmt.Errorf("unpacking: %w", err)
	}
	limited := &io.LimitedReader{R: plain, N: maxRelease}
	if err := json.NewDecoder(limited).Decode(&unpacked); err != nil {
		return unpacked, fmt.Errorf("decoding: %w", err)
	}
	return unpacked, nil
}

// read counts the documents of a manifest.
func (h *helm) read(uses *manages, manifest string) {
	for document := range documents(manifest) {
		if !h.mentioned(document) {
			continue // Most are: parsing is what takes time.
		}
		var object struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
			} `json:"metadata"`
		}
		if yaml.Unmarshal([]byte(document), &object) == nil {
			uses.add(object.APIVersion, object.Kind, object.Metadata.Namespace, object.Metadata.Name)
		}
	}
}

// mentioned tells whether a text has the group of a target.
func (h *helm) mentioned(text string) bool {
	return slices.ContainsFunc(h.targets, func(target Target) bool { return strings.Contains(text, target.Group()+"/") })
}

// documents splits a stream of YAML documents where Helm puts its separators.
func documents(manifest string) func(yield func(string) bool) {
	return strings.SplitSeq("\n"+manifest, "\n---")
}

// finish reports the newest revisions.
func (h *helm) finish(report reporter) []v1alpha1.Unlooked {
	for _, name := range slices.Sorted(maps.Keys(h.newest)) {
		h.newest[name].uses.report(v1alpha1.UsageEvidence{
			Who: name, WhoKind: "release", Note: fmt.Sprintf("revision %d", h.newest[name].revision),
		}, report)
	}
	if len(h.unreadable) == 0 {
		return nil
	}
	return []v1alpha1.Unlooked{{Source: v1alpha1.UsageHelm, Why: fmt.Sprintf("%s no release that can be read", several(h.unreadable, "hold"))}}
}

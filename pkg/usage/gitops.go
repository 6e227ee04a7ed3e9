package usage

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// smallPage is the page of objects that may be large: their status lists all that
// they manage.
const smallPage = 50

// ArgoCD looks at what Applications of Argo CD manage: it applies, and watches,
// at the version of their manifests.
func (s *Surroundings) ArgoCD() Collector {
	return &scan{Surroundings: s, source: v1alpha1.UsageArgoCD, kinds: []scanned{{
		resource: schema.GroupResource{Group: "argoproj.io", Resource: "applications"}, page: smallPage, visit: s.application,
	}}}
}

func (s *Surroundings) application(object *unstructured.Unstructured, report reporter) error {
	type application struct {
		Status struct {
			Resources []struct {
				Group     string `json:"group"`
				Version   string `json:"version"`
				Kind      string `json:"kind"`
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
			} `json:"resources"`
		} `json:"status"`
	}
	read, _ := decode[application](object)
	managed := manages{Surroundings: s}
	for _, r := range read.Status.Resources {
		managed.add(r.Group+"/"+r.Version, r.Kind, r.Namespace, r.Name)
	}
	managed.report(v1alpha1.UsageEvidence{Who: "Application " + display(object), WhoKind: "object"}, report)
	return nil
}

// Flux looks at the inventories of Kustomizations and HelmReleases of Flux: it
// applies at the version of their manifests.
func (s *Surroundings) Flux() Collector {
	f := &flux{Surroundings: s}
	return &scan{Surroundings: s, source: v1alpha1.UsageFlux, finish: f.finish, kinds: []scanned{
		{resource: schema.GroupResource{Group: "kustomize.toolkit.fluxcd.io", Resource: "kustomizations"}, page: smallPage, visit: f.inventory},
		{resource: schema.GroupResource{Group: "helm.toolkit.fluxcd.io", Resource: "helmreleases"}, page: smallPage, visit: f.inventory},
	}}
}

type flux struct {
	*Surroundings

	// without are HelmReleases that have no inventory: older controllers keep none,
	// and what they manage is in the release of Helm.
	without []string
}

func (f *flux) finish(reporter) []v1alpha1.Unlooked {
	if len(f.without) == 0 || f.helm {
		return nil
	}
	return []v1alpha1.Unlooked{{
		Source: v1alpha1.UsageFlux, Why: fmt.Sprintf("HelmReleases without an inventory: %s", several(f.without, "")), Command: "--helm", Optional: true,
	}}
}

// inventory reads entries with an id NAMESPACE_NAME_GROUP_KIND, where a colon in a
// name is written as two underscores, and the version.
func (f *flux) inventory(object *unstructured.Unstructured, report reporter) error {
	type reconciled struct {
		Status struct {
			Inventory *struct {
				Entries []struct {
					ID      string `json:"id"`
					Version string `json:"v"`
				} `json:"entries"`
			} `json:"inventory"`
		} `json:"status"`
	}
	read, _ := decode[reconciled](object)
	if read.Status.Inventory == nil {
		if object.GetKind() == "HelmRelease" {
			f.without = append(f.without, display(object))
		}
		return nil
	}
	managed := manages{Surroundings: f.Surroundings}
	for _, entry := range read.Status.Inventory.Entries {
		fields := strings.Split(entry.ID, "_")
		if n := len(fields); n >= 4 {
			managed.add(fields[n-2]+"/"+entry.Version, fields[n-1], fields[0], strings.Join(fields[1:n-2], "_"))
		}
	}
	managed.report(v1alpha1.UsageEvidence{Who: object.GetKind() + " " + display(object), WhoKind: "object"}, report)
	return nil
}

// manages counts what one object manages, by target and version.
type manages struct {
	*Surroundings

	of []managed
}

type managed struct {
	target   Target
	version  string
	count    int64
	examples []string
}

// add counts an object, if it is one of a target.
func (m *manages) add(apiVersion, kind, namespace, name string) {
	target, version, named := m.target(apiVersion, kind)
	if !named {
		return
	}
	at := -1
	for i := range m.of {
		if m.of[i].target.CRD.Name == target.CRD.Name && m.of[i].version == version {
			at = i
		}
	}
	if at < 0 {
		m.of = append(m.of, managed{target: target, version: version})
		at = len(m.of) - 1
	}
	m.of[at].count++
	if len(m.of[at].examples) < maxExamples {
		if namespace != "" {
			name = fmt.Sprintf("%s/%s", namespace, name)
		}
		m.of[at].examples = append(m.of[at].examples, name)
	}
}

// report reports a row for each version, as one that names it.
func (m *manages) report(row v1alpha1.UsageEvidence, report reporter) {
	for _, of := range m.of {
		row.Version, row.What, row.Proves = of.version, "names", v1alpha1.ProvesReference
		row.Count, row.CountOf, row.Examples = of.count, "objects", of.examples
		report(of.target, row)
	}
}

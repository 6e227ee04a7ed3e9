package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// Manager is a tool that appears to own the CRD.
type Manager struct {
	// Name is the tool's, and Instance its release, application or kustomization.
	Name, Instance string
	// Evidence is the label, annotation, owner reference or managedFields entry.
	Evidence string
	// Reverts says that the tool is known to put its own manifest back.
	Reverts bool
}

// mark is a label or annotation by which a tool is known.
type mark struct {
	tool       string
	annotation bool
	key        string
	// value is required if it is not empty.
	value   string
	reverts bool
	// instance is the key of the label or annotation that names the instance.
	instance string
}

func marks() []mark {
	return []mark{
		{tool: "Flux", key: "kustomize.toolkit.fluxcd.io/name", reverts: true, instance: "kustomize.toolkit.fluxcd.io/name"},
		{tool: "Flux", key: "helm.toolkit.fluxcd.io/name", reverts: true, instance: "helm.toolkit.fluxcd.io/name"},
		{tool: "Argo CD", annotation: true, key: "argocd.argoproj.io/tracking-id", reverts: true, instance: "argocd.argoproj.io/tracking-id"},
		{tool: "Argo CD", key: "argocd.argoproj.io/instance", reverts: true, instance: "argocd.argoproj.io/instance"},
		{tool: "Helm", key: "app.kubernetes.io/managed-by", value: "Helm", instance: "meta.helm.sh/release-name"},
		{tool: "OLM", key: "olm.managed", value: "true", reverts: true},
		{tool: "addon-manager", key: "addonmanager.kubernetes.io/mode", value: "Reconcile", reverts: true},
		{tool: "addon-manager", key: "addonmanager.kubernetes.io/mode", value: "EnsureExists"},
		{tool: "kapp", key: "kapp.k14s.io/app", instance: "kapp.k14s.io/app"},
	}
}

// controllers are the field managers by which a tool is known when it left no mark.
func controllers() map[string]Manager {
	return map[string]Manager{
		"argocd-controller":             {Name: "Argo CD", Reverts: true},
		"argocd-application-controller": {Name: "Argo CD", Reverts: true},
		"kustomize-controller":          {Name: "Flux", Reverts: true},
		"helm-controller":               {Name: "Flux", Reverts: true},
		"helm":                          {Name: "Helm"},
		"catalog":                       {Name: "OLM", Reverts: true},
	}
}

// managers tells who appears to own the CRD: a change that its owner's manifest
// does not have will be put back.
func managers(c crd.CRD) []Manager {
	var found []Manager
	add := func(m Manager) {
		if !slices.ContainsFunc(found, func(f Manager) bool { return f.Name == m.Name }) {
			found = append(found, m)
		}
	}
	for _, m := range marks() {
		where, kind := c.Labels, "label"
		if m.annotation {
			where, kind = c.Annotations, "annotation"
		}
		value, ok := where[m.key]
		if !ok || (m.value != "" && value != m.value) {
			continue
		}
		instance := c.Labels[m.instance]
		if instance == "" {
			instance = c.Annotations[m.instance]
		}
		// A tracking id is "application:group/kind:namespace/name".
		instance, _, _ = strings.Cut(instance, ":")
		add(Manager{Name: m.tool, Instance: instance, Evidence: fmt.Sprintf("%s %s=%s", kind, m.key, value), Reverts: m.reverts})
	}
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		if name, ok := strings.CutPrefix(key, "operators.coreos.com/"); ok {
			add(Manager{Name: "OLM", Instance: name, Evidence: "label " + key, Reverts: true})
		}
	}
	for _, owner := range c.OwnerReferences {
		evidence := "ownerReference"
		if owner.Controller != nil && *owner.Controller {
			evidence = "controller ownerReference"
		}
		add(Manager{
			Name: owner.Kind, Instance: owner.Name, Evidence: evidence + " " + owner.APIVersion,
			Reverts: owner.Controller != nil && *owner.Controller,
		})
	}
	known := controllers()
	for _, w := range fieldWriters(c, "spec", "versions") {
		m, ok := known[w.manager]
		if !ok {
			m = Manager{Name: w.manager}
		}
		m.Evidence = fmt.Sprintf("managedFields: %q wrote spec.versions%s", w.manager, w.at())
		add(m)
	}
	return found
}

// Reverter returns the owner that is known to put its own manifest back, or nil.
func (s State) Reverter() *Manager {
	for i := range s.Managers {
		if s.Managers[i].Reverts {
			return &s.Managers[i]
		}
	}
	return nil
}

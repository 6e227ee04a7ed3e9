package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// usage runs "usage ... -o json" and returns the versions of the report.
func (b *bed) usage(t *testing.T, code int, args ...string) []v1alpha1.VersionUsage {
	t.Helper()
	r := b.must(t, code, append([]string{"usage", "-o", "json", "--skip", "metrics"}, args...)...)
	var report v1alpha1.UsageReport
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v\n%s", err, r)
	}
	return report.Items
}

// evidence is the evidence of a version from a source, as text.
func evidence(item v1alpha1.VersionUsage, source v1alpha1.UsageSource) []string {
	var lines []string
	for _, e := range item.Evidence {
		if e.Source == source {
			lines = append(lines, fmt.Sprintf("%s %s %s %d %s %s", e.WhoKind, e.Who, e.What, e.Count, e.CountOf, e.Proves))
		}
	}
	return lines
}

// wantUsage makes sure of a verdict and of the evidence of a source.
func wantUsage(t *testing.T, item v1alpha1.VersionUsage, verdict v1alpha1.UsageVerdict, source v1alpha1.UsageSource, want ...string) {
	t.Helper()
	if item.Verdict != verdict {
		t.Errorf("%s %s: %s (%s), want %s", item.CRD, item.Version, item.Verdict, item.Why, verdict)
	}
	if got := evidence(item, source); !slices.Equal(got, want) {
		t.Errorf("%s %s: %s says\n%s\nwant\n%s", item.CRD, item.Version, source, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantUnlooked makes sure that a source is named that was not looked at.
func wantUnlooked(t *testing.T, item v1alpha1.VersionUsage, source v1alpha1.UsageSource, why string) {
	t.Helper()
	for _, missing := range item.NotLooked {
		if missing.Source == source && strings.Contains(missing.Why, why) && missing.Command != "" {
			return
		}
	}
	t.Errorf("%s %s: not looked at: %+v; want %s: %s", item.CRD, item.Version, item.NotLooked, source, why)
}

// createIn creates an object of a resource in a namespace.
func (b *bed) createIn(t *testing.T, version, plural, namespace string, object map[string]any) {
	t.Helper()
	u := &unstructured.Unstructured{Object: object}
	gvk := u.GroupVersionKind()
	_, err := b.objects(t).Resource(gvk.GroupVersion().WithResource(plural)).Namespace(namespace).Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating %s at %s: %v", plural, version, err)
	}
}

// anything creates a CRD whose objects can have any fields.
func (b *bed) anything(t *testing.T, group, version, plural, kind string) {
	t.Helper()
	c := crontabs(group, version)
	c.Name = plural + "." + group
	c.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"}
	keep := true
	c.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}
	c.Spec.Versions[0].Subresources, c.Spec.Versions[0].AdditionalPrinterColumns = nil, nil
	b.createCRD(t, c)
}

// setManaged replaces the managedFields of an object.
func (b *bed) setManaged(t *testing.T, group, through, namespace, name, managed string) {
	t.Helper()
	_, err := b.objects(t).Resource(resource(group, through)).Namespace(namespace).
		Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"managedFields":[`+managed+`]}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestUsage is about the words that the command takes, and what it finds around
// the objects.
func TestUsage(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, "usage.example.com", 4)
	before := b.revisions(t)

	items := b.usage(t, 2, "v1beta1", name)
	wantUsage(t, items[0], v1alpha1.UsageInUse, v1alpha1.UsageManagedFields, "manager e2e.test write 4 objects use")
	if *items[0].Objects != 4 || !items[0].Served || !items[0].Storage || len(items) != 1 {
		t.Errorf("%+v", items)
	}
	wantUnlooked(t, items[0], v1alpha1.UsageHelm, "not asked for")
	// What is older than the window is not use. Times are whole seconds.
	wantUsage(t, b.usage(t, 0, "v1beta1", name, "--usage-window", "1us")[0], v1alpha1.UsageProbablyUnused,
		v1alpha1.UsageManagedFields, "manager e2e.test write 4 objects use")
	items = b.usage(t, 2, name)
	if len(items) != 2 || items[0].Version != "v1" || items[1].Version != "v1beta1" {
		t.Fatalf("%+v", items)
	}
	wantUsage(t, items[0], items[0].Verdict, v1alpha1.UsageManagedFields)
	r := b.must(t, 2, "usage", "v1beta1", "ct")
	contains(t, r.stdout, "manager e2e.test", "4 objects", "managed-fields", "in use (manager e2e.test used it",
		"kubectl crdver usage v1beta1 "+name+" --kubeconfig "+b.kubeconfig+" --helm")
	if r.stderr != "" {
		t.Errorf("stderr: %s", r.stderr)
	}
	contains(t, b.must(t, 2, "usage", "v1beta1", "-o", "name").stdout, "customresourcedefinition.apiextensions.k8s.io/"+name)
	b.wantUnwritten(t, before)

	odd := crontabs("odd.example.com", "foo1", "v1")
	odd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "odds", Singular: "odd", Kind: "Odd", ListKind: "OddList"}
	odd.Name = "odds.odd.example.com"
	b.createCRD(t, odd)
	contains(t, b.must(t, 1, "usage").stderr, "2 CustomResourceDefinitions fit, name one:", "kubectl crdver usage "+name, "kubectl crdver usage odds.odd.example.com")
	contains(t, b.must(t, 1, "usage", "v1").stderr, "kubectl crdver usage v1 "+name)
	contains(t, b.must(t, 1, "usage", "v1beta2").stderr, `none of the 2 CustomResourceDefinitions has a version "v1beta2"; did you mean "v1beta1"?`)
	contains(t, b.must(t, 1, "usage", name, "v1beta1").stderr, `"v1beta1" is no CRD: a version comes first, and only one`)
	contains(t, b.must(t, 1, "usage", "v1", "version/v1beta1").stderr, "a version comes first")
	contains(t, b.must(t, 1, "usage", "nothing").stderr, `no CustomResourceDefinition is named "nothing"`)
	contains(t, b.must(t, 1, "usage", "v1", name, "--all").stderr, "not both")
	contains(t, b.must(t, 1, "usage", "v1", name, "--usage-window", "0").stderr, "--usage-window 0s: it must be longer than 0")
	contains(t, b.must(t, 1, "usage", "v1", name, "--skip", "rumours").stderr, "--skip rumours: the sources are managed-fields, owner-reference")
	contains(t, b.must(t, 1, "usage", "v7", name).stderr, "has no version v7 (it has v1, v1beta1): looking for what is left of it",
		name+` does not have, and nothing names, a version "v7"; did you mean "v1"?`)
	contains(t, b.must(t, 1, "usage", "v1beta11", name, odd.Name).stderr,
		`none of the 2 CustomResourceDefinitions has, and nothing names, a version "v1beta11"; did you mean "v1beta1"?`)
	contains(t, b.must(t, 1, "usage", "v1bet1", name).stderr,
		`no CustomResourceDefinition is named "v1bet1"`, `if it is to be a version: did you mean "v1beta1"?`)
	b.must(t, 0, "usage", "foo1", name, odd.Name)
	// One that was retired is known.
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Annotations = map[string]string{plan.RetiredAnnotation: "v1alpha1"}
	})
	contains(t, b.must(t, 0, "usage", "v1alpha1", name).stderr, "looking for what is left of it")
	if got := b.usage(t, 0, "foo1"); got[0].CRD != odd.Name || got[0].Version != "foo1" {
		t.Errorf("foo1: %+v", got)
	}
	if got := b.usage(t, 2, "--all", "v1beta1"); len(got) != 1 || got[0].CRD != name {
		t.Errorf("--all v1beta1: %+v", got)
	}
	b.anything(t, "named.example.com", "v1", "foo1", "Foo1")
	contains(t, b.must(t, 1, "usage", "foo1").stderr, `"foo1" is the CRD foo1.named.example.com and a version of odds.odd.example.com: write crd/foo1 or version/foo1`)
	if got := b.usage(t, 0, "version/foo1"); got[0].CRD != odd.Name {
		t.Errorf("version/foo1: %+v", got)
	}
	if got := b.usage(t, 0, "crd/foo1"); got[0].CRD != "foo1.named.example.com" {
		t.Errorf("crd/foo1: %+v", got)
	}
	left := b.usage(t, 0, "v1beta1", name, "--skip", "managed-fields,owner-reference")[0]
	wantUsage(t, left, v1alpha1.UsageProbablyUnused, v1alpha1.UsageManagedFields)
	wantUnlooked(t, left, v1alpha1.UsageManagedFields, "left out with --skip")
}

// TestUsageGitOps has objects of Argo CD and Flux, as their controllers leave
// them, that manage objects at both versions, and some of other kinds.
func TestUsageGitOps(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, "gitops.example.com", 1)
	b.anything(t, "argoproj.io", "v1alpha1", "applications", "Application")
	b.anything(t, "kustomize.toolkit.fluxcd.io", "v1", "kustomizations", "Kustomization")
	managed := func(version, kind, object string) map[string]any {
		return map[string]any{"group": "gitops.example.com", "version": version, "kind": kind, "namespace": "a", "name": object, "status": "Synced"}
	}
	b.createIn(t, "v1alpha1", "applications", "argocd", map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": map[string]any{"name": "shop"},
		"status": map[string]any{"resources": []any{
			managed("v1beta1", "CronTab", "one"), managed("v1beta1", "CronTab", "two"), managed("v1", "CronTab", "three"), managed("v1beta1", "Other", "four"),
			map[string]any{"version": "v1", "kind": "Service", "name": "five"},
		}},
	})
	b.createIn(t, "v1alpha1", "applications", "argocd", map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": map[string]any{"name": "strange"},
		"status": map[string]any{"resources": "none"},
	})
	b.createIn(t, "v1", "kustomizations", "flux-system", map[string]any{
		"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": map[string]any{"name": "apps"},
		"status": map[string]any{"inventory": map[string]any{"entries": []any{
			map[string]any{"id": "a_one_gitops.example.com_CronTab", "v": "v1beta1"},
			map[string]any{"id": "_a__role_gitops.example.com_CronTab", "v": "v1beta1"},
			map[string]any{"id": "a_two_gitops.example.com_CronTab", "v": "v1"},
			map[string]any{"id": "nonsense", "v": "v1beta1"},
		}}},
	})
	b.anything(t, "helm.toolkit.fluxcd.io", "v2", "helmreleases", "HelmRelease")
	b.createIn(t, "v2", "helmreleases", "flux-system", map[string]any{
		"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": map[string]any{"name": "shop"},
		"status": map[string]any{"inventory": map[string]any{"entries": []any{
			map[string]any{"id": "b_one_gitops.example.com_CronTab", "v": "v1beta1"},
			map[string]any{"id": "_cluster-wide_gitops.example.com_Other", "v": "v1beta1"},
			map[string]any{"id": "b_two__apps_Deployment", "v": "v1"},
		}}},
	})
	// One that has no inventory, as those of older controllers.
	b.createIn(t, "v2", "helmreleases", "flux-system", map[string]any{
		"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": map[string]any{"name": "older"},
		"status": map[string]any{"history": []any{map[string]any{"chartName": "shop"}}},
	})
	items := b.usage(t, 2, name, "--usage-window", "1us")
	wantUnlooked(t, items[1], v1alpha1.UsageFlux, "HelmReleases without an inventory: flux-system/older")
	wantUsage(t, items[1], v1alpha1.UsageInUse, v1alpha1.UsageArgoCD, "object Application argocd/shop names 2 objects reference")
	wantUsage(t, items[1], v1alpha1.UsageInUse, v1alpha1.UsageFlux,
		"object Kustomization flux-system/apps names 2 objects reference", "object HelmRelease flux-system/shop names 1 objects reference")
	wantUsage(t, items[0], v1alpha1.UsageInUse, v1alpha1.UsageArgoCD, "object Application argocd/shop names 1 objects reference")
	for _, e := range items[1].Evidence {
		if e.Source == v1alpha1.UsageArgoCD && !slices.Equal(e.Examples, []string{"a/one", "a/two"}) ||
			e.Source == v1alpha1.UsageFlux && !slices.Equal(e.Examples, map[bool][]string{true: {"b/one"}, false: {"a/one", "a__role"}}[strings.HasPrefix(e.Who, "HelmRelease")]) {
			t.Errorf("examples %q", e.Examples)
		}
	}
}

// TestUsageOfReportedFailures has the reported failures that are about who still
// uses a version.
func TestUsageOfReportedFailures(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	t.Run("27 a deprecated beta is still the default", func(t *testing.T) {
		t.Parallel()
		c := crontabs("c27.example.com", "v2alpha1", "v1beta1")
		c.Spec.Versions[1].Deprecated = true
		item := b.usage(t, 0, "v1beta1", b.createCRD(t, c))[0]
		if !item.Deprecated || !slices.ContainsFunc(item.Notes, func(note string) bool {
			return strings.Contains(note, "kubectl and other clients that go by discovery use")
		}) {
			t.Errorf("%+v", item)
		}
	})
	t.Run("35 all versions are deprecated", func(t *testing.T) {
		t.Parallel()
		c := crontabs("c35.example.com", "v1alpha1", "v1beta1")
		c.Spec.Versions[0].Deprecated, c.Spec.Versions[1].Deprecated = true, true
		for _, item := range b.usage(t, 0, b.createCRD(t, c)) {
			if !slices.Contains(item.Notes, "all served versions are deprecated: there is none to move to") {
				t.Errorf("%+v", item)
			}
		}
	})
	t.Run("51 unserved, and manifests still name it", func(t *testing.T) {
		t.Parallel()
		c := crontabs("c51.example.com", "v1", "v1beta1")
		name := b.createCRD(t, c)
		b.createObjects(t, c.Spec.Group, "v1beta1", 3, "team-a")
		_, err := b.objects(t).Resource(resource(c.Spec.Group, "v1")).Namespace("team-a").Patch(t.Context(), "object-000001", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"c51.example.com/v1beta1\"}"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b.setManaged(t, c.Spec.Group, "v1", "team-a", "object-000000",
			`{"manager":"argocd-controller","operation":"Apply","apiVersion":"c51.example.com/v1beta1","time":"2030-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:image":{}}}}`)
		b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[1].Served = false })
		item := b.usage(t, 2, "v1beta1", name)[0]
		wantUsage(t, item, v1alpha1.UsageInUse, v1alpha1.UsageLastApplied, "client client-side apply apply 1 objects past use")
		if got := evidence(item, v1alpha1.UsageManagedFields); !slices.Contains(got, "manager argocd-controller apply 1 objects use") {
			t.Errorf("managedFields: %q", got)
		}
		if !slices.Contains(item.Notes, "it is not served: a request at it fails now") {
			t.Errorf("notes %q", item.Notes)
		}
	})
	t.Run("81 the converter is down", func(t *testing.T) {
		t.Parallel()
		c := crontabs("c81.example.com", "v1beta1", "v1beta2")
		name := b.createCRD(t, c)
		b.createObjects(t, c.Spec.Group, "v1beta1", 3, "team-a")
		b.setManaged(t, c.Spec.Group, "v1beta1", "team-a", "object-000000", `{}`)
		// Whose managedFields were cleared tells nothing, and that is said.
		item := b.usage(t, 2, "v1beta1", name)[0]
		wantUnlooked(t, item, v1alpha1.UsageManagedFields, "1 of 3 objects have no managedFields")
		b.writeCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
			url := "https://127.0.0.1:1/convert"
			c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: nil}, ConversionReviewVersions: []string{"v1"},
			}}
			c.Spec.Versions[0].Storage, c.Spec.Versions[1].Storage = false, true
		})
		// Those of this CRD: other tests write theirs.
		revisions := func() map[string]int64 {
			all := b.revisions(t)
			maps.DeleteFunc(all, func(key string, _ int64) bool { return !strings.Contains(key, c.Spec.Group) })
			return all
		}
		before, broken := revisions(), v1alpha1.VersionUsage{}
		for range 100 { // Until the server has taken notice.
			if broken = b.usageAny(t, "v1beta1", name)[0]; len(broken.Evidence) == 0 {
				break
			}
		}
		wantUsage(t, broken, v1alpha1.UsageProbablyUnused, v1alpha1.UsageManagedFields)
		wantUnlooked(t, broken, v1alpha1.UsageManagedFields, "conversion webhook")
		if after := revisions(); !maps.Equal(before, after) {
			t.Errorf("written: %v, before %v", after, before)
		}
	})
	t.Run("83 an ownerReference names it", func(t *testing.T) {
		t.Parallel()
		c := crontabs("c83.example.com", "v1", "v1alpha2")
		name := b.createCRD(t, c)
		b.anything(t, "c83kids.example.com", "v1", "kids", "Kid")
		for _, version := range []string{"v1", "v1alpha2"} {
			b.createIn(t, "v1", "kids", "team-a", map[string]any{
				"apiVersion": "c83kids.example.com/v1", "kind": "Kid", "metadata": map[string]any{"name": "kid-" + version, "ownerReferences": []any{
					map[string]any{"apiVersion": "c83.example.com/" + version, "kind": "CronTab", "name": "own", "uid": "11111111-2222-3333-4444-555555555555"},
				}},
			})
		}
		item := b.usage(t, 2, "v1alpha2", name)[0]
		wantUsage(t, item, v1alpha1.UsageInUse, v1alpha1.UsageOwnerReference, "resource kids.c83kids.example.com names 1 objects reference")
		if !slices.Equal(item.Evidence[0].Examples, []string{"team-a/kid-v1alpha2"}) {
			t.Errorf("examples %q", item.Evidence[0].Examples)
		}
	})
}

// usageAny is usage whatever the exit code is.
func (b *bed) usageAny(t *testing.T, args ...string) []v1alpha1.VersionUsage {
	t.Helper()
	r := b.run(t, append([]string{"usage", "-o", "json", "--skip", "metrics"}, args...)...)
	var report v1alpha1.UsageReport
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v\n%s", err, r)
	}
	return report.Items
}

package lifecycle_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// live returns a live CRD; a version is "v1", "v1 unserved", "v1 deprecated",
// and the storage version is marked with a star.
func live(stored []string, versions ...string) crd.CRD {
	c := &apiextensionsv1.CustomResourceDefinition{}
	c.Name = "crontabs.stable.example.com"
	c.Spec.Group = "stable.example.com"
	c.Spec.Names.Kind = "CronTab"
	for _, v := range versions {
		words := strings.Fields(v)
		name, storage := strings.CutPrefix(words[0], "*")
		c.Spec.Versions = append(c.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Storage: storage,
			Served:     !slices.Contains(words, "unserved"),
			Deprecated: slices.Contains(words, "deprecated"),
		})
	}
	c.Status.StoredVersions = stored
	// The server records its own first write.
	c.ManagedFields = []metav1.ManagedFieldsEntry{wrote("kube-apiserver", "status", `{"f:status":{"f:acceptedNames":{}}}`)}
	return crd.CRD{CustomResourceDefinition: c}
}

func TestStates(t *testing.T) {
	s := lifecycle.New(live([]string{"v1beta1", "v1alpha1", "v1"}, "v1alpha1 unserved", "v1beta1 deprecated", "*v1", "v2", "v1alpha2 unserved"),
		lifecycle.Observations{})
	want := map[string]string{
		"v1": "storage", "v2": "served", "v1beta1": "deprecated, stored", "v1alpha1": "unserved, stored", "v1alpha2": "unserved",
	}
	for name, state := range want {
		if got := s.Version(name).State(); got != state {
			t.Errorf("%s: state %q, want %q", name, got, state)
		}
	}
	if got := s.KubectlDefault; got != "v2" {
		t.Errorf("default %q", got)
	}
	if got := s.StoredElsewhere("v1"); !slices.Equal(got, []string{"v1beta1", "v1alpha1"}) {
		t.Errorf("stored elsewhere %q", got)
	}
	if got := s.Endpoint(); got != "v1" {
		t.Errorf("endpoint %q", got)
	}
}

// TestNext is the answer to "what to do next", for the situations that people
// reported: the list says more than one version, was trimmed behind their back,
// is of a kind that is being given up.
func TestNext(t *testing.T) {
	failed := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.StorageMigrating, Status: apiextensionsv1.ConditionFalse, Reason: "MigrationFailed",
	}
	for name, test := range map[string]struct {
		crd        crd.CRD
		conditions []apiextensionsv1.CustomResourceDefinitionCondition
		want       string
	}{
		"storage is not the best version":       {crd: live([]string{"v1beta1"}, "v1", "*v1beta1"), want: "promote v1"},
		"old version still listed":              {crd: live([]string{"v1beta1", "v1"}, "*v1", "v1beta1"), want: "migrate"},
		"list cannot be trusted":                {crd: live([]string{"v1"}, "*v1", "v1beta1"), conditions: []apiextensionsv1.CustomResourceDefinitionCondition{failed}, want: "migrate"},
		"bogus entry":                           {crd: live([]string{"v1", "v0"}, "*v1"), want: "migrate"},
		"deprecated and no longer stored":       {crd: live([]string{"v1"}, "*v1", "v1beta1 deprecated"), want: "retire v1beta1"},
		"unserved and no longer stored":         {crd: live([]string{"v1"}, "*v1", "v1beta1 unserved"), want: "retire v1beta1"},
		"nothing left":                          {crd: live([]string{"v1"}, "*v1"), want: ""},
		"lower version served, not deprecated":  {crd: live([]string{"v1"}, "*v1", "v1beta1"), want: ""},
		"higher version that is not yet served": {crd: live([]string{"v1beta1"}, "v1 unserved", "*v1beta1"), want: ""},
		"nothing served":                        {crd: live([]string{"v1"}, "*v1 unserved", "v1beta1 unserved"), want: "restore v1"},
		"whole kind deprecated":                 {crd: live([]string{"v1alpha1"}, "v1beta1 deprecated", "*v1alpha1 deprecated"), want: ""},
		"successor of lower priority":           {crd: live([]string{"v2alpha1"}, "*v2alpha1", "v1beta1 deprecated"), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.crd.Status.Conditions = test.conditions
			command, why := lifecycle.New(test.crd, lifecycle.Observations{}).Next()
			want := ""
			if test.want != "" {
				want = "kubectl crdver " + test.want + " crontabs.stable.example.com"
			}
			if command != want || (command == "") != (why == "") {
				t.Errorf("got %q (%s), want %q", command, why, want)
			}
		})
	}
}

func wrote(manager, subresource, fields string) metav1.ManagedFieldsEntry {
	at := metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	return metav1.ManagedFieldsEntry{
		Manager: manager, Subresource: subresource, Operation: metav1.ManagedFieldsOperationUpdate, Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestTrust(t *testing.T) {
	const storedVersions = `{"f:status":{"f:storedVersions":{}}}`
	for name, test := range map[string]struct {
		fields       []metav1.ManagedFieldsEntry
		stored       []string
		observations lifecycle.Observations
		conditions   []apiextensionsv1.CustomResourceDefinitionCondition
		trusted      bool
		reason       string
	}{
		"untouched":                          {trusted: true, reason: "nothing is known"},
		"the server's own entry":             {fields: []metav1.ManagedFieldsEntry{wrote("kubectl", "", storedVersions)}, trusted: true, reason: "nothing is known"},
		"the server's conditions":            {fields: []metav1.ManagedFieldsEntry{wrote("kube-apiserver", "status", storedVersions)}, trusted: true, reason: "nothing is known"},
		"trimmed by this tool":               {fields: []metav1.ManagedFieldsEntry{wrote("kubectl-crdver", "status", storedVersions)}, trusted: true, reason: "trimmed by kubectl crdver"},
		"patched by hand":                    {fields: []metav1.ManagedFieldsEntry{wrote("kubectl-patch", "status", storedVersions)}, reason: `last written by "kubectl-patch" at 2026-11-30T12:00:00Z`},
		"trimmed in-tree, condition gone":    {fields: []metav1.ManagedFieldsEntry{wrote("migration-runner-controller", "status", storedVersions)}, reason: "in-tree"},
		"in-tree migration failed":           {conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "StorageMigrating", Status: "False", Reason: "MigrationFailed"}}, reason: "although it failed"},
		"in-tree migration runs":             {conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "StorageMigrating", Status: "True", Reason: "MigrationRunning"}}, reason: "when it starts"},
		"in-tree migration succeeded":        {conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "StorageMigrating", Status: "False", Reason: "MigrationSucceeded"}}, reason: "without verifying"},
		"failed migration without trace":     {observations: lifecycle.Observations{Migrations: []lifecycle.Migration{{Name: "m", Failed: true}}}, reason: "StorageVersionMigration m failed"},
		"second migration":                   {observations: lifecycle.Observations{Migrations: []lifecycle.Migration{{Name: "a"}, {Name: "b"}}}, reason: "2 StorageVersionMigrations ran"},
		"migrations cannot be read":          {observations: lifecycle.Observations{MigrationsError: "forbidden"}, reason: "could not be read: forbidden"},
		"managedFields were cleared":         {fields: []metav1.ManagedFieldsEntry{}, reason: "nothing tells who wrote status.storedVersions"},
		"managedFields without an entry":     {fields: []metav1.ManagedFieldsEntry{{}}, reason: "nothing tells who wrote status.storedVersions"},
		"managedFields that cannot be read":  {fields: []metav1.ManagedFieldsEntry{wrote("kubectl-patch", "status", `{"f:status":`)}, reason: "nothing tells who wrote status.storedVersions"},
		"no managedFields, nothing to trim":  {fields: []metav1.ManagedFieldsEntry{}, stored: []string{"v1", "v1beta1"}, trusted: true, reason: "nothing is known"},
		"bogus entry":                        {stored: []string{"v1", "v0"}, reason: "lists v0"},
		"storage version is not in the list": {stored: []string{"v1beta1"}, reason: "does not list the storage version v1"},
	} {
		t.Run(name, func(t *testing.T) {
			stored := test.stored
			if stored == nil {
				stored = []string{"v1"}
			}
			c := live(stored, "*v1", "v1beta1")
			if c.Status.Conditions = test.conditions; test.fields != nil {
				c.ManagedFields = test.fields
			}
			got := lifecycle.New(c, test.observations).Trust
			if got.Trusted != test.trusted || !strings.Contains(strings.Join(got.Reasons, "; "), test.reason) {
				t.Errorf("got %+v, want trusted %t because of %q", got, test.trusted, test.reason)
			}
		})
	}
}

func TestManifestIsNeverTrusted(t *testing.T) {
	c := live([]string{"v1"}, "*v1")
	c.Origin.File = "crd.yaml"
	s := lifecycle.New(c, lifecycle.Observations{})
	if len(s.Stored) != 0 || s.Trust.Trusted {
		t.Errorf("stored versions %q of a manifest were believed: %+v", s.Stored, s.Trust)
	}
}

func TestManagers(t *testing.T) {
	yes := true
	for name, test := range map[string]struct {
		change  func(*apiextensionsv1.CustomResourceDefinition)
		want    string
		reverts bool
	}{
		"Helm": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
			c.Annotations = map[string]string{"meta.helm.sh/release-name": "karpenter"}
		}, "Helm karpenter", false},
		"Argo CD": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "app:apiextensions.k8s.io/CustomResourceDefinition:ns/x"}
		}, "Argo CD app", true},
		"Flux": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Labels = map[string]string{"kustomize.toolkit.fluxcd.io/name": "crds"}
		}, "Flux crds", true},
		"OLM": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Labels = map[string]string{"operators.coreos.com/datadog.ns": ""}
		}, "OLM datadog.ns", true},
		"addon-manager": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Labels = map[string]string{"addonmanager.kubernetes.io/mode": "Reconcile"}
		}, "addon-manager ", true},
		"a controller": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "pkg.example.com/v1", Kind: "ProviderRevision", Name: "aws-1", Controller: &yes}}
		}, "ProviderRevision aws-1", true},
		"a GitOps field manager": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.ManagedFields = []metav1.ManagedFieldsEntry{wrote("argocd-controller", "", `{"f:spec":{"f:versions":{}}}`)}
		}, "Argo CD ", true},
		"somebody": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.ManagedFields = []metav1.ManagedFieldsEntry{wrote("kubectl-edit", "", `{"f:spec":{"f:versions":{}}}`)}
		}, "kubectl-edit ", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := live([]string{"v1"}, "*v1")
			test.change(c.CustomResourceDefinition)
			s := lifecycle.New(c, lifecycle.Observations{})
			if len(s.Managers) != 1 || s.Managers[0].Name+" "+s.Managers[0].Instance != test.want || s.Managers[0].Reverts != test.reverts {
				t.Errorf("got %+v, want %q, reverts %t", s.Managers, test.want, test.reverts)
			}
			if (s.Reverter() != nil) != test.reverts {
				t.Errorf("reverter is %v", s.Reverter())
			}
		})
	}
}

func TestNotes(t *testing.T) {
	for name, test := range map[string]struct {
		crd  crd.CRD
		want string
	}{
		"tie":                   {live([]string{"v1"}, "*v1", "v01"), "v01 and v1 have the same priority"},
		"deprecated default":    {live([]string{"v2alpha1"}, "*v2alpha1", "v1beta1 deprecated"), "kubectl's default v1beta1 is deprecated; v2alpha1 cannot become the default while v1beta1 is served"},
		"whole kind deprecated": {live([]string{"v1"}, "*v1 deprecated"), "the kind itself is being retired"},
		"none served":           {live([]string{"v1"}, "*v1 unserved"), "no version is served"},
		"storage is not served": {live([]string{"v1"}, "*v1 unserved", "v1beta1"), "storage version v1 is not served"},
	} {
		t.Run(name, func(t *testing.T) {
			notes := strings.Join(lifecycle.New(test.crd, lifecycle.Observations{}).Notes(), "\n")
			if !strings.Contains(notes, test.want) {
				t.Errorf("got %q, want %q in it", notes, test.want)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{"v1beta": "v1beta1", "v1bet2": "v1beta2", "v1": "v1", "v3": "v1", "latest": "", "": ""} {
		if got := lifecycle.Nearest(name, []string{"v1", "v1beta1", "v1beta2"}); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

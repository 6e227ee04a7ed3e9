package cmd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// liveCRD returns an established CRD with versions: the first is the storage
// version, "!" in front of a name means unserved and "~" deprecated.
func liveCRD(versions ...string) crd.CRD {
	one := &apiextensionsv1.CustomResourceDefinition{}
	one.Name = "widgets.example.com"
	one.Spec.Group = "example.com"
	one.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"}
	for i, name := range versions {
		one.Spec.Versions = append(one.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: strings.Trim(name, "!~"), Served: !strings.Contains(name, "!"), Deprecated: strings.Contains(name, "~"), Storage: i == 0,
		})
	}
	one.Status.StoredVersions = []string{one.Spec.Versions[0].Name}
	one.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue},
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
	}
	return crd.CRD{CustomResourceDefinition: one}
}

func TestDiscoveryProblem(t *testing.T) {
	order := []string{"v2", "v1", "v1beta1"}
	swapped := []string{"v2", "v1beta1", "v1"}
	for name, test := range map[string]struct {
		discovery *lifecycle.Discovery
		problem   string
		warnings  []string
	}{
		"not asked":                      {},
		"agrees":                         {discovery: &lifecycle.Discovery{Group: order, Aggregated: order}},
		"without an aggregated document": {discovery: &lifecycle.Discovery{Group: order}},
		"another default (case 33)": {
			&lifecycle.Discovery{Group: []string{"v1", "v2", "v1beta1"}, Aggregated: order},
			"/apis/example.com lists v1 first, the CRD's default is v2",
			[]string{"widgets.example.com: /apis/example.com lists v1 first, the CRD's default is v2"},
		},
		"another default in the aggregated document": {
			&lifecycle.Discovery{Group: order, Aggregated: []string{}}, "aggregated discovery lists none first, the CRD's default is v2",
			[]string{"widgets.example.com: aggregated discovery lists none first, the CRD's default is v2"},
		},
		"another order": {
			&lifecycle.Discovery{Group: swapped, Aggregated: order}, "/apis/example.com lists v2, v1beta1, v1, the order is v2, v1, v1beta1",
			[]string{"widgets.example.com: /apis/example.com lists v2, v1beta1, v1, the order is v2, v1, v1beta1"},
		},
		"another aggregated order": {
			&lifecycle.Discovery{Group: order, Aggregated: swapped}, "aggregated discovery lists v2, v1beta1, v1, the order is v2, v1, v1beta1",
			[]string{"widgets.example.com: aggregated discovery lists v2, v1beta1, v1, the order is v2, v1, v1beta1"},
		},
		"unreadable": {
			&lifecycle.Discovery{Error: "forbidden"}, "discovery could not be read: forbidden",
			[]string{"discovery could not be read: forbidden"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := lifecycle.New(liveCRD("v1", "v2", "v1beta1"), lifecycle.Observations{Discovery: test.discovery})
			if got := s.DiscoveryProblem(); got != test.problem {
				t.Errorf("problem %q, want %q", got, test.problem)
			}
			if diff := cmp.Diff(test.warnings, warningsOf(s, false)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if item := statusItem(s); test.discovery != nil && (item.Discovery.Agrees != (test.problem == "") || item.Discovery.Problem != test.problem) {
				t.Errorf("item %+v", item.Discovery)
			}
			if items := versionItems(s); items[0].DiscoveryProblem != test.problem {
				t.Errorf("versions %+v", items)
			}
		})
	}
}

func TestDiscoveryPlace(t *testing.T) {
	for want, item := range map[string]v1alpha1.Version{
		"<none>": {},
		"2":      {GroupPriority: 2, AggregatedPriority: 2},
		"3":      {GroupPriority: 3},
		"2/1":    {GroupPriority: 2, AggregatedPriority: 1, DiscoveryProblem: "x"},
		"1/-":    {GroupPriority: 1, DiscoveryProblem: "x"},
		"-/4":    {AggregatedPriority: 4, DiscoveryProblem: "x"},
	} {
		if got := discoveryPlace(item); got != want {
			t.Errorf("%+v: %s, want %s", item, got, want)
		}
	}
}

func TestDeprecationWarnings(t *testing.T) {
	own := liveCRD("v1", "~v1beta1", "~v1alpha1", "!~v0")
	text := "gone\nsoon"
	own.Spec.Versions[2].DeprecationWarning = &text
	for name, test := range map[string]struct {
		crd   crd.CRD
		named bool
		want  []string
	}{
		"named":                 {own, true, []string{"example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget", "example.com/v1alpha1 Widget: gone\nsoon"}},
		"not the default":       {own, false, nil},
		"the default (case 27)": {liveCRD("v2alpha1", "~v1beta1"), false, []string{"example.com/v1beta1 Widget is deprecated"}},
		"all (case 35)":         {liveCRD("~v1alpha1", "~v1beta1"), false, []string{"example.com/v1beta1 Widget is deprecated"}},
		"tie (case 31)": {liveCRD("v1", "v01", "v001"), false, []string{
			"widgets.example.com: v1 and v01 have the same priority: which one kubectl uses is undefined",
			"widgets.example.com: v01 and v001 have the same priority: which one kubectl uses is undefined",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, warningsOf(lifecycle.New(test.crd, lifecycle.Observations{}), test.named)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRequire is case 89.
func TestRequire(t *testing.T) {
	order := []string{"v2", "v1"}
	agrees := func() *lifecycle.Discovery { return &lifecycle.Discovery{Group: order, Aggregated: order} }
	hijacked := agrees()
	hijacked.APIServices = []lifecycle.APIService{{Name: "v2.example.com", Version: "v2", Service: "ns/other"}}
	handmade := agrees()
	handmade.APIServices = []lifecycle.APIService{{Name: "v2.example.com", Version: "v2", VersionPriority: 7}}
	for name, test := range map[string]struct {
		versions      []string
		discovery     *lifecycle.Discovery
		require       string
		lack, unknown string
	}{
		"served":             {[]string{"v1", "v2"}, agrees(), "v2", "", ""},
		"absent":             {[]string{"v1", "v2"}, agrees(), "v3", "widgets.example.com: v3 is not in spec.versions (have v2, v1)", ""},
		"no versions":        {nil, nil, "v3", "widgets.example.com: v3 is not in spec.versions (have none)", ""},
		"unserved":           {[]string{"v1", "v2", "!v1beta1"}, agrees(), "v1beta1", "widgets.example.com: v1beta1 is in spec.versions but not served; serve it with: kubectl crdver restore v1beta1 widgets.example.com", ""},
		"another APIService": {[]string{"v1", "v2"}, hijacked, "v2", "widgets.example.com: v2 is served by another APIService, v2.example.com (service ns/other), not by this CRD", ""},
		"hand-made":          {[]string{"v1", "v2"}, handmade, "v2", "", ""},
		"not in discovery":   {[]string{"v1", "v2"}, &lifecycle.Discovery{Group: []string{"v1"}}, "v2", "widgets.example.com: v2 is served according to spec.versions, but /apis/example.com does not list it", ""},
		"unreadable":         {[]string{"v1", "v2"}, &lifecycle.Discovery{Error: "forbidden"}, "v2", "", "widgets.example.com: whether v2 is served is unknown, discovery could not be read: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			c := liveCRD("v1")
			c.Spec.Versions = nil
			if len(test.versions) > 0 {
				c = liveCRD(test.versions...)
			}
			lack, unknown := lacks(lifecycle.New(c, lifecycle.Observations{Discovery: test.discovery}), test.require)
			if lack != test.lack || unknown != test.unknown {
				t.Errorf("lack %q, unknown %q", lack, unknown)
			}
		})
	}
	o := statusOptions{require: "v1"}
	for name, test := range map[string]struct {
		reports []crdReport
		code    int
		err     string
	}{
		"fine":              {[]crdReport{{}, {}}, ExitOK, ""},
		"nothing":           {nil, ExitRefused, "no CRD is selected, so none serves v1"},
		"refused":           {[]crdReport{{lack: "a"}, {}, {lack: "b"}, {unknown: "c"}}, ExitRefused, "a\nb\nc"},
		"unknown (case 71)": {[]crdReport{{}, {unknown: "c"}}, ExitFailure, "c"},
	} {
		err := o.required(test.reports)
		if ExitCode(err) != test.code || err != nil && err.Error() != test.err {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestConditionNotes: a CRD that was just created has no conditions (case 19).
func TestConditionNotes(t *testing.T) {
	c := liveCRD("v1")
	for _, test := range []struct {
		conditions []apiextensionsv1.CustomResourceDefinitionCondition
		want       []string
	}{
		{nil, []string{"the server has not looked at the CRD yet: it has no conditions"}},
		{c.Status.Conditions, nil},
		{[]apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Reason: "NotAccepted", Message: "not all names are accepted"},
			{Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionTrue, Reason: "Violations", Message: "x"},
			{Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse},
			{Type: apiextensionsv1.StorageMigrating, Status: apiextensionsv1.ConditionFalse},
			{Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionUnknown, Reason: "Missing", Message: "y"},
		}, []string{
			"condition Established is False (NotAccepted): not all names are accepted",
			"condition NonStructuralSchema is True (Violations): x",
			"condition KubernetesAPIApprovalPolicyConformant is Unknown (Missing): y",
		}},
	} {
		c.Status.Conditions = test.conditions
		if diff := cmp.Diff(test.want, conditionNotes(lifecycle.New(c, lifecycle.Observations{}))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestCABundleNotes is case 43.
func TestCABundleNotes(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		raw := &metav1.FieldsV1{}
		raw.SetRawBytes([]byte(fields))
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: raw}
	}
	const bundle = `{"f:spec":{"f:conversion":{"f:webhook":{"f:clientConfig":{"f:caBundle":{}}}}}}`
	const strategy = `{"f:spec":{"f:conversion":{".":{},"f:strategy":{}},"f:versions":{}}}`
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    []string
	}{
		"nobody":     {nil, nil},
		"unreadable": {[]metav1.ManagedFieldsEntry{entry("x", "{"), {Manager: "y"}}, nil},
		"not at all": {[]metav1.ManagedFieldsEntry{entry("argocd-controller", strategy)}, nil},
		"injector":   {[]metav1.ManagedFieldsEntry{entry("cainjector", bundle)}, []string{`spec.conversion.webhook.clientConfig.caBundle is written by "cainjector" (2026-11-30T12:00:00Z)`}},
		"injector and GitOps": {
			[]metav1.ManagedFieldsEntry{entry("argocd-controller", strategy), entry("cainjector", bundle)},
			[]string{`spec.conversion.webhook.clientConfig.caBundle is written by "cainjector" (2026-11-30T12:00:00Z), and spec.conversion by ` +
				`"argocd-controller" (2026-11-30T12:00:00Z): let the latter ignore caBundle, or it takes it away`},
		},
		"two": {
			[]metav1.ManagedFieldsEntry{entry("a", bundle), entry("b", bundle)},
			[]string{`spec.conversion.webhook.clientConfig.caBundle is written by "a" (2026-11-30T12:00:00Z) and "b" (2026-11-30T12:00:00Z): ` +
				`they overwrite each other, and conversion fails in between; leave it to one`},
		},
	} {
		c := liveCRD("v1")
		c.ManagedFields = test.entries
		if diff := cmp.Diff(test.want, caBundleNotes(c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestStatusCells(t *testing.T) {
	c := liveCRD("v1", "v1beta1")
	s := lifecycle.New(c, lifecycle.Observations{ObjectsError: "forbidden", MigrationsError: "down"})
	item := statusItem(s)
	if got := objectsCell(item); got != "<unknown>" {
		t.Errorf("objects %s", got)
	}
	if got := storedCell(item); got != "v1?" {
		t.Errorf("stored %s", got)
	}
	c.Status.StoredVersions = []string{}
	if got := storedCell(statusItem(lifecycle.New(c, lifecycle.Observations{}))); got != "?" {
		t.Errorf("stored %s", got)
	}
	none := int64(0)
	c.Status.StoredVersions = []string{"v1beta1", "v1", "v0"}
	s = lifecycle.New(c, lifecycle.Observations{Objects: &none})
	table := storedTable(s)
	if want := [][]string{{"v1beta1", "true", "true", "0"}, {"v1", "true", "true", "0"}, {"v0", "false", "false", "0"}}; !cmp.Equal(table.Rows, want) {
		t.Errorf("stored table %v", table.Rows)
	}
	var column []string
	for _, row := range detailTable(s).Rows {
		column = append(column, row[5])
	}
	if want := []string{"not yet: storage version, in storedVersions", "not yet: served, in storedVersions"}; !slices.Equal(column, want) {
		t.Errorf("removable %q", column)
	}
}

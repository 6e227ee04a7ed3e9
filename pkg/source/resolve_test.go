package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// fakeCRDs is a list of CRDs in place of a server; the live tests of pkg/cmd
// resolve names on a real one.
type fakeCRDs struct {
	cluster.CRDs

	items       []*apiextensionsv1.CustomResourceDefinition
	gets, lists int
	err         error
}

func (f *fakeCRDs) Get(_ context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	f.gets++
	for _, one := range f.items {
		if one.Name == name {
			return one, f.err
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	resource := schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	return nil, fmt.Errorf("reading CRD %s: %w", name, apierrors.NewNotFound(resource, name))
}

func (f *fakeCRDs) List(_ context.Context, options cluster.ListOptions, visit func(*apiextensionsv1.CustomResourceDefinition) error) error {
	f.lists++
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return err
	}
	for _, one := range f.items {
		if selector.Matches(labels.Set(one.Labels)) {
			if err := visit(one); err != nil {
				return err
			}
		}
	}
	return f.err
}

// named returns a CRD: "plural.group singular Kind short...".
func named(words ...string) *apiextensionsv1.CustomResourceDefinition {
	plural, group, _ := strings.Cut(words[0], ".")
	one := &apiextensionsv1.CustomResourceDefinition{}
	one.Name = words[0]
	one.Labels = map[string]string{"plural": plural}
	one.Spec.Group = group
	one.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: words[1], Kind: words[2], ShortNames: words[3:]}
	one.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}}
	return one
}

func fewCRDs() *fakeCRDs {
	return &fakeCRDs{items: []*apiextensionsv1.CustomResourceDefinition{
		named("backups.a.example.com", "backup", "Backup", "bk"),
		named("backups.b.example.com", "backup", "Backup"),
		named("crontabs.stable.example.com", "crontab", "CronTab", "ct", "cron"),
		named("ct.odd.example.com", "cto", "CTOfficer", "bk"),
		named("mice.stable.example.com", "mouse", "Mouse"),
	}}
}

func namesOf(found []crd.CRD) []string {
	var names []string
	for _, one := range found {
		names = append(names, one.Name)
	}
	return names
}

func TestResolve(t *testing.T) {
	const crontabs = "crontabs.stable.example.com"
	for arg, want := range map[string]string{
		crontabs:                                crontabs,
		"CronTabs.Stable.Example.Com":           crontabs,
		"crd/" + crontabs:                       crontabs,
		"crds/" + crontabs:                      crontabs,
		"CRD/crontabs":                          crontabs,
		"customresourcedefinition/" + crontabs:  crontabs,
		"customresourcedefinitions/" + crontabs: crontabs,
		"customresourcedefinition.apiextensions.k8s.io/" + crontabs:     crontabs,
		"customresourcedefinitions.v1.apiextensions.k8s.io/" + crontabs: crontabs,
		"crontabs":                   crontabs,
		"crontab":                    crontabs,
		"CronTab":                    crontabs,
		"CRONTAB":                    crontabs,
		"cron":                       crontabs,
		"crontab.stable.example.com": crontabs,
		"cron.stable.example.com":    crontabs,
		"mouse":                      "mice.stable.example.com",
		"ct":                         "ct.odd.example.com", // A plural comes before a short name.
		"ct.stable.example.com":      crontabs,
		"backup.b.example.com":       "backups.b.example.com",
		"bk.a.example.com":           "backups.a.example.com",
	} {
		found, err := Resolve(t.Context(), fewCRDs(), []string{arg}, Selection{})
		if err != nil || len(found) != 1 || found[0].Name != want || !found[0].Origin.Live() {
			t.Errorf("%s: %v, %v", arg, namesOf(found), err)
		}
	}
}

func TestResolveErrors(t *testing.T) {
	for arg, want := range map[string]string{
		"backups":                    `"backups" is ambiguous, name one in full: backups.a.example.com, backups.b.example.com`,
		"Backup":                     `"Backup" is ambiguous, name one in full: backups.a.example.com, backups.b.example.com`,
		"bk":                         `"bk" is ambiguous, name one in full: backups.a.example.com, ct.odd.example.com`,
		"crontabz":                   `no CustomResourceDefinition is named "crontabz"; did you mean crontabs.stable.example.com?`,
		"crontab.stable.exmaple.com": `no CustomResourceDefinition is named "crontab.stable.exmaple.com"; did you mean crontabs.stable.example.com?`,
		"moose":                      `no CustomResourceDefinition is named "moose"; did you mean mice.stable.example.com?`,
		"certificaterequests":        `no CustomResourceDefinition is named "certificaterequests"; kubectl crdver status lists them all`,
		"deployments/x":              `"deployments/x" is not a CustomResourceDefinition: name one as plural.group, crd/plural.group, plural, kind or short name`,
		"crd/":                       `"crd/" does not name a CustomResourceDefinition`,
		"crd/a/b":                    `"crd/a/b" does not name a CustomResourceDefinition`,
		"":                           `"" does not name a CustomResourceDefinition`,
	} {
		found, err := Resolve(t.Context(), fewCRDs(), []string{arg}, Selection{})
		if err == nil || err.Error() != want || len(found) != 0 {
			t.Errorf("%s: %v, %v", arg, namesOf(found), err)
		}
	}
	many := &fakeCRDs{}
	for i := range 25 {
		many.items = append(many.items, named(fmt.Sprintf("xs.g%02d.example.com", i), "x", "X"))
	}
	if _, err := Resolve(t.Context(), many, []string{"x"}, Selection{}); err == nil || !strings.HasSuffix(err.Error(), "xs.g09.example.com and 15 more") {
		t.Errorf("many: %v", err)
	}
	if _, err := Resolve(t.Context(), &fakeCRDs{}, []string{"x"}, Selection{}); err == nil || err.Error() != `no CustomResourceDefinition is named "x": the cluster has none` {
		t.Errorf("none: %v", err)
	}
	if _, err := Resolve(t.Context(), fewCRDs(), []string{"x"}, Selection{All: true}); err == nil || !strings.Contains(err.Error(), "not both") {
		t.Errorf("both: %v", err)
	}
	down := errors.New("server is down")
	for _, args := range [][]string{nil, {"crontabs"}, {"crontabs.stable.example.com"}, {"unknown.example.com"}} {
		if _, err := Resolve(t.Context(), &fakeCRDs{err: down}, args, Selection{}); !errors.Is(err, down) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestResolveKeepsOrderAndReadsOnce(t *testing.T) {
	crds := fewCRDs()
	found, err := Resolve(t.Context(), crds, []string{"mice.stable.example.com", "crontab", "cron", "mouse", "backups.a.example.com"}, Selection{})
	want := []string{"mice.stable.example.com", "crontabs.stable.example.com", "backups.a.example.com"}
	if err != nil || !slices.Equal(namesOf(found), want) {
		t.Errorf("got %v, %v", namesOf(found), err)
	}
	if crds.lists != 1 || crds.gets != 3 {
		t.Errorf("%d lists, %d gets", crds.lists, crds.gets)
	}
	crds = fewCRDs()
	if _, err := Resolve(t.Context(), crds, want, Selection{}); err != nil || crds.lists != 0 || crds.gets != 3 {
		t.Errorf("full names: %d lists, %d gets, %v", crds.lists, crds.gets, err)
	}
}

func TestSelection(t *testing.T) {
	for _, test := range []struct {
		selection Selection
		want      int
	}{
		{Selection{}, 5},
		{Selection{All: true}, 5},
		{Selection{Group: "stable.example.com"}, 2},
		{Selection{Selector: "plural=backups"}, 2},
		{Selection{Selector: "plural in (backups,mice)", Group: "stable.example.com"}, 1},
		{Selection{Group: "nothing.example.com"}, 0},
	} {
		found, err := Resolve(t.Context(), fewCRDs(), nil, test.selection)
		if err != nil || len(found) != test.want {
			t.Errorf("%+v: %v, %v", test.selection, namesOf(found), err)
		}
	}
}

func TestSelect(t *testing.T) {
	group := func(group string) func(crd.CRD) bool {
		return func(one crd.CRD) bool { return one.Spec.Group == group }
	}
	command := func(name string) string { return "kubectl crdver promote v1 " + name }
	for name, test := range map[string]struct {
		crds      *fakeCRDs
		args      []string
		selection Selection
		fits      func(crd.CRD) bool
		want      []string
		err       string
	}{
		"named":                {fewCRDs(), []string{"mouse"}, Selection{}, group("nothing"), []string{"mice.stable.example.com"}, ""},
		"the only one":         {fewCRDs(), nil, Selection{}, group("odd.example.com"), []string{"ct.odd.example.com"}, ""},
		"several fit":          {fewCRDs(), nil, Selection{}, group("stable.example.com"), nil, "2 CustomResourceDefinitions fit, name one:\nkubectl crdver promote v1 crontabs.stable.example.com\nkubectl crdver promote v1 mice.stable.example.com"},
		"none fits":            {fewCRDs(), nil, Selection{}, group("nothing"), nil, "none of the 5 CustomResourceDefinitions of the cluster fits; kubectl crdver status shows their versions"},
		"empty cluster":        {&fakeCRDs{}, nil, Selection{}, group("nothing"), nil, "the cluster has no CustomResourceDefinitions"},
		"selected":             {fewCRDs(), nil, Selection{Selector: "plural=backups"}, group("b.example.com"), []string{"backups.b.example.com"}, ""},
		"nothing selected":     {fewCRDs(), nil, Selection{Group: "nothing"}, group("nothing"), nil, "no CustomResourceDefinition is selected; kubectl crdver status lists them all"},
		"none of the selected": {fewCRDs(), nil, Selection{All: true}, group("nothing"), nil, "none of the 5 selected CustomResourceDefinitions fits; kubectl crdver status shows their versions"},
		"failed list":          {&fakeCRDs{err: errors.New("down")}, nil, Selection{}, group("nothing"), nil, "down"},
		"failed selection":     {&fakeCRDs{err: errors.New("down")}, nil, Selection{All: true}, group("nothing"), nil, "down"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Select(t.Context(), test.crds, test.args, test.selection, test.fits, command)
			if message := fmt.Sprint(err); err != nil && message != test.err || err == nil && test.err != "" {
				t.Errorf("got %v, want %s", err, test.err)
			}
			if diff := cmp.Diff(test.want, namesOf(found)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	many := &fakeCRDs{}
	for i := range 25 {
		many.items = append(many.items, named(fmt.Sprintf("xs.g%02d.example.com", i), "x", "X"))
	}
	_, err := onlyFitting(t.Context(), many, func(crd.CRD) bool { return true }, command)
	if err == nil || !strings.HasSuffix(err.Error(), "xs.g09.example.com\nand 15 more; --all, --group and --selector choose several") {
		t.Errorf("many: %v", err)
	}
}

func TestSlim(t *testing.T) {
	whole := named("as.example.com", "a", "A")
	whole.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "x"}
	whole.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{}
	slim := Slim(crd.CRD{CustomResourceDefinition: whole, Origin: crd.Origin{File: "a.yaml"}})
	if slim.Spec.Versions[0].Schema != nil || slim.Spec.Versions[0].Name != "v1" || slim.Origin.File != "a.yaml" ||
		!cmp.Equal(slim.Annotations, map[string]string{"kept": "x"}) {
		t.Errorf("slim: %+v", slim.CustomResourceDefinition)
	}
	if whole.Spec.Versions[0].Schema == nil || len(whole.Annotations) != 2 {
		t.Error("the CRD itself was changed")
	}
}

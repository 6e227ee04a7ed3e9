package source

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

func TestLoadDocuments(t *testing.T) {
	a, b := manifest("as.example.com", "v1beta1", "v1"), manifest("bs.example.com", "v1")
	jsonA := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"js.example.com"},"spec":{"versions":[{"name":"v1"}]}}`
	indented := "      " + strings.ReplaceAll(strings.TrimSuffix(a, "\n"), "\n", "\n      ")
	for name, test := range map[string]struct {
		text    string
		want    []string
		skipped int
	}{
		"one":             {a, []string{"-:1 as.example.com v1beta1,v1"}, 0},
		"two":             {a + "---\n" + b, []string{"-:1 as.example.com v1beta1,v1", "-:14 bs.example.com v1"}, 0},
		"comments first":  {"# Source: chart\n\n---\n# Source\n\n" + a, []string{"-:6 as.example.com v1beta1,v1"}, 0},
		"marker comment":  {"--- # first\n" + a + "--- # second\n" + b, []string{"-:2 as.example.com v1beta1,v1", "-:15 bs.example.com v1"}, 0},
		"content at ---":  {"--- " + jsonA + "\n---\n" + b, []string{"-:1 js.example.com v1", "-:3 bs.example.com v1"}, 0},
		"directive":       {"%YAML 1.1\n---\n" + a + "...\n" + b, []string{"-:3 as.example.com v1beta1,v1", "-:16 bs.example.com v1"}, 0},
		"empty documents": {"---\n---\n\n---\n" + a + "---\n", []string{"-:5 as.example.com v1beta1,v1"}, 0},
		"no end of line":  {strings.TrimSuffix(a, "\n"), []string{"-:1 as.example.com v1beta1,v1"}, 0},
		"others":          {configMap + "---\n" + a + "---\ntext\n---\n- list\n---\n42\n", []string{"-:7 as.example.com v1beta1,v1"}, 4},
		"carriage return": {strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), []string{"-:1 as.example.com v1beta1,v1", "-:14 bs.example.com v1"}, 0},
		"byte order mark": {"\ufeff" + a, []string{"-:1 as.example.com v1beta1,v1"}, 0},
		"JSON":            {jsonA, []string{"-:1 js.example.com v1"}, 0},
		"JSON stream":     {"\n" + jsonA + "\n\n" + jsonA + jsonA, []string{"-:2 js.example.com v1", "-:4 js.example.com v1", "-:4 js.example.com v1"}, 0},
		"flow YAML":       {"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: f}}", []string{"-:1 f "}, 0},
		"List": {
			"apiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: Pod\n  -\n" + indented + "\n---\n" + b,
			[]string{"-:1 as.example.com v1beta1,v1", "-:20 bs.example.com v1"}, 1,
		},
		"list of the API":  {`{"kind":"CustomResourceDefinitionList","apiVersion":"apiextensions.k8s.io/v1","items":[{"metadata":{"name":"l"}}]}`, []string{"-:1 l "}, 0},
		"list in list":     {`{"kind":"List","apiVersion":"v1","items":[{"kind":"List","apiVersion":"v1","items":[` + jsonA + `]}]}`, []string{"-:1 js.example.com v1"}, 0},
		"unknown fields":   {a + "surprise: true\n", []string{"-:1 as.example.com v1beta1,v1"}, 0},
		"null everywhere":  {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: null\nspec: {names: null, versions: [null], conversion: null}\nstatus: null\n", []string{"-:1  "}, 0},
		"v1beta1":          {v1beta1Manifest, []string{"-:1 mappings.example.com v1"}, 0},
		"text block":       {b + "  - name: v1beta1\n    schema:\n      openAPIV3Schema:\n        description: |\n          # {{ no template }}\n          --- no marker\n", []string{"-:1 bs.example.com v1,v1beta1"}, 0},
		"templates quoted": {strings.Replace(b, "{type: object}", "{type: object, description: 'use {{ .name }}'}", 1), []string{"-:1 bs.example.com v1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			found, summary, err := load(t, test.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, places(found)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if summary.Skipped != test.skipped || summary.CRDs != len(test.want) {
				t.Errorf("summary %+v", summary)
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	a := manifest("as.example.com", "v1")
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	helm := "looks like a Helm template; render it first (helm template)"
	for name, test := range map[string]struct{ text, want string }{
		"empty":         {"", "no CustomResourceDefinition in -: it is empty"},
		"only comments": {"# nothing\n---\n# here\n", "no CustomResourceDefinition in -: it is empty"},
		"only others":   {configMap + "---\n" + configMap, "no CustomResourceDefinition in -: all of its 2 documents are something else"},
		"duplicate key": {a + "---\n" + a + "spec: {}\n", `-:24: not valid YAML: key "spec" already set in map`},
		"duplicate key in JSON": {
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"group":"a","group":"b"}}`,
			`-:1: duplicate field "spec.group"`,
		},
		"tab":                          {a + "---\nkind: x\nspec:\n\tgroup: y\n", "-:15: not valid YAML: indented with a tab; use spaces"},
		"syntax":                       {a + "---\n" + "kind: [\n", "-:13: not valid YAML: did not find expected node content"},
		"broken JSON":                  {`{"kind": "CustomResourceDefinition", "spec": `, "-:1: not valid YAML: did not find expected node content"},
		"not UTF-8":                    {a + "---\nkind: x\nname: caf\xe9\n", "-:14: not a text in UTF-8"},
		"binary":                       {"kind: x\x00\x01", "-:1: not valid YAML: control characters are not allowed"},
		"alias bomb":                   {bomb, "-:1: not valid YAML: document contains excessive aliasing"},
		"wrong type":                   {strings.Replace(a, "served: true", "served: 'yes'", 1), "-:1: not a valid CustomResourceDefinition: json: cannot unmarshal string into Go struct field CustomResourceDefinitionVersion.spec.versions.served of type bool"},
		"wrong kind":                   {"kind: [CustomResourceDefinition]\n", "-:1: not a Kubernetes object: json: cannot unmarshal array into Go struct field .kind of type string"},
		"API version":                  {"apiVersion: apiextensions.k8s.io/v2\nkind: CustomResourceDefinition\n", `-:1: apiVersion "apiextensions.k8s.io/v2" is not one of a CustomResourceDefinition: use apiextensions.k8s.io/v1`},
		"no API version":               {"kind: CustomResourceDefinition\n", `-:1: apiVersion "" is not one of a CustomResourceDefinition: use apiextensions.k8s.io/v1`},
		"in a list":                    {`{"kind":"List","apiVersion":"v1","items":[{"kind":"CustomResourceDefinition"}]}`, `-:1: apiVersion "" is not one of a CustomResourceDefinition: use apiextensions.k8s.io/v1 (items[0])`},
		"wrong item":                   {`{"kind":"CustomResourceDefinitionList","apiVersion":"apiextensions.k8s.io/v1","items":[1]}`, "-:1: not an object: json: cannot unmarshal number into Go value of type map[string]json.RawMessage (items[0])"},
		"template":                     {strings.Replace(a, "name: as", "name: '{{ .Release.Name }}'-as", 1), "-:3: " + helm + "; as it is, it is not valid YAML: did not find expected key"},
		"template value":               {strings.Replace(a, "{plural: as}", "{app: '{{ template \"name\" . }}'}", 1), "-:1: " + helm},
		"template key":                 {strings.Replace(a, "{plural: as}", "{'{{ .Values.key }}': x}", 1), "-:1: " + helm},
		"template line":                {"{{- if .Values.crds }}\n" + a + "{{- end }}\n", "-:1: " + helm + "; as it is, it is not valid YAML: did not find expected node content"},
		"template hidden in a comment": {"# {{- if .Values.crds }}\n" + a, "-:2: " + helm},
		"several": {
			"kind: [\n---\n" + a + "---\nkind: CustomResourceDefinition\n",
			"-:1: not valid YAML: did not find expected node content\n" +
				`-:15: apiVersion "" is not one of a CustomResourceDefinition: use apiextensions.k8s.io/v1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := load(t, test.text)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTooManyErrors(t *testing.T) {
	_, _, err := load(t, strings.Repeat("kind: [\n---\n", 50))
	if err == nil || strings.Count(err.Error(), "not valid YAML") != maxErrors || !strings.HasSuffix(err.Error(), "giving up after so many broken documents") {
		t.Errorf("got %v", err)
	}
}

func TestV1beta1IsConverted(t *testing.T) {
	found, _, err := load(t, v1beta1Manifest)
	if err != nil {
		t.Fatal(err)
	}
	one := found[0]
	v := one.Version("v1")
	if v == nil || !v.Served || !v.Storage || v.Schema == nil || v.Subresources.Status == nil || v.AdditionalPrinterColumns[0].JSONPath != ".metadata.creationTimestamp" {
		t.Errorf("version %+v", v)
	}
	if one.Spec.Names.ListKind != "MappingList" || one.Spec.Scope != apiextensionsv1.NamespaceScoped || one.APIVersion != "apiextensions.k8s.io/v1" ||
		one.Kind != "CustomResourceDefinition" || one.Origin.APIVersion != "apiextensions.k8s.io/v1beta1" || len(one.Status.StoredVersions) != 0 {
		t.Errorf("CRD %+v", one.CustomResourceDefinition)
	}
}

// TestStatusOfManifest is case 19.
func TestStatusOfManifest(t *testing.T) {
	a := manifest("as.example.com", "v1beta1", "v1")
	for status, dropped := range map[string]bool{
		"": false, "status: null": false, "status: {}": false,
		"status: {conditions: null, storedVersions: null}":                  true,
		"status: {conditions: [], storedVersions: [v1, v1beta1]}":           true,
		"status: {conditions: [{type: Established, status: 'True'}]}":       true,
		"status: {acceptedNames: {kind: '', plural: ''}, conditions: null}": true,
	} {
		found, summary, err := load(t, a+status+"\n")
		if err != nil {
			t.Fatal(err)
		}
		if len(found[0].Status.StoredVersions) != 0 || found[0].Established() {
			t.Errorf("%s: kept %+v", status, found[0].Status)
		}
		if (len(summary.WithStatus) == 1) != dropped {
			t.Errorf("%s: %v", status, summary.WithStatus)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, text := range []string{
		manifest("as.example.com", "v1", "v1beta1"), v1beta1Manifest, configMap, "--- |\n ---\n", "{}{}", "{{- x }}", "\ufeff...\n---",
		"kind: CustomResourceDefinitionList\nitems: [{}, null, []]", "? [a]\n: b\n", "a: &a\n- *a\n", "!!binary x", "\xff\xfe",
		"kind: List\napiVersion: v1\nitems: [{kind: List, apiVersion: v1, items: [{kind: CustomResourceDefinition}]}]\r\n",
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {versions: [null, {schema: {openAPIV3Schema: {items: [1]}}}]}\nx: 1e999",
	} {
		f.Add(text)
	}
	d := newDecoder()
	located := regexp.MustCompile(`^-:\d+: .|^no CustomResourceDefinition in -: `)
	f.Fuzz(func(t *testing.T, text string) {
		var found []crd.CRD
		files := Files{FilenameOptions: resource.FilenameOptions{Filenames: []string{"-"}}, Stdin: strings.NewReader(text)}
		summary, err := files.load(t.Context(), d, func(one crd.CRD) error {
			found = append(found, one)
			return nil
		})
		if err == nil && len(found) != summary.CRDs {
			t.Errorf("%d CRDs, %+v", len(found), summary)
		}
		if err != nil && !located.MatchString(err.Error()) {
			t.Errorf("an error without a place: %v", err)
		}
		for _, one := range found {
			if one.Origin.Line < 1 || one.Origin.Line > strings.Count(text, "\n")+1 {
				t.Errorf("line %d of %q", one.Origin.Line, text)
			}
			if document := one.Origin.Document; document.Offset >= 0 && !strings.HasPrefix(text[document.Offset:], string(document.Text)) {
				t.Errorf("the document is not at byte %d of %q", document.Offset, text)
			}
			if _, err := one.Origin.Values(); err != nil {
				t.Error(err)
			}
			Slim(one)
		}
	})
}

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// manifest returns a CRD with versions in the order that they are given in.
func manifest(name string, versions ...string) string {
	plural, group, _ := strings.Cut(name, ".")
	text := fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %s
  labels: {plural: %s}
spec:
  group: %s
  scope: Namespaced
  names: {plural: %s, singular: x, kind: X}
  versions:
`, name, plural, group, plural)
	for i, version := range versions {
		text += fmt.Sprintf("  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object}}}\n", version, i == 0)
	}
	return text
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  text: '{{ .Values.not.helm }}'\n"

// v1beta1Manifest has the fields that only v1beta1 had.
const v1beta1Manifest = `apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata:
  name: mappings.example.com
spec:
  group: example.com
  version: v1
  names: {plural: mappings, kind: Mapping}
  subresources: {status: {}}
  additionalPrinterColumns:
  - {name: Age, type: date, JSONPath: .metadata.creationTimestamp}
  validation:
    openAPIV3Schema: {type: object}
`

// load loads what the test wrote to standard input.
func load(t *testing.T, text string) ([]crd.CRD, Summary, error) {
	t.Helper()
	return loadFiles(t, Files{FilenameOptions: resource.FilenameOptions{Filenames: []string{"-"}}, Stdin: strings.NewReader(text)})
}

func loadFiles(t *testing.T, files Files) ([]crd.CRD, Summary, error) {
	t.Helper()
	var found []crd.CRD
	summary, err := files.Load(t.Context(), func(one crd.CRD) error {
		found = append(found, one)
		return nil
	})
	return found, summary, err
}

// places returns "origin name versions..." of each CRD.
func places(found []crd.CRD) []string {
	var places []string
	for _, one := range found {
		var versions []string
		for _, v := range one.Spec.Versions {
			versions = append(versions, v.Name)
		}
		places = append(places, one.Origin.String()+" "+one.Name+" "+strings.Join(versions, ","))
	}
	return places
}

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
		"wrong item":                   {`{"kind":"CustomResourceDefinitionList","apiVersion":"apiextensions.k8s.io/v1","items":[1]}`, "-:1: items[0]: not an object: json: cannot unmarshal number into Go value of type map[string]json.RawMessage"},
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

// endless is a reader without an end.
type endless struct{ pattern string }

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.pattern[i%len(e.pattern)]
	}
	return len(p), nil
}

func TestSizesAreBounded(t *testing.T) {
	twenty := manifest("as.example.com", "v1") + "---\nkind: x\ntext: " + strings.Repeat("x", 20<<20)
	if _, _, err := load(t, twenty); err == nil ||
		err.Error() != "-:13: the document is larger than 16 MiB: split the list, or read the CRDs from the cluster" {
		t.Errorf("20 MB: %v", err)
	}
	for _, pattern := range []string{"x", "\n", "# comment\n"} {
		files := Files{FilenameOptions: resource.FilenameOptions{Filenames: []string{"-"}}, Stdin: endless{pattern}}
		if _, _, err := loadFiles(t, files); err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
			t.Errorf("endless %q: %v", pattern, err)
		}
	}
	many := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"annotations":{"text":"` +
		strings.Repeat("long ", 4000) + `"}}}` + "\n---\n"
	found, _, err := load(t, strings.Repeat(many, 20<<20/len(many)+1))
	if err != nil || len(found) < 1000 {
		t.Errorf("20 MB of small documents: %d CRDs, %v", len(found), err)
	}
}

// TestInterruptedStandardInput must not wait for somebody to type.
func TestInterruptedStandardInput(t *testing.T) {
	reader, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	files := Files{FilenameOptions: resource.FilenameOptions{Filenames: []string{"-"}}, Stdin: reader}
	if _, err := files.Load(ctx, func(crd.CRD) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// tree writes files below a new folder and makes it the current one.
func tree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadFiles(t *testing.T) {
	utf16 := func(text string) string {
		out := "\xff\xfe"
		for _, c := range []byte(text) {
			out += string([]byte{c, 0})
		}
		return out
	}
	tree(t, map[string]string{
		"crds/b.yaml":              manifest("bs.example.com", "v1"),
		"crds/a.yml":               manifest("as.example.com", "v1"),
		"crds/c.json":              `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"cs.example.com"}}`,
		"crds/README.md":           "# {{ not }} a manifest: [",
		"crds/deep/d.yaml":         manifest("ds.example.com", "v1"),
		"none/README":              "",
		"odd/[x].yaml":             manifest("odds.example.com", "v1"),
		"odd/utf16.yaml":           utf16(manifest("us.example.com", "v1")),
		"odd/anything":             manifest("any.example.com", "v1"),
		"base/kustomization.yaml":  "resources: [crd.yaml]\nlabels:\n- pairs: {team: a}\n",
		"base/crd.yaml":            manifest("ks.example.com", "v1beta1", "v1"),
		"broken/kustomization.yml": "resources: [nothing.yaml]\n",
	})
	if err := os.Symlink("crds", "link"); err != nil {
		t.Fatal(err)
	}
	a, b, c := "crds/a.yml:1 as.example.com v1", "crds/b.yaml:1 bs.example.com v1", "crds/c.json:1 cs.example.com "
	for name, test := range map[string]struct {
		options resource.FilenameOptions
		want    []string
		err     string
	}{
		"file":      {resource.FilenameOptions{Filenames: []string{"crds/b.yaml"}}, []string{b}, ""},
		"folder":    {resource.FilenameOptions{Filenames: []string{"crds"}}, []string{a, b, c}, ""},
		"recursive": {resource.FilenameOptions{Filenames: []string{"crds"}, Recursive: true}, []string{a, b, c, "crds/deep/d.yaml:1 ds.example.com v1"}, ""},
		"link":      {resource.FilenameOptions{Filenames: []string{"link"}}, []string{strings.Replace(a, "crds", "link", 1), strings.Replace(b, "crds", "link", 1), strings.Replace(c, "crds", "link", 1)}, ""},
		"pattern":   {resource.FilenameOptions{Filenames: []string{"crds/*.y*ml"}}, []string{a, b}, ""},
		"several":   {resource.FilenameOptions{Filenames: []string{"crds/b.yaml", "crds/a.yml"}}, []string{b, a}, ""},
		"brackets":  {resource.FilenameOptions{Filenames: []string{"odd/[x].yaml"}}, []string{"odd/[x].yaml:1 odds.example.com v1"}, ""},
		"UTF-16":    {resource.FilenameOptions{Filenames: []string{"odd/utf16.yaml"}}, []string{"odd/utf16.yaml:1 us.example.com v1"}, ""},
		"extension": {resource.FilenameOptions{Filenames: []string{"odd/anything"}}, []string{"odd/anything:1 any.example.com v1"}, ""},
		"kustomize": {resource.FilenameOptions{Kustomize: "base"}, []string{"base ks.example.com v1beta1,v1"}, ""},

		"no such file":       {resource.FilenameOptions{Filenames: []string{"crd.yaml"}}, nil, `the path "crd.yaml" does not exist`},
		"no such pattern":    {resource.FilenameOptions{Filenames: []string{"x*.yaml"}}, nil, `no file matches "x*.yaml"`},
		"bad pattern":        {resource.FilenameOptions{Filenames: []string{"[.yaml"}}, nil, `the pattern "[.yaml": syntax error in pattern`},
		"folder of others":   {resource.FilenameOptions{Filenames: []string{"none"}}, nil, "no manifests (.json, .yaml, .yml) in none: -R also looks in its folders"},
		"twice stdin":        {resource.FilenameOptions{Filenames: []string{"-", "-"}}, nil, "standard input can be read only once: name '-' only once"},
		"file in the middle": {resource.FilenameOptions{Filenames: []string{"crds/b.yaml/x"}}, nil, "reading manifests: stat crds/b.yaml/x: not a directory"},
		"no kustomization":   {resource.FilenameOptions{Kustomize: "crds"}, nil, "building the kustomization crds: unable to find one of"},
		"bad kustomization":  {resource.FilenameOptions{Kustomize: "broken"}, nil, "building the kustomization broken: accumulating resources"},
	} {
		t.Run(name, func(t *testing.T) {
			found, _, err := loadFiles(t, Files{FilenameOptions: test.options, Stdin: strings.NewReader(manifest("s", "v1"))})
			if test.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.err) {
					t.Errorf("got %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, places(found)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelector(t *testing.T) {
	text := manifest("as.example.com", "v1") + "---\n" + manifest("bs.example.com", "v1")
	selector, err := labels.Parse("plural=bs")
	if err != nil {
		t.Fatal(err)
	}
	options := resource.FilenameOptions{Filenames: []string{"-"}}
	found, summary, err := loadFiles(t, Files{FilenameOptions: options, Stdin: strings.NewReader(text), Selector: selector})
	if err != nil || summary.CRDs != 1 || !slices.Equal(places(found), []string{"-:13 bs.example.com v1"}) {
		t.Errorf("got %v, %+v, %v", places(found), summary, err)
	}
	// Nothing selected is no mistake.
	if _, _, err := loadFiles(t, Files{FilenameOptions: options, Stdin: strings.NewReader(text), Selector: labels.Nothing()}); err != nil {
		t.Error(err)
	}
}

func TestURL(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/crd.yaml" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, manifest("as.example.com", "v1"))
	}))
	t.Cleanup(server.Close)
	read := func(path string) ([]crd.CRD, error) {
		found, _, err := loadFiles(t, Files{FilenameOptions: resource.FilenameOptions{Filenames: []string{server.URL + path}}})
		return found, err
	}
	found, err := read("/crd.yaml")
	if err != nil || !slices.Equal(places(found), []string{server.URL + "/crd.yaml:1 as.example.com v1"}) {
		t.Errorf("got %v, %v", places(found), err)
	}
	if _, err := read("/nothing"); err == nil || err.Error() != "reading "+server.URL+"/nothing: the server answered 404 Not Found" {
		t.Errorf("got %v", err)
	}
	server.Close()
	if _, err := read("/crd.yaml"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

func TestVisitStops(t *testing.T) {
	stop := errors.New("stop")
	files := Files{FilenameOptions: resource.FilenameOptions{Filenames: []string{"-"}}, Stdin: strings.NewReader(manifest("as.example.com", "v1"))}
	if _, err := files.Load(t.Context(), func(crd.CRD) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	for _, text := range []string{
		manifest("as.example.com", "v1", "v1beta1"), v1beta1Manifest, configMap, "--- |\n ---\n", "{}{}", "{{- x }}", "\ufeff...\n---",
		"kind: CustomResourceDefinitionList\nitems: [{}, null, []]", "? [a]\n: b\n", "a: &a\n- *a\n", "!!binary x", "\xff\xfe",
	} {
		f.Add(text)
	}
	d := newDecoder()
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
		for _, one := range found {
			if one.Origin.Line < 1 || one.Origin.Line > strings.Count(text, "\n")+1 {
				t.Errorf("line %d of %q", one.Origin.Line, text)
			}
			Slim(one)
		}
	})
}

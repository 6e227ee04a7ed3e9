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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// manifest returns a CRD with versions in the order that they are given in.
func manifest(name string, versions ...string) string {
	plural, group, _ := strings.Cut(name, ".")
	var text strings.Builder
	fmt.Fprintf(&text, `apiVersion: apiextensions.k8s.io/v1
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
		fmt.Fprintf(&text, "  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object}}}\n", version, i == 0)
	}
	return text.String()
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
		err.Error() != "-:13: the document is larger than 16 MiB: an API server takes an object of at most 3 MiB; "+
			"split a list into documents, or read the CRDs from the cluster" {
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

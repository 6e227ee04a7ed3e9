package source

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// TestHostileInput: each gets one clear message, or is read; none takes time or
// memory that grows with the square of its size.
func TestHostileInput(t *testing.T) {
	const header = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n"
	deep := func(n int, open, inner, end string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	versions := make([]string, 10_000)
	for i := range versions {
		versions[i] = fmt.Sprintf("v%d", i+1)
	}
	item := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"group":"{{ x }}"}}`
	for name, test := range map[string]struct {
		text string
		// want matches the error; empty if there is none.
		want string
		crds int
	}{
		"10,000 versions": {manifest("as.example.com", versions...), "", 1},
		"10,000 levels":   {header + "spec: {x: " + deep(10_000, "[", "", "]") + "}", `^-:4: not valid YAML: exceeded max depth of 10000$`, 0},
		"9,000 levels":    {header + "x: " + deep(9_000, "[", "", "]"), "", 1},
		"9,000 levels of a schema": {
			header + "spec: {versions: [{name: v1, schema: {openAPIV3Schema: " + deep(4_500, "{properties: {a: ", "{}", "}}") + "}}]}", "", 1,
		},
		"100,000 levels of JSON": {deep(100_000, `{"a":`, "1", "}"), `^-:1: not valid YAML: exceeded max depth of 10000$`, 0},
		"5,000 lists in lists":   {deep(4_000, `{"kind":"List","apiVersion":"v1","items":[`, item, "]}"), `^-:1: more than 8 lists in lists \(items\[0\].*\)$`, 0},
		"200,000 values":         {strings.Repeat("{}", 200_000), "all of its 200000 documents are something else", 0},
		"10,000 broken items": {
			`{"kind":"List","apiVersion":"v1","items":[` + strings.TrimSuffix(strings.Repeat(item+",", 10_000), ",") + "]}",
			`(?s)^-:1: looks like a Helm template.*\(items\[0\]\)\n.*\(items\[9\]\)\ngiving up`, 0,
		},
		"a broken item": {
			"kind: List\napiVersion: v1\nitems:\n- kind: Pod\n- kind: CustomResourceDefinition\n- " + strings.ReplaceAll(header, "\n", "\n  ") + "\n- [x]\n- kind: [x]\n",
			`^-:1: apiVersion "" is not one .* \(items\[1\]\)\n-:1: not a Kubernetes object: .* \(items\[4\]\)$`, 1,
		},
		"duplicate in JSON":           {"{\n \"kind\": \"x\",\n \"a\": [{\"b\": 1}, {\"c\": {}, \"b\": 2,\n\"c\": 1}]}", `^-:4: duplicate field "a\[1\]\.c"$`, 0},
		"NUL":                         {header + "x: a\x00b\n", `^-:4: not valid YAML: control characters are not allowed$`, 0},
		"escaped NUL":                 {header + `x: "a\0b"`, "", 1},
		"huge number":                 {header + "x: 1" + strings.Repeat("0", 400), "", 1},
		"infinity":                    {header + "x: .inf", `^-:1: not valid YAML: json: unsupported value: \+Inf$`, 0},
		"huge number where it counts": {header + "spec: {conversion: {webhook: {clientConfig: {service: {port: 99999999999}}}}}", `^-:1: not a valid CustomResourceDefinition: json: cannot unmarshal number 99999999999 into .*port of type int32`, 0},
		"huge number in JSON":         {`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","x":1e999}`, "", 1},
		"UTF-16 without a mark":       {"k\x00i\x00n\x00d\x00", `^-:1: not valid YAML: control characters are not allowed$`, 0},
		"half of UTF-16":              {"\xff\xfek", `its only document is something else$`, 0},
		"only a mark":                 {"\ufeff", "-: it is empty", 0},
	} {
		t.Run(name, func(t *testing.T) {
			found, _, err := load(t, test.text)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("%.300v", err)
			case test.want != "" && err == nil:
				t.Error("no error")
			case test.want != "" && !regexp.MustCompile(test.want).MatchString(err.Error()):
				t.Errorf("got %.1000v", err)
			}
			if len(found) != test.crds {
				t.Errorf("%d CRDs", len(found))
			}
		})
	}
}

// TestHelmTemplateAmongOthers: the others are read, and the error is about the
// template alone.
func TestHelmTemplateAmongOthers(t *testing.T) {
	tree(t, map[string]string{
		"crds/a.yaml": manifest("as.example.com", "v1"),
		"crds/b.yaml": "{{- if .Values.crds }}\n" + manifest("bs.example.com", "v1") + "{{- end }}\n",
		"crds/c.yaml": manifest("cs.example.com", "v1"),
	})
	found, _, err := loadFiles(t, Files{FilenameOptions: resource.FilenameOptions{Filenames: []string{"crds"}}})
	if len(found) != 2 || err == nil || !strings.HasPrefix(err.Error(), "crds/b.yaml:1: looks like a Helm template") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, %v", places(found), err)
	}
}

// BenchmarkLoad reads a stream of 1,000 CRDs of 50 KB, and reports the memory in
// use after the first hundred and at most: they must be about the same.
func BenchmarkLoad(b *testing.B) {
	var schema strings.Builder
	schema.WriteString("schema: {openAPIV3Schema: {type: object, properties: {")
	for i := range 1000 {
		fmt.Fprintf(&schema, "field%d: {type: string, description: some text}, ", i)
	}
	text := strings.Replace(manifest("as.example.com", "v1"), "schema: {openAPIV3Schema: {type: object}}", schema.String()+"}}}", 1) + "---\n"
	b.SetBytes(int64(len(text)) * 1000)
	var first, most uint64
	for b.Loop() {
		count := 0
		readers := make([]io.Reader, 1000)
		for i := range readers {
			readers[i] = strings.NewReader(text)
		}
		files := Files{FilenameOptions: resource.FilenameOptions{Filenames: []string{"-"}}, Stdin: io.MultiReader(readers...)}
		_, err := files.Load(b.Context(), func(crd.CRD) error {
			if count++; count%100 != 0 {
				return nil
			}
			runtime.GC()
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			if most = max(most, stats.HeapAlloc); count == 100 {
				first = stats.HeapAlloc
			}
			return nil
		})
		if err != nil || count != 1000 {
			b.Fatal(count, err)
		}
	}
	b.ReportMetric(float64(first)/(1<<20), "MiB-first")
	b.ReportMetric(float64(most)/(1<<20), "MiB-most")
}

package printers

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// documents returns a small answer with a number that floats would spoil and a
// text that a terminal would obey.
func documents() Document {
	objects := int64(12345678)
	items := []v1alpha1.CRDStatus{
		{Name: "b.example.com", Objects: &objects, Served: []string{"v1", "v1beta1"}, Deprecated: []string{}, Kind: "\x1b[31mB"},
		{Name: "a.example.com", Served: []string{}, Deprecated: []string{}, Kind: "A"},
	}
	d := Document{
		Object: &v1alpha1.StatusList{
			TypeMeta: metav1.TypeMeta{APIVersion: "crdver.dev/v1alpha1", Kind: "StatusList"}, Items: items,
		},
		Table: Table{Columns: []Column{{Header: "NAME"}, {Header: "KIND", Wide: true}}},
	}
	for _, item := range items {
		d.Items = append(d.Items, item)
		d.Names = append(d.Names, "crd/"+item.Name)
		d.Table.Rows = append(d.Table.Rows, []string{item.Name, item.Kind})
	}
	d.Names = append(d.Names, "crd/b.example.com")
	return d
}

// output prints the document with flags.
func output(t *testing.T, d Document, args ...string) (string, error) {
	t.Helper()
	flags := NewFlags()
	command := &cobra.Command{}
	flags.AddFlags(command)
	if err := command.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	printer, err := flags.ToPrinter()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = printer.Print(&out, d)
	return out.String(), err
}

func TestFormats(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := write("path", "{.items[*].name}")
	template := write("template", "{{range .items}}{{.name}};{{end}}")
	columns := write("columns", "NAME   N\n.name  .objects\n")
	for _, test := range []struct {
		args string
		want string
	}{
		{"", "NAME\nb.example.com\na.example.com\n"},
		{"-o table", "NAME\nb.example.com\na.example.com\n"},
		{"--no-headers", "b.example.com\na.example.com\n"},
		{"-o wide", "NAME            KIND\nb.example.com   ^[[31mB\na.example.com   A\n"},
		{"-o wide --no-headers", "b.example.com   ^[[31mB\na.example.com   A\n"},
		{"-o name", "crd/b.example.com\ncrd/a.example.com\n"},
		{"-o jsonpath={.items[*].name}", "b.example.com a.example.com"},
		{"-o jsonpath={.items[0].objects}", "12345678"},
		{"-o jsonpath-as-json={.items[0].served}", "[\n    [\n        \"v1\",\n        \"v1beta1\"\n    ]\n]\n"},
		{"-o jsonpath={.nothing}", ""},
		{"-o jsonpath --template={.kind}", "StatusList"},
		{"-o jsonpath-file=" + path, "b.example.com a.example.com"},
		{"-o go-template={{.kind}}", "StatusList"},
		{"-o go-template --template={{.kind}}", "StatusList"},
		{"--template={{.kind}}", "StatusList"},
		{"-o go-template-file=" + template, "b.example.com;a.example.com;"},
		{"-o custom-columns=NAME:.name,OBJECTS:objects,SERVED:{.served[*]}", "NAME            OBJECTS    SERVED\nb.example.com   12345678   v1,v1beta1\na.example.com   <none>     <none>\n"},
		{"-o custom-columns=KIND:.kind --no-headers", "^[[31mB\nA\n"},
		{"-o custom-columns-file=" + columns, "NAME            N\nb.example.com   12345678\na.example.com   <none>\n"},
	} {
		got, err := output(t, documents(), strings.Fields(test.args)...)
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.args, diff)
		}
	}
}

func TestDocumentsAreWhole(t *testing.T) {
	text, err := output(t, documents(), "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	var list v1alpha1.StatusList
	if err := decoder.Decode(&list); err != nil || len(list.Items) != 2 || list.Kind != "StatusList" {
		t.Errorf("%+v, %v", list, err)
	}
	if decoder.More() {
		t.Error("more than one document")
	}
	for _, format := range []string{"json", "yaml", "kyaml"} {
		text, err := output(t, documents(), "-o", format)
		if err != nil || strings.ContainsRune(text, '\x1b') || !strings.Contains(text, "crdver.dev/v1alpha1") {
			t.Errorf("%s: %v\n%q", format, err, text)
		}
	}
}

func TestFormatErrors(t *testing.T) {
	all := "allowed formats are: custom-columns,custom-columns-file,go-template,go-template-file,json,jsonpath," +
		"jsonpath-as-json,jsonpath-file,kyaml,name,table,template,templatefile,wide,yaml"
	for args, want := range map[string]string{
		"-o xml":                        `unable to match a printer suitable for the output format "xml", ` + all,
		"-o wide=x":                     `unable to match a printer suitable for the output format "wide=x", ` + all,
		"-o jsonpath":                   "template format specified but no template given",
		"-o jsonpath={.x":               "parsing jsonpath {.x, unclosed action",
		"-o go-template={{.x":           "parsing template {{.x, template: output:1: unclosed action",
		"-o custom-columns":             "--output custom-columns needs columns: custom-columns=NAME:.name,VERSION:.version",
		"-o custom-columns=NAME":        `custom column "NAME" is not HEADER:.path`,
		"-o custom-columns=NAME:{.x":    `custom column NAME: unexpected path "{.x", expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'`,
		"-o custom-columns-file=/x/y/z": "reading custom columns: open /x/y/z: no such file or directory",
		"-o jsonpath-file=/x/y/z":       "reading --template /x/y/z, open /x/y/z: no such file or directory",
		"-o go-template={{.items.x}}":   `executing template "{{.items.x}}": template: output:1:8: executing "output" at <.items.x>: can't evaluate field x in type interface {}`,
		"-o jsonpath={.items[9].name}":  `executing jsonpath "{.items[9].name}": array index out of bounds: index 9, length 2`,
	} {
		got, err := output(t, documents(), strings.Fields(args)...)
		if err == nil || err.Error() != want || got != "" {
			t.Errorf("%s: got %q, %v, want %s", args, got, err, want)
		}
	}
}

func TestPrinterKinds(t *testing.T) {
	for format, want := range map[string][3]bool{
		"": {true, false, true}, "table": {false, false, true}, "wide": {false, true, true},
		"name": {}, "json": {}, "custom-columns=A:.b": {}, "jsonpath={.a}": {},
	} {
		flags := NewFlags()
		flags.output = format
		p, err := flags.ToPrinter()
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]bool{p.Default(), p.Wide(), p.Human()}; got != want {
			t.Errorf("%q: default, wide, human = %v", format, got)
		}
	}
}

func TestSortBy(t *testing.T) {
	type item struct {
		Name  string         `json:"name"`
		Count *int64         `json:"count,omitempty"`
		Size  string         `json:"size,omitempty"`
		On    bool           `json:"on"`
		List  []string       `json:"list,omitempty"`
		Map   map[string]int `json:"map,omitempty"`
		Mixed any            `json:"mixed,omitempty"`
	}
	number := func(n int64) *int64 { return &n }
	items := []item{
		{Name: "c", Count: number(10), Size: "1Gi", On: true, List: []string{"b"}, Mixed: "x"},
		{Name: "a", Count: number(9), Size: "900Mi", List: []string{"a", "z"}, Mixed: 1.5, Map: map[string]int{"x": 1}},
		{Name: "b", On: true, Mixed: []int{1}},
		{Name: "d", Count: number(-1), Size: "5", List: []string{"a"}, Mixed: true},
	}
	for expression, want := range map[string]string{
		"": "cabd", "name": "abcd", ".name": "abcd", "{name}": "abcd", "{.name}": "abcd",
		".count": "bdac", ".size": "bdac", ".on": "adcb", ".list": "bdac", ".mixed": "dacb",
	} {
		sorted := append([]item{}, items...)
		if err := SortBy(sorted, expression); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
		got := ""
		for _, one := range sorted {
			got += one.Name
		}
		if got != want {
			t.Errorf("--sort-by %s: got %s, want %s", expression, got, want)
		}
	}
	for expression, want := range map[string]string{
		".nothing": `--sort-by: couldn't find any field with path ".nothing" in the list of objects`,
		".list[1]": "--sort-by: looking up the path: array index out of bounds: index 1, length 1",
		".map":     "--sort-by .map: items cannot be sorted by an object; name one of its fields",
		"{.name":   `--sort-by: unexpected path "{.name", expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'`,
		"a[":       `--sort-by: path "a[": unterminated array`,
	} {
		if err := SortBy(items, expression); err == nil || err.Error() != want {
			t.Errorf("--sort-by %s: %v", expression, err)
		}
	}
	if err := SortBy([]item{}, ".nothing"); err != nil {
		t.Error(err)
	}
}

func TestDescription(t *testing.T) {
	var d Description
	d.Add("Name", "crontabs.example.com")
	d.Add("Trusted", "no: a", "    b\nc", "\x1b]0;x\x07")
	d.Add("Managed by")
	d.AddIf("Notes")
	d.Add("Empty", "")
	d.AddTable("Versions", Table{Columns: []Column{{Header: "NAME"}, {Header: "STATE", Wide: true}}, Rows: [][]string{{"v1", "storage"}}})
	var out bytes.Buffer
	if err := d.Print(&out); err != nil {
		t.Fatal(err)
	}
	want := lines(
		"Name:        crontabs.example.com",
		"Trusted:     no: a",
		"                 b...",
		`             ^[]0;x\x07`,
		"Managed by:  <none>",
		"Empty:       <none>",
		"Versions:",
		"  NAME   STATE",
		"  v1     storage",
	)
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

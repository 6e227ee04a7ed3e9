package manifest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crdver/kubectl-crdver/pkg/manifest"
)

func set(path string, value any) manifest.Edit { return manifest.Edit{Path: path, Set: value} }

func remove(path string) manifest.Edit { return manifest.Edit{Path: path, Remove: true} }

const crontabs = `# A CRD.
metadata:
  name: crontabs.example.com # the name
  annotations:
spec:
  versions:
  # The new one.
  - name: v1
    served: true
    storage: true   # always
    schema:
      openAPIV3Schema:
        description: |
          # no comment
          text
        type: object
  - name: v1beta1
    deprecationWarning: 'old: use "v1"'
    served: "true"
    # Not stored.
    storage: false
`

// TestApply edits "before"; a reason in place of "after" is that of the edit that
// was skipped.
func TestApply(t *testing.T) {
	t.Parallel()
	replaced := func(old, now string) string {
		if !strings.Contains(crontabs, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(crontabs, old, now, 1)
	}
	for name, test := range map[string]struct {
		before  string
		edits   []manifest.Edit
		after   string
		skipped string
	}{
		"set":                   {crontabs, []manifest.Edit{set("spec.versions[0].storage", false)}, replaced("storage: true   #", "storage: false   #"), ""},
		"set a quoted text":     {crontabs, []manifest.Edit{set("spec.versions[1].deprecationWarning", "it's")}, replaced(`'old: use "v1"'`, "'it''s'"), ""},
		"set double quotes":     {"a: \"x\" # c\n", []manifest.Edit{set("a", "y\"\n\u00a0")}, "a: \"y\\\"\\n\\u00A0\" # c\n", ""},
		"set a boolean to text": {"a: true\n", []manifest.Edit{set("a", "yes")}, "a: 'yes'\n", ""},
		"set a text to boolean": {crontabs, []manifest.Edit{set("spec.versions[1].served", true)}, replaced(`served: "true"`, "served: true"), ""},
		"set a number":          {"a: 1\n", []manifest.Edit{set("a", 443)}, "a: 443\n", ""},
		"set nothing":           {"a: # c\nb:\n", []manifest.Edit{set("a", "x"), set("b", 1)}, "a: x # c\nb: 1\n", ""},
		"set null":              {"a: null\n", []manifest.Edit{set("a", "x")}, "a: x\n", ""},
		"set what it is":        {crontabs, []manifest.Edit{set("spec.versions[0].served", true), set("metadata.name", "crontabs.example.com")}, crontabs, ""},
		"set an item":           {"a: [x, 'y']\nb:\n- x # c\n", []manifest.Edit{set("a[1]", "z"), set("b[0]", "z")}, "a: [x, 'z']\nb:\n- z # c\n", ""},
		"set in a flow":         {"- {a: x, b: y}\n", []manifest.Edit{set("[0].a", "p,q"), set("[0].b", "r")}, "- {a: 'p,q', b: r}\n", ""},
		"set Unicode":           {"é: {ü: \"ö\"} # ß\n", []manifest.Edit{set("é.ü", "ä€")}, "é: {ü: \"ä€\"} # ß\n", ""},
		"key with dots":         {"a:\n  b.c/d: x\n", []manifest.Edit{set("a[b.c/d]", "z")}, "a:\n  b.c/d: z\n", ""},

		"add":                    {crontabs, []manifest.Edit{set("spec.versions[0].deprecated", true)}, replaced("# always\n", "# always\n    deprecated: true\n"), ""},
		"add in order":           {crontabs, []manifest.Edit{set("spec.versions[1].subresources", "x")}, replaced("storage: false\n", "storage: false\n    subresources: x\n"), ""},
		"add first in order":     {"- b: 1\n  c: 2\n", []manifest.Edit{set("[0].a", 1)}, "- b: 1\n  a: 1\n  c: 2\n", ""},
		"add after a big one":    {"z:\n  y:\n  - 1\n\n# end\n", []manifest.Edit{set("a", 1)}, "z:\n  y:\n  - 1\na: 1\n\n# end\n", ""},
		"add after items":        {"a:\n- 1\n# c\n- 2\n# d\n", []manifest.Edit{set("b", 1)}, "a:\n- 1\n# c\n- 2\nb: 1\n# d\n", ""},
		"add to nothing":         {crontabs, []manifest.Edit{set("metadata.annotations[x.io/y]", "no")}, replaced("annotations:\n", "annotations:\n    x.io/y: 'no'\n"), ""},
		"add mappings":           {crontabs, []manifest.Edit{set("spec.conversion.webhook.x", 1)}, crontabs + "  conversion:\n    webhook:\n      x: 1\n", ""},
		"add to a flow":          {"{a: 1}\n", []manifest.Edit{set("b", 2)}, "{a: 1, b: 2}\n", ""},
		"add mappings to a flow": {"a: {x: [1, '}']} # c\n", []manifest.Edit{set("a.b.c", true)}, "a: {x: [1, '}'], b: {c: true}} # c\n", ""},
		"add to an empty flow":   {"a: {}\n", []manifest.Edit{set("a.b", 2)}, "a: {b: 2}\n", ""},
		"add several":            {"a: 1\n", []manifest.Edit{set("b.x", 2), set("b.z", 3), set("c", 4)}, "a: 1\nb:\n  x: 2\n  z: 3\nc: 4\n", ""},
		"add at the end":         {"a: 1", []manifest.Edit{set("b", 2)}, "a: 1\nb: 2", ""},
		"add, CRLF":              {"a: 1\r\nc:\r\n  d: 1\r\n", []manifest.Edit{set("b.x", 2), set("c.e", 1)}, "a: 1\r\nb:\r\n  x: 2\r\nc:\r\n  d: 1\r\n  e: 1\r\n", ""},
		"add, CRLF, no end":      {"a: 1\r\nb: 2", []manifest.Edit{set("c", 2)}, "a: 1\r\nb: 2\r\nc: 2", ""},
		"byte order mark":        {"\ufeffa: 1\n", []manifest.Edit{set("a", 2), set("b", 2)}, "\ufeffa: 2\nb: 2\n", ""},

		"remove":                  {crontabs, []manifest.Edit{remove("spec.versions[0].storage")}, replaced("    storage: true   # always\n", ""), ""},
		"remove a mapping":        {crontabs, []manifest.Edit{remove("spec.versions[0].schema")}, crontabs[:strings.Index(crontabs, "    schema:")] + crontabs[strings.Index(crontabs, "  - name: v1beta1"):], ""},
		"remove the first":        {crontabs, []manifest.Edit{remove("spec.versions[1].name")}, replaced("name: v1beta1\n    ", ""), ""},
		"remove keeps comments":   {crontabs, []manifest.Edit{remove("spec.versions[1].storage")}, replaced("    storage: false\n", ""), ""},
		"remove the last line":    {"a: 1\nb: 2", []manifest.Edit{remove("b")}, "a: 1", ""},
		"remove what is not":      {crontabs, []manifest.Edit{remove("spec.conversion"), remove("spec.versions[7].name")}, crontabs, ""},
		"remove from a flow":      {"{a: 1, b: 2, c: [3]}\n", []manifest.Edit{remove("b")}, "{a: 1, c: [3]}\n", ""},
		"remove the flow's last":  {"{a: 1, c: [3] }\n", []manifest.Edit{remove("c")}, "{a: 1 }\n", ""},
		"remove the flow's only":  {"a: { c: [3] }\n", []manifest.Edit{remove("a.c")}, "a: {  }\n", ""},
		"remove and set":          {crontabs, []manifest.Edit{remove("spec.versions[0].served"), set("spec.versions[0].storage", false)}, replaced("    served: true\n    storage: true", "    storage: false"), ""},
		"remove items at the key": {"a:\n- 1\n- x:\n    y\nb: 1\n", []manifest.Edit{remove("a")}, "b: 1\n", ""},

		"JSON":               {"{\n  \"a\": 1,\n  \"b\": {\n    \"c\": \"x\"\n  }\n}\n", []manifest.Edit{set("b.c", "y"), set("b.d", "z"), set("e", true), remove("a")}, "{\n  \"b\": {\n    \"c\": \"y\",\n    \"d\": \"z\"\n  },\n  \"e\": true\n}\n", ""},
		"JSON, last":         {"{\n  \"a\": 1,\n  \"b\": 2\n}", []manifest.Edit{remove("b")}, "{\n  \"a\": 1\n}", ""},
		"JSON on a line":     {`{"a":1,"b":{}}`, []manifest.Edit{set("b.c.d", "\u2028é")}, `{"a":1,"b":{"c": {"d": "\u2028é"}}}`, ""},
		"same twice":         {"a: 1\nc: 1\n", []manifest.Edit{set("b", 2), set("b", 2), remove("a")}, "b: 2\nc: 1\n", ""},
		"contradiction":      {"a: 1\n", []manifest.Edit{set("a", 2), set("a", 3)}, "a: 2\n", "another change of the same field comes first"},
		"overlap":            {"a: {b: 1}\nc: 1\n", []manifest.Edit{remove("a"), set("a.b", 3)}, "c: 1\n", "it overlaps with another change"},
		"alias":              {"a: &x {b: 1}\nc: *x\n", []manifest.Edit{set("c.b", 2)}, "", "an anchor, an alias or a merge key is on the way to it"},
		"anchor":             {"a: &x {b: 1}\nc: *x\n", []manifest.Edit{set("a.b", 2)}, "", "an anchor, an alias or a merge key is on the way to it"},
		"anchor removed":     {"a: {b: &x 1}\nc: *x\n", []manifest.Edit{remove("a")}, "", "an anchor is in it"},
		"merged":             {"a: &x {b: 1}\nc:\n  <<: *x\n  d: 1\n", []manifest.Edit{set("c.b", 2)}, "", "an anchor, an alias or a merge key is on the way to it"},
		"next to a merge":    {"a: &x {b: 1}\nc:\n  <<: *x\n  d: 1\n", []manifest.Edit{set("c.e", 2)}, "", "a merge key is next to it"},
		"block of text":      {"a: |\n  x\n", []manifest.Edit{set("a", "y")}, "", "it is a block of text"},
		"several lines":      {"a: x\n  z, # c\nb: 'x\n  y' # d\n", []manifest.Edit{set("a", "p"), set("b", "q")}, "a: p # c\nb: 'q' # d\n", ""},
		"mapping":            {"a: {b: 1}\n", []manifest.Edit{set("a", "y")}, "", "it is not a scalar"},
		"tag":                {"a: !!str 1\n", []manifest.Edit{set("a", "y")}, "", "it has an anchor or a tag"},
		"below a scalar":     {"a: 1\n", []manifest.Edit{set("a.b", "y")}, "", "what it belongs into is not a mapping"},
		"no such item":       {"a: [1]\n", []manifest.Edit{set("a[1]", "y"), set("b[0].c", 1)}, "", "there is no item ["},
		"item removed":       {"a: [1]\n", []manifest.Edit{remove("a[0]")}, "", "it is an item of a list"},
		"only field":         {"a:\n  b: 1\n", []manifest.Edit{remove("a.b")}, "", "it is the only field of its mapping"},
		"no scalar":          {"a: 1\n", []manifest.Edit{set("a", []string{"y"})}, "", "the new value is neither a text nor a boolean nor a number"},
		"no value":           {"a: 1\n", []manifest.Edit{set("a", nil)}, "", "the new value is neither a text nor a boolean nor a number"},
		"whole document":     {"a: 1\n", []manifest.Edit{set("", 1)}, "", "it is the whole document"},
		"comment in a flow":  {"{\n  a: 1, # x\n  b: 2 # y\n}\n", []manifest.Edit{remove("a"), set("c", 1)}, "", "a comment "},
		"lines out of order": {"a: {\nb: 1 }\nc: 2\n", []manifest.Edit{remove("a")}, "", "it cannot be changed without changing something else"},
		"one bad of many": {
			"a: {\nb: 1 }\nc: 2\nd: 3\n", []manifest.Edit{set("c", 1), remove("a"), set("d", 4), set("e", 5)}, "a: {\nb: 1 }\nc: 1\nd: 4\ne: 5\n",
			"it cannot be changed without changing something else",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document, err := manifest.Parse([]byte(test.before))
			if err != nil {
				t.Fatal(err)
			}
			after, skipped, err := document.Apply(test.edits)
			if err != nil {
				t.Fatal(err)
			}
			want := test.after
			if want == "" {
				want = test.before
			}
			if diff := cmp.Diff(want, string(after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, one := range skipped {
				if test.skipped == "" || !strings.HasPrefix(one.Reason, test.skipped) {
					t.Errorf("skipped %q: %s", one.Path, one.Reason)
				}
			}
			if test.skipped != "" && len(skipped) == 0 {
				t.Error("nothing was skipped")
			}
		})
	}
}

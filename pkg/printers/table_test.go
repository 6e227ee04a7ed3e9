package printers

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func printTable(t *testing.T, table Table, o TableOptions) string {
	t.Helper()
	var out bytes.Buffer
	if err := table.Print(&out, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func lines(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

func TestTable(t *testing.T) {
	table := Table{
		Columns: []Column{{Header: "NAME"}, {Header: "STORED-VERSIONS"}, {Header: "WHY", Wide: true}, {Header: "next_step"}},
		Rows: [][]string{
			{"crontabs.stable.example.com", "v1,v1beta1", "major 10 > 2 (v2)", "promote v1"},
			{"a", "", " leading and trailing ", ""},
			{"日本語", "v1", "x", "migrate"},
			{"short"},
		},
	}
	for name, test := range map[string]struct {
		o    TableOptions
		want string
	}{
		"default": {TableOptions{}, lines(
			"NAME                          STORED-VERSIONS   next_step",
			"crontabs.stable.example.com   v1,v1beta1        promote v1",
			"a                             <none>            <none>",
			"日本語                        v1                migrate",
			"short                         <none>            <none>")},
		"wide": {TableOptions{Wide: true}, lines(
			"NAME                          STORED-VERSIONS   WHY                      next_step",
			"crontabs.stable.example.com   v1,v1beta1        major 10 > 2 (v2)        promote v1",
			"a                             <none>             leading and trailing    <none>",
			"日本語                        v1                x                        migrate",
			"short                         <none>            <none>                   <none>")},
		"no headers": {TableOptions{NoHeaders: true, Indent: "  "}, lines(
			"  crontabs.stable.example.com   v1,v1beta1   promote v1",
			"  a                             <none>       <none>",
			"  日本語                        v1           migrate",
			"  short                         <none>       <none>")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, printTable(t, table, test.o)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEmptyTable(t *testing.T) {
	if got := printTable(t, Table{Columns: []Column{{Header: "NAME"}}}, TableOptions{}); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestLongCellIsNotWrapped(t *testing.T) {
	long := strings.Repeat("word ", 100)
	got := printTable(t, Table{Columns: []Column{{Header: "A"}, {Header: "B"}}, Rows: [][]string{{long, "x"}}}, TableOptions{})
	want := "A" + strings.Repeat(" ", len(long)+2) + "B\n" + long + "   x\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUntrustedCells is must-show 11.
func TestUntrustedCells(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[31mred\x1b[0m":    "^[[31mred^[[0m",
		"first\nsecond":         "first...",
		"first\r\nsecond":       "first...",
		"first\fsecond":         "first...",
		"only one\n":            "only one",
		"\n":                    "<none>",
		"tab\there":             `tab\there`,
		"bell\a back\b nul\x00": `bell\x07 back\x08 nul\x00`,
		"c1 \u009b31m":          `c1 \u009b31m`,
		"bidi \u202e txt":       `bidi \u202e txt`,
		"line\u2028sep":         `line\u2028sep`,
		"bad \xff utf8":         `bad \xff utf8`,
		"replacement \ufffd":    "replacement \ufffd",
		"plain":                 "plain",
	} {
		got := printTable(t, Table{Columns: []Column{{Header: "A"}}, Rows: [][]string{{text}}}, TableOptions{NoHeaders: true})
		if got != want+"\n" {
			t.Errorf("%q: got %q, want %q", text, got, want+"\n")
		}
	}
}

func TestEscapeKeepsOneLine(t *testing.T) {
	if got, want := Escape("a\nb\tc\x1b]0;x\x07"), `a\nb\tc^[]0;x\x07`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTerminalWriter(t *testing.T) {
	var out bytes.Buffer
	text := "a\tb\x1b[2J\nc\n"
	if n, err := (terminalWriter{&out}).Write([]byte(text)); n != len(text) || err != nil {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	if got, want := out.String(), "a\tb^[[2J\nc\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func BenchmarkTable(b *testing.B) {
	table := Table{Columns: []Column{{Header: "NAME"}, {Header: "VERSION"}, {Header: "SERVED"}}}
	for range 3000 {
		table.Rows = append(table.Rows, []string{"crontabs.stable.example.com", "v1beta1", "true"})
	}
	b.ReportAllocs()
	for b.Loop() {
		var out bytes.Buffer
		if err := table.Print(&out, TableOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

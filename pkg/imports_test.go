// Package pkg_test checks the import arrows between the packages of this module.
package pkg_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/crdver/kubectl-crdver/"

// arrows returns, for each package, which others of this module it may import.
// Arrows go one way. A new package needs a line here, and a thought about where it
// belongs.
func arrows() map[string][]string {
	const apis = "pkg/apis/crdver/v1alpha1"
	return map[string][]string{
		apis:                   {},
		"pkg/apiversion":       {},
		"pkg/english":          {},
		"pkg/managedfields":    {},
		"pkg/schema":           {apis},
		"pkg/crd":              {apis, "pkg/apiversion"},
		"pkg/compat":           {apis, "pkg/apiversion", "pkg/crd", "pkg/schema"},
		"pkg/lifecycle":        {apis, "pkg/apiversion", "pkg/crd", "pkg/english", "pkg/managedfields"},
		"pkg/validate":         {apis, "pkg/apiversion", "pkg/crd", "pkg/english", "pkg/schema", "pkg/compat", "pkg/lifecycle"},
		"pkg/preflight":        {apis, "pkg/apiversion", "pkg/crd", "pkg/english", "pkg/schema", "pkg/compat", "pkg/lifecycle", "pkg/validate"},
		"pkg/plan":             {apis, "pkg/apiversion", "pkg/crd", "pkg/english", "pkg/schema", "pkg/lifecycle"},
		"pkg/manifest":         {apis, "pkg/apiversion", "pkg/crd"},
		"pkg/printers":         {apis, "pkg/english"},
		"pkg/cluster":          {apis},
		"pkg/storagemigration": {apis, "pkg/cluster", "pkg/english", "pkg/managedfields"},
		"pkg/storagemigration/intree": {
			apis, "pkg/cluster",
		},
		"pkg/etcd":                 {apis, "pkg/apiversion"},
		"pkg/usage":                {apis, "pkg/cluster", "pkg/crd"},
		"pkg/manifestuse":          {apis, "pkg/compat", "pkg/conversion", "pkg/crd", "pkg/schema", "pkg/usage"},
		"pkg/conversion":           {apis, "pkg/cluster", "pkg/crd", "pkg/schema"},
		"pkg/conversion/review":    {apis, "pkg/cluster", "pkg/crd"},
		"pkg/conversion/roundtrip": {apis, "pkg/cluster", "pkg/conversion", "pkg/conversion/review", "pkg/crd", "pkg/schema"},
		"pkg/conversion/doctor":    {apis, "pkg/cluster", "pkg/conversion", "pkg/conversion/review", "pkg/crd", "pkg/english", "pkg/schema"},
		"pkg/fleet":                {"pkg/lifecycle"},
		"pkg/source":               {apis, "pkg/cluster", "pkg/crd", "pkg/lifecycle"},
		"pkg/observe": {
			apis, "pkg/cluster", "pkg/conversion", "pkg/conversion/doctor", "pkg/conversion/review", "pkg/conversion/roundtrip", "pkg/crd", "pkg/lifecycle",
			"pkg/plan", "pkg/preflight", "pkg/usage",
		},
		"pkg/executor": {
			apis, "pkg/cluster", "pkg/conversion", "pkg/conversion/roundtrip", "pkg/crd", "pkg/english", "pkg/lifecycle", "pkg/managedfields", "pkg/plan", "pkg/schema",
			"pkg/storagemigration", "pkg/storagemigration/intree",
			"pkg/usage",
		},
		"pkg/cmd": {
			apis, "pkg/apiversion", "pkg/cluster", "pkg/conversion", "pkg/conversion/doctor", "pkg/conversion/review", "pkg/conversion/roundtrip", "pkg/crd", "pkg/english", "pkg/etcd", "pkg/executor", "pkg/fleet", "pkg/lifecycle", "pkg/manifest", "pkg/manifestuse", "pkg/observe",
			"pkg/plan", "pkg/preflight", "pkg/printers", "pkg/schema", "pkg/source", "pkg/usage", "pkg/validate",
		},
		"pkg/cmd/chaos":      {},
		"pkg/cmd/fulltest":   {},
		"pkg/goldenfile":     {},
		"pkg/mutation":       {},
		"pkg/testbed":        {},
		"pkg/bench":          {"pkg/cluster", "pkg/storagemigration"},
		"cmd/kubectl-crdver": {"pkg/cmd"},
		"cmd/crdver-release": {},
		"cmd/crdver-demo":    {"pkg/testbed"},

		"cmd/crdver-bench":        {"pkg/bench", "pkg/testbed"},
		"cmd/crdver-bench-client": {"pkg/bench"},

		"plugins": {},
	}
}

// purePackages compute: they reach no cluster, no file and no terminal.
func purePackages() []string {
	return []string{
		"pkg/apis/crdver/v1alpha1", "pkg/apiversion", "pkg/crd", "pkg/lifecycle", "pkg/schema", "pkg/compat", "pkg/validate", "pkg/preflight", "pkg/plan",
		"pkg/managedfields", "pkg/manifest", "pkg/english",
	}
}

// impure returns the imports that a pure package may not have.
func impure() []string {
	return []string{
		"os", "os/exec", "os/signal", "net", "net/http", "log", "github.com/spf13/cobra", "github.com/spf13/pflag",
		"k8s.io/client-go", "k8s.io/cli-runtime", "k8s.io/kubectl", "k8s.io/klog/v2",
	}
}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	allowed := arrows()
	for name, imports := range imports(t) {
		may, known := allowed[name]
		if !known {
			t.Errorf("%s: not in the table of arrows", name)
			continue
		}
		for _, imported := range imports {
			own, isOwn := strings.CutPrefix(imported, module)
			if isOwn && !slices.Contains(may, own) {
				t.Errorf("%s must not import %s", name, own)
			}
			if slices.Contains(purePackages(), name) && slices.ContainsFunc(impure(), func(prefix string) bool { return under(imported, prefix) }) {
				t.Errorf("%s is pure and must not import %s", name, imported)
			}
			if name != "pkg/testbed" && under(imported, "go.etcd.io/etcd/server") {
				t.Errorf("%s must not import %s: users would install a server", name, imported)
			}
		}
	}
}

// under tells whether a package is another one or lies below it.
func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// imports returns what each package of this module imports, tests left aside. It
// reads the files itself, and not through the go command, so that the cache of
// test results notices when they change.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	packages := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if name == "testdata" || name != ".." && strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel("..", filepath.Dir(path))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			packages[dir] = append(packages[dir], imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 3 {
		t.Fatalf("found only %d packages", len(packages))
	}
	return packages
}

package e2e_test

import (
	"context"
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// buildDir is where the binary is built; TestMain deletes it.
var buildDir string

func TestMain(m *testing.M) {
	os.Exit(runTests(m)) //nolint:forbidigo // this is the main of the tests
}

// runTests lets more tests run at a time than there are processors: they wait
// much of the time, for servers and until held writes are over. The flag -parallel
// takes precedence.
func runTests(m *testing.M) int {
	err := flag.Set("test.parallel", "5")
	if err != nil {
		panic(err)
	}
	if buildDir, err = os.MkdirTemp("", "crdver-e2e-"); err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(buildDir) }()
	return m.Run()
}

// build builds the plugin once in a run of the tests.
var build = sync.OnceValues(func() (string, error) {
	return testbed.BuildPlugin(context.Background(), buildDir)
})

// binary returns the path of the built plugin.
func binary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the plugin")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

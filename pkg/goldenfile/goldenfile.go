// Package goldenfile compares what a test got with the file that says what it
// should be. Only tests import it.
package goldenfile

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Compare fails the test if a file is not what the test got, or, to update it,
// writes it anew. The flag -update is the test's: a package that registers flags
// gives them to whatever imports it.
func Compare(t testing.TB, update bool, path, got string) {
	t.Helper()
	if update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got), -update writes it anew:\n%s", path, diff)
	}
}

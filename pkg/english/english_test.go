package english_test

import (
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/english"
)

func TestPlural(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"0 objects":      english.Plural(0, "object"),
		"1 object":       english.Plural(int64(1), "object"),
		"2 objects":      english.Plural(2, "object"),
		"1 field path":   english.Plural(1, "field path"),
		"3 patches":      english.Plural(3, "patch"),
		"1 patch":        english.Plural(1, "patch"),
		"0 objects have": english.PluralHave(0, "object"),
		"1 object has":   english.PluralHave(1, "object"),
		"2 objects have": english.PluralHave(int64(2), "object"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

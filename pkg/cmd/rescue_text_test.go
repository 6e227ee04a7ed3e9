package cmd

import "testing"

// TestLookedText says how far "nothing to rescue" reaches, without parts of nothing.
func TestLookedText(t *testing.T) {
	for want, found := range map[string]*looked{
		"no CRD was looked at whose objects can be listed":                                                            {},
		"every object of 1 CRD can be read":                                                                           {whole: 1},
		"the first objects of 1 CRD can be read, which has more (--deep looks at all)":                                {part: 1},
		"the first objects of 2 CRDs can be read, which have more (--deep looks at all)":                              {part: 2},
		"every object of 2 CRDs can be read, and so can the first ones of 1 CRD that has more (--deep looks at all)":  {whole: 2, part: 1},
		"every object of 1 CRD can be read, and so can the first ones of 3 CRDs that have more (--deep looks at all)": {whole: 1, part: 3},
	} {
		if got := found.text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

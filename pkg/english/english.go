// Package english puts numbers and what they count into sentences.
package english

import (
	"fmt"
	"strings"
)

// Plural returns "1 object" or "2 objects", "1 patch" or "2 patches".
func Plural[N int | int64](n N, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		return fmt.Sprintf("%d %ses", n, noun)
	default:
		return fmt.Sprintf("%d %ss", n, noun)
	}
}

// PluralHave returns "1 object has" or "2 objects have".
func PluralHave[N int | int64](n N, noun string) string {
	if n == 1 {
		return Plural(n, noun) + " has"
	}
	return Plural(n, noun) + " have"
}

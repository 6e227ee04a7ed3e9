package lifecycle

import "fmt"

// Plural returns "1 object" or "2 objects".
func Plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// PluralHave returns "1 object has" or "2 objects have".
func PluralHave[N int | int64](n N, noun string) string {
	if n == 1 {
		return Plural(n, noun) + " has"
	}
	return Plural(n, noun) + " have"
}

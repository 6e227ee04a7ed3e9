package manifest

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRunes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", "ä", strings.Repeat("a", runeChunk), strings.Repeat("aä€😀", 5000), strings.Repeat("😀", runeChunk) + "x"} {
		bytes := []byte(text)
		index := newRunes(bytes)
		number := 0
		for at := range text {
			if number%97 == 0 || at > len(text)-20 {
				if got := index.before(bytes, at); got != number {
					t.Fatalf("%d characters before byte %d, want %d", got, at, number)
				}
				if got, ok := index.byteOf(bytes, number); got != at || !ok {
					t.Fatalf("character %d starts at byte %d, want %d", number, got, at)
				}
			}
			number++
		}
		if got := index.before(bytes, len(text)); got != utf8.RuneCountInString(text) {
			t.Errorf("%d characters", got)
		}
		if at, ok := index.byteOf(bytes, number); at != len(text) || !ok {
			t.Errorf("the end is at %d, %t", at, ok)
		}
		if _, ok := index.byteOf(bytes, number+1); ok {
			t.Error("there is a character beyond the end")
		}
	}
}

// TestFindInOneLongLine says that a place in a line of megabytes costs as much as
// another: it was quadratic in the number of findings, in time and in memory.
func TestFindInOneLongLine(t *testing.T) {
	text := `{"a": "` + strings.Repeat("ä", 1<<20) + `", "b": {"c": 1}}`
	document, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	place, exact := document.Find("b.c")
	want := utf8.RuneCountInString(text[:strings.Index(text, `"c"`)]) + 1
	if place.Line != 1 || place.Column != want || !exact || len(place.Text) > maxLine || !utf8.ValidString(place.Text) {
		t.Errorf("%d:%d %t, %d bytes", place.Line, place.Column, exact, len(place.Text))
	}
	if allocated := testing.AllocsPerRun(10, func() { document.Find("b.c") }); allocated > 20 {
		t.Errorf("%v allocations", allocated)
	}
}

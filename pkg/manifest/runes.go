package manifest

import (
	"sort"
	"unicode/utf8"
)

// runeChunk is how many bytes are counted at most to count the characters before
// a place: a document can be one line of megabytes, with a finding in each of
// thousands of versions.
const runeChunk = 4096

// runes has the number of characters before each multiple of runeChunk bytes.
type runes []int

func newRunes(text []byte) runes {
	index := make(runes, 0, len(text)/runeChunk+1)
	count := 0
	for start := 0; start <= len(text); start += runeChunk {
		index = append(index, count)
		count += startsIn(text[start:min(start+runeChunk, len(text))])
	}
	return index
}

// startsIn counts the characters that start in a part of a text in UTF-8, which
// may begin and end inside of one.
func startsIn(part []byte) int {
	count := 0
	for _, c := range part {
		if utf8.RuneStart(c) {
			count++
		}
	}
	return count
}

// before counts the characters before a byte.
func (r runes) before(text []byte, at int) int {
	chunk := at / runeChunk
	return r[chunk] + startsIn(text[chunk*runeChunk:at])
}

// byteOf returns the byte at which the character with a number starts, from 0, or
// the end of the text for the one after its last; ok is false beyond that.
func (r runes) byteOf(text []byte, number int) (at int, ok bool) {
	// The last chunk with fewer characters before it.
	chunk := max(sort.SearchInts(r, number+1)-1, 0)
	left := number - r[chunk]
	for at = chunk * runeChunk; at < len(text); at++ {
		if !utf8.RuneStart(text[at]) {
			continue
		}
		if left == 0 {
			return at, true
		}
		left--
	}
	return len(text), left == 0
}

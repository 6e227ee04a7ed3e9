package manifest

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Position is a place in a document.
type Position struct {
	// Line is the line, from 1, as editors count: at line feeds.
	Line int
	// Column is the character of the line, from 1.
	Column int
	// Text is the line, without its end, and cut if it is very long.
	Text string
}

// maxLine bounds the text of a line: a document can be a single one.
const maxLine = 2048

// Find returns the place of a field: that of its key, or of the item of a list.
// If the field does not exist, it is the place of the nearest one around it
// that does, and exact is false.
func (d *Document) Find(path string) (place Position, exact bool) {
	way := d.walk(path)
	node := d.root
	if len(way.steps) > 0 {
		last := way.steps[len(way.steps)-1]
		if node = last.node; last.key != nil {
			node = last.key
		}
	}
	return d.position(node), way.rest == ""
}

func (d *Document) position(node *yaml.Node) Position {
	at, ok := d.offset(node)
	if !ok {
		return Position{Line: 1, Column: 1}
	}
	line, _ := slices.BinarySearch(d.feeds, at+1)
	start, end := 0, len(d.text)
	if line > 0 {
		start = d.feeds[line-1]
	}
	if line < len(d.feeds) {
		end = d.feeds[line] - 1
	}
	place := Position{Line: line + 1, Column: d.runes.before(d.text, at) - d.runes.before(d.text, start) + 1}
	shown := bytes.TrimSuffix(d.text[start:end], []byte{'\r'})
	if start == 0 && bytes.HasPrefix(shown, []byte(byteOrderMark)) {
		shown = shown[len(byteOrderMark):]
		place.Column--
	}
	if len(shown) > maxLine {
		shown = shown[:maxLine]
		for !utf8.Valid(shown) { // At most three times: the document is valid.
			shown = shown[:len(shown)-1]
		}
	}
	place.Text = string(shown)
	return place
}

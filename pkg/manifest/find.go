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
	// Text is the whole line, without its end.
	Text string
}

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
	start := bytes.LastIndexByte(d.text[:at], '\n') + 1
	line, _ := slices.BinarySearch(d.feeds, at+1)
	end := len(d.text)
	if length := bytes.IndexByte(d.text[at:], '\n'); length >= 0 {
		end = at + length
	}
	place := Position{
		Line: line + 1,
		Text: string(bytes.TrimSuffix(d.text[start:end], []byte{'\r'})),
	}
	before := d.text[start:at]
	if start == 0 {
		before = bytes.TrimPrefix(before, []byte(byteOrderMark))
		place.Text = string(bytes.TrimPrefix([]byte(place.Text), []byte(byteOrderMark)))
	}
	place.Column = utf8.RuneCount(before) + 1
	return place
}

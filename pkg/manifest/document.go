package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Document is one YAML document, or one value of JSON.
type Document struct {
	text []byte
	root *yaml.Node
	// starts are the bytes at which the lines start, as the YAML parser counts
	// lines.
	starts []int
	// feeds are the bytes after the line feeds: editors count these lines.
	feeds []int
	// runes counts characters.
	runes runes
	// json documents have quotes around every key.
	json bool
}

// byteOrderMark may come first in a document; the parser does not count it.
const byteOrderMark = "\ufeff"

// Parse reads a document. Its aliases are not expanded.
func Parse(text []byte) (*Document, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not a text in UTF-8")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, more yaml.Node
	if err := decoder.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("an empty document")
		}
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	if len(root.Content) == 0 {
		return nil, errors.New("an empty document")
	}
	document := &Document{text: text, root: root.Content[0], starts: lineStarts(text), runes: newRunes(text)}
	document.json = json.Valid(bytes.TrimPrefix(text, []byte(byteOrderMark)))
	for i, c := range text {
		if c == '\n' {
			document.feeds = append(document.feeds, i+1)
		}
	}
	return document, nil
}

// lineStarts returns the bytes at which the lines of a text start. The YAML
// parser also breaks lines at U+0085, U+2028 and U+2029.
func lineStarts(text []byte) []int {
	starts := []int{0}
	if bytes.HasPrefix(text, []byte(byteOrderMark)) {
		starts[0] = len(byteOrderMark)
	}
	for i := starts[0]; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch r {
		case '\r':
			if i < len(text) && text[i] == '\n' {
				i++
			}
			starts = append(starts, i)
		case '\n', '\u0085', '\u2028', '\u2029':
			starts = append(starts, i)
		}
	}
	return starts
}

// offset returns the byte at which a node starts.
func (d *Document) offset(node *yaml.Node) (int, bool) {
	if node.Line < 1 || node.Line > len(d.starts) || node.Column < 1 {
		return 0, false
	}
	return d.runes.byteOf(d.text, d.runes.before(d.text, d.starts[node.Line-1])+node.Column-1)
}

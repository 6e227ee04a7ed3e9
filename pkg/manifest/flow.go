package manifest

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// addFlow adds an entry to a mapping in braces.
func (d *Document) addFlow(mapping *yaml.Node, entry string) (splice, string) {
	if len(mapping.Content) == 0 {
		start, ok := d.offset(mapping)
		if !ok || start >= len(d.text) || d.text[start] != '{' {
			return splice{}, "its place in the text is unknown"
		}
		return splice{start: start + 1, end: start + 1, text: entry}, ""
	}
	key, value := mapping.Content[len(mapping.Content)-2], mapping.Content[len(mapping.Content)-1]
	start, okStart := d.offset(key)
	end, okEnd := d.flowEntryEnd(value)
	if !okStart || !okEnd || end <= start {
		return splice{}, "its place in the text is unknown"
	}
	lineStart, _ := d.lineAt(start)
	margin := d.text[lineStart:start]
	if len(bytes.TrimLeft(margin, " \t")) > 0 {
		return splice{start: end, end: end, text: ", " + entry}, ""
	}
	if _, lineEnd := d.lineAt(end); bytes.IndexByte(d.text[end:lineEnd], '#') >= 0 {
		return splice{}, "a comment follows the last field"
	}
	return splice{start: end, end: end, text: "," + d.endOfLine(end) + string(margin) + entry}, ""
}

func (d *Document) flowEntryEnd(value *yaml.Node) (int, bool) {
	at, ok := d.offset(value)
	if !ok {
		return 0, false
	}
	if value.Kind == yaml.ScalarNode && value.Value == "" && value.Style == 0 {
		return at, true // Nothing follows the colon.
	}
	return d.flowEnd(at)
}

// removeFlow removes an entry of a mapping in braces, and the comma that it
// needs no more.
func (d *Document) removeFlow(mapping, key *yaml.Node) (splice, string) {
	const unknown = "its place in the text is unknown"
	i := 0
	for mapping.Content[i] != key {
		i += 2
	}
	start, okStart := d.offset(key)
	valueEnd, okEnd := d.flowEntryEnd(mapping.Content[i+1])
	if !okStart || !okEnd {
		return splice{}, unknown
	}
	cut := splice{start: start, end: valueEnd}
	gap := d.text[:0]
	switch {
	case i+2 < len(mapping.Content):
		next, ok := d.offset(mapping.Content[i+2])
		if !ok || next < valueEnd {
			return splice{}, unknown
		}
		cut.end, gap = next, d.text[valueEnd:next]
	case i > 0:
		before, ok := d.flowEntryEnd(mapping.Content[i-1])
		if !ok || before > start {
			return splice{}, unknown
		}
		cut.start, gap = before, d.text[before:start]
	}
	if bytes.IndexByte(gap, '#') >= 0 {
		return splice{}, "a comment is between it and the next field"
	}
	return cut, ""
}

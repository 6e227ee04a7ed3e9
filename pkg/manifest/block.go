package manifest

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// splice replaces some bytes of a text.
type splice struct {
	start, end int
	text       string
}

// entryEnd returns the byte after the last line of an entry of a mapping that
// is written in lines: its value is what is indented deeper.
func (d *Document) entryEnd(key, value *yaml.Node) int {
	indent := key.Column - 1
	items := value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle == 0
	end := key.Line // The index of the line after the key's.
	for i := key.Line; i < len(d.starts); i++ {
		line := d.lineText(i)
		content := bytes.TrimLeft(line, " ")
		deep := len(line) - len(content)
		content = bytes.TrimRight(content, " \t\r\n")
		switch {
		case len(content) == 0:
			continue
		case deep > indent, items && deep == indent && isItem(content):
			end = i + 1
			continue
		case content[0] == '#':
			continue
		}
		break
	}
	if end >= len(d.starts) {
		return len(d.text)
	}
	return d.starts[end]
}

func isItem(content []byte) bool {
	return content[0] == '-' && (len(content) == 1 || content[1] == ' ' || content[1] == '\t')
}

func (d *Document) lineText(i int) []byte {
	if i+1 < len(d.starts) {
		return d.text[d.starts[i]:d.starts[i+1]]
	}
	return d.text[d.starts[i]:]
}

// addLine adds an entry to a mapping that is written in lines, after the
// neighbour that it is looked for at. entry has one line feed between two lines
// and the indentation below its key, and none at its end.
func (d *Document) addLine(mapping *yaml.Node, name, entry string) splice {
	key, value := neighbour(mapping, name)
	return d.addLineAfter(d.entryEnd(key, value), key.Column-1, entry)
}

// addLineAfter adds lines at the start of a line, or at the end of the text.
func (d *Document) addLineAfter(at, indent int, entry string) splice {
	eol := d.endOfLine(max(at-1, 0))
	if at > 0 && (d.text[at-1] == '\n' || d.text[at-1] == '\r') {
		// What the line before it ends with.
		eol = string(d.text[at-1])
		if at > 1 && eol == "\n" && d.text[at-2] == '\r' {
			eol = "\r\n"
		}
	}
	margin := strings.Repeat(" ", indent)
	lines := margin + strings.ReplaceAll(entry, "\n", eol+margin)
	if at == len(d.text) && !bytes.HasSuffix(d.text, []byte(eol)) {
		return splice{start: at, end: at, text: eol + lines}
	}
	return splice{start: at, end: at, text: lines + eol}
}

// neighbour returns the entry after which a new one belongs: in the order of
// the alphabet if the others are in it, as generators write them, otherwise
// after the last short one, so that flags come before schemas.
func neighbour(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	var keys []string
	for i := 0; i < len(mapping.Content); i += 2 {
		keys = append(keys, mapping.Content[i].Value)
	}
	at := len(keys) - 1
	if len(keys) > 1 && slices.IsSorted(keys) {
		at, _ = slices.BinarySearch(keys, name)
		at = max(at-1, 0)
	} else {
		for i := at; i >= 0; i-- {
			if one := mapping.Content[2*i+1]; one.Kind == yaml.ScalarNode && one.Line == mapping.Content[2*i].Line &&
				one.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
				at = i
				break
			}
		}
	}
	return mapping.Content[2*at], mapping.Content[2*at+1]
}

// removeLines removes an entry of a mapping that is written in lines.
func (d *Document) removeLines(mapping, key, value *yaml.Node) (splice, string) {
	start, ok := d.offset(key)
	if !ok {
		return splice{}, "its place in the text is unknown"
	}
	if len(mapping.Content) == 2 {
		return splice{}, "it is the only field of its mapping"
	}
	line, _ := d.lineAt(start)
	if len(bytes.TrimLeft(d.text[line:start], " ")) == 0 {
		end := d.entryEnd(key, value)
		if end == len(d.text) && line > 0 && !bytes.ContainsAny(d.text[end-1:end], "\r\n") {
			// The file has no line break at its end, and gets none.
			line = len(bytes.TrimSuffix(bytes.TrimSuffix(d.text[:line], []byte("\n")), []byte("\r")))
		}
		return splice{start: line, end: end}, ""
	}
	// "- name: v1": the next field comes up to the dash.
	if mapping.Content[0] != key {
		return splice{}, "it is not at the start of its line"
	}
	end, ok := d.offset(mapping.Content[2])
	if !ok || end < start {
		return splice{}, "its place in the text is unknown"
	}
	if next, _ := d.lineAt(end); d.entryEnd(key, value) != next {
		return splice{}, "a comment is between it and the next field"
	}
	return splice{start: start, end: end}, ""
}

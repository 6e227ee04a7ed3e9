package manifest

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalar returns the bytes of a scalar, quotes and all.
func (d *Document) scalar(node *yaml.Node) (start, end int, reason string) {
	start, ok := d.offset(node)
	switch {
	case !ok:
		return 0, 0, "its place in the text is unknown"
	case node.Kind != yaml.ScalarNode:
		return 0, 0, "it is not a scalar"
	case node.Anchor != "" || node.Style&yaml.TaggedStyle != 0:
		return 0, 0, "it has an anchor or a tag"
	}
	switch {
	case node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return 0, 0, "it is a block of text"
	case node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		end, ok = d.quoted(start)
	default:
		end, ok = d.words(start, node.Value)
	}
	if !ok {
		return 0, 0, "its place in the text is unknown"
	}
	return start, end, ""
}

// words returns where a text without quotes ends. Generators break long ones
// into several lines, so only its words are the same.
func (d *Document) words(at int, text string) (int, bool) {
	blank := func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) }
	for word := range strings.FieldsFuncSeq(text, blank) {
		at += len(d.text[at:]) - len(bytes.TrimLeftFunc(d.text[at:], blank))
		if !bytes.HasPrefix(d.text[at:], []byte(word)) {
			return 0, false
		}
		at += len(word)
	}
	return at, true
}

// quoted returns where the quoted text ends that starts at a byte.
func (d *Document) quoted(start int) (int, bool) {
	if start >= len(d.text) {
		return 0, false
	}
	quote := d.text[start]
	if quote != '"' && quote != '\'' {
		return 0, false
	}
	for i := start + 1; i < len(d.text); i++ {
		switch {
		case quote == '"' && d.text[i] == '\\':
			i++
		case d.text[i] != quote:
		case quote == '\'' && i+1 < len(d.text) && d.text[i+1] == quote:
			i++
		default:
			return i + 1, true
		}
	}
	return 0, false
}

// flowEnd returns where a node ends that is written in a mapping or list in
// braces or brackets, or is one.
func (d *Document) flowEnd(at int) (int, bool) {
	// An anchor or a tag comes before the value.
	for at < len(d.text) && (d.text[at] == '&' || d.text[at] == '!') {
		at += max(bytes.IndexAny(d.text[at:], " \t\r\n,]}"), 1)
		at += len(d.text[at:]) - len(bytes.TrimLeft(d.text[at:], " \t\r\n"))
	}
	depth := 0
	for at < len(d.text) {
		switch d.text[at] {
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			depth--
			at++
		case ' ', '\t', '\r', '\n', ',', ':':
			at++
			if depth == 0 {
				return 0, false
			}
			continue
		case '#':
			if depth == 0 {
				return 0, false
			}
			for at < len(d.text) && d.text[at] != '\n' {
				at++
			}
			continue
		case '"', '\'':
			end, ok := d.quoted(at)
			if !ok {
				return 0, false
			}
			at = end
		default:
			at = d.plainEnd(at)
		}
		if depth <= 0 {
			return at, depth == 0
		}
	}
	return 0, false
}

// plainEnd returns where a word without quotes ends.
func (d *Document) plainEnd(at int) int {
	end := at
	for ; at < len(d.text); at++ {
		switch d.text[at] {
		case ',', '[', ']', '{', '}', '\r', '\n':
			return end
		case ':':
			if at+1 == len(d.text) || bytes.IndexByte([]byte(" \t\r\n,[]{}"), d.text[at+1]) >= 0 {
				return end
			}
			end = at + 1
		case '#':
			if d.text[at-1] == ' ' || d.text[at-1] == '\t' {
				return end
			}
			end = at + 1
		case ' ', '\t':
		default:
			end = at + 1
		}
	}
	return end
}

// lineAt returns where the line starts and ends that holds a byte.
func (d *Document) lineAt(at int) (start, end int) {
	start = bytes.LastIndexAny(d.text[:at], "\r\n") + 1
	if start == 0 && bytes.HasPrefix(d.text, []byte(byteOrderMark)) {
		start = len(byteOrderMark)
	}
	if end = bytes.IndexAny(d.text[at:], "\r\n"); end < 0 {
		return start, len(d.text)
	}
	return start, at + end
}

// endOfLine returns how a line ends, as the one around a byte, or the first one.
func (d *Document) endOfLine(at int) string {
	_, end := d.lineAt(at)
	if end == len(d.text) {
		_, end = d.lineAt(0)
	}
	switch {
	case end == len(d.text):
		return "\n"
	case bytes.HasPrefix(d.text[end:], []byte("\r\n")):
		return "\r\n"
	}
	return string(d.text[end])
}

package manifestuse

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The bounds of what belongs to one mapping: lines, and bytes in braces.
const (
	maxLines  = 20_000
	maxBraces = 256 << 10
)

const byteOrderMark = "\ufeff"

// text is a file and where its lines start.
type text struct {
	bytes  []byte
	starts []int
}

func newText(content []byte) text {
	t := text{bytes: content, starts: []int{0}}
	if bytes.HasPrefix(content, []byte(byteOrderMark)) {
		t.starts[0] = len(byteOrderMark) // It has no column.
	}
	for i, c := range content {
		if c == '\n' {
			t.starts = append(t.starts, i+1)
		}
	}
	return t
}

// lineOf returns the line, from 0, that a byte is on.
func (t *text) lineOf(at int) int {
	line, exact := slices.BinarySearch(t.starts, at)
	if exact {
		return line
	}
	return max(line-1, 0)
}

// line returns a line without its end.
func (t *text) line(i int) []byte {
	end := len(t.bytes)
	if i+1 < len(t.starts) {
		end = t.starts[i+1]
	}
	return bytes.TrimRight(t.bytes[t.starts[i]:end], "\r\n")
}

// shape is how a line is indented: where its text starts, and where what follows
// the dashes of list items starts.
type shape struct {
	lead, key int
	// skip says that the line is empty, a comment, or only a directive of a
	// template, and end that a document ends there.
	skip, end bool
}

func shapeOf(line []byte) shape {
	rest := bytes.TrimLeft(line, " \t")
	s := shape{lead: len(line) - len(rest)}
	s.key = s.lead
	trimmed := bytes.TrimSpace(rest)
	s.skip = len(trimmed) == 0 || trimmed[0] == '#' || bytes.HasPrefix(trimmed, []byte("{{")) && bytes.HasSuffix(trimmed, []byte("}}"))
	s.end = bytes.Equal(trimmed, []byte("---")) || bytes.HasPrefix(trimmed, []byte("--- "))
	for bytes.HasPrefix(rest, []byte("- ")) {
		rest = bytes.TrimLeft(rest[1:], " ")
		s.key = len(line) - len(rest)
	}
	return s
}

// siblings is what is beside a key.
type siblings struct {
	kind kindOf
	// values are the scalars beside the key.
	values map[string]string
	object []byte
}

// siblings returns the mapping in block style, or printed JSON, that the first key
// of a line is in: the lines with the same indentation, up and down to where it
// becomes less.
func (t *text) siblings(line int) siblings {
	own := shapeOf(t.line(line))
	found := siblings{values: map[string]string{}}
	first := line
	if own.key == own.lead { // What follows a dash is the first key.
		first = t.up(line, own.key, &found)
	}
	found.add(t.line(line))
	last := line
	for i := line + 1; i < len(t.starts) && i-line < maxLines; i++ {
		text := t.line(i)
		s := shapeOf(text)
		if s.skip {
			continue
		}
		if s.lead < own.key || s.end && s.lead <= own.key {
			break
		}
		last = i
		if s.lead == own.key && s.key == s.lead {
			found.add(text)
		}
	}
	if line-first < maxLines-1 && last-line < maxLines-1 { // Part of an object would hide what it loses.
		found.object = t.cut(first, last, own.key)
	}
	found.kind.name, found.kind.found = found.values["kind"]
	return found
}

// up looks at the lines above a key, and returns the first of the mapping.
func (t *text) up(line, column int, found *siblings) int {
	first := line
	for i := line - 1; i >= 0 && line-i < maxLines; i-- {
		text := t.line(i)
		s := shapeOf(text)
		switch {
		case s.skip:
			continue
		case s.end && s.lead <= column:
			return first
		case s.lead < column && s.key == column: // "- name: ..." begins the mapping.
			found.add(text)
			return i
		case s.lead < column:
			return first
		case s.lead == column && s.key == s.lead:
			found.add(text)
		}
		first = i
	}
	return first
}

var scalarLine = regexp.MustCompile(`^\s*(?:- +)*["']?([A-Za-z]+)["']?\s*:\s+["']?([^"'#,]*?)["']?\s*,?\s*(?:#.*)?$`)

func (s *siblings) add(line []byte) {
	if match := scalarLine.FindSubmatch(line); match != nil {
		if _, twice := s.values[string(match[1])]; !twice {
			s.values[string(match[1])] = string(match[2])
		}
	}
}

// cut returns lines of the file without what is left of a column.
func (t *text) cut(first, last, column int) []byte {
	var out bytes.Buffer
	for i := first; i <= last; i++ {
		line := t.line(i)
		if len(line) >= column {
			out.Write(line[column:])
		}
		out.WriteByte('\n')
	}
	if object := bytes.TrimSpace(out.Bytes()); bytes.HasPrefix(object, []byte(`"`)) { // Printed JSON, without its braces.
		return []byte("{" + string(object) + "}")
	}
	return out.Bytes()
}

var flowKind = regexp.MustCompile(`(?:^|[{,\s])\\*["']?kind\\*["']?\s*:\s*\\*["']?([\w.$-]+|\{\{.*?\}\})`)

// braces returns the kind in the braces around a byte, and all that is in them.
func (t *text) braces(at int) (kindOf, []byte) {
	open, closed := -1, -1
	for i, depth := at-1, 0; i >= max(0, at-maxBraces) && open < 0; i-- {
		switch t.bytes[i] {
		case '}':
			depth++
		case '{':
			if depth--; depth < 0 {
				open = i
			}
		}
	}
	for i, depth := at, 0; i < min(len(t.bytes), at+maxBraces) && closed < 0; i++ {
		switch t.bytes[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth < 0 {
				closed = i
			}
		}
	}
	if open < 0 || closed < 0 {
		return kindOf{}, nil
	}
	object := t.bytes[open : closed+1]
	match := flowKind.FindSubmatch(top(object))
	if match == nil {
		return kindOf{}, object
	}
	return kindOf{name: string(match[1]), found: true}, object
}

// top returns what is in the outermost braces and not in those within.
func top(object []byte) []byte {
	var out []byte
	depth := 0
	for i, c := range object {
		template := bytes.HasPrefix(object[i:], []byte("{{")) || i > 0 && bytes.HasSuffix(object[:i+1], []byte("}}"))
		switch {
		case c == '{' && !template:
			depth++
		case c == '}' && !template:
			depth--
		}
		if depth == 1 {
			out = append(out, c)
		}
	}
	return out
}

var versionLine = regexp.MustCompile(`^\s*(?:- +)*["']?version["']?\s*:\s+["']?([a-z0-9-]+)["']?\s*,?\s*(?:#.*)?$`)

// targets looks for group, version and kind beside each other, as the targets of
// patches and replacements in kustomizations have them.
func (f *finder) targets() {
	name := strings.ToLower(filepath.Base(f.file))
	kustomization := strings.HasPrefix(name, "kustomization")
	for i, start := range f.starts {
		line := f.line(i)
		match := versionLine.FindSubmatchIndex(line)
		if match == nil || !slices.Contains(f.wanted.Versions, string(line[match[2]:match[3]])) {
			continue
		}
		beside := f.siblings(i)
		if beside.values["group"] != f.wanted.Group || !f.isKind(beside.values["kind"]) && (!kustomization || beside.kind.found) {
			continue
		}
		place := Place{
			Version: string(line[match[2]:match[3]]), What: Selects, Note: "the version of a target, as in kustomizations",
			start: start + match[2], end: start + match[3],
		}
		f.locate(&place, start+shapeOf(line).key)
		f.places = append(f.places, place)
	}
}

// Package manifestuse finds the manifests of a repository that name a version of a
// CRD, and rewrites their apiVersion to another one.
//
// It reads text and not YAML: templates of Helm are no valid YAML, and what is
// embedded in a string of a ConfigMap is no YAML of the document around it. Every
// "GROUP/VERSION" is accounted for: it is the apiVersion of the kind, that of
// another kind, or a mention.
package manifestuse

import (
	"bytes"
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// What says in which way a place names a version.
type What string

// The ways.
const (
	// Names is an apiVersion beside the kind.
	Names What = "names"
	// Selects is the version of a target in a kustomization: it fits no object any
	// more once that has another apiVersion.
	Selects What = "selects"
	// Mentions is "GROUP/VERSION" anywhere else: a comment, a condition of a
	// template, source code.
	Mentions What = "mentions"
)

// Wanted is what to look for.
type Wanted struct {
	Group, Kind, ListKind string
	Versions              []string
}

// Place is one place of a file that names a version.
type Place struct {
	Version string
	What    What
	// Line and Column are those of the key, or of the text, from 1, in characters.
	Line, Column int
	// Note says what there is to know.
	Note string

	// start and end are the bytes of the version's name in the file.
	start, end int
	// literal says that the line holds nothing but the key and its value.
	literal bool
	// object is the text of the mapping.
	object []byte
}

// kindOf is what is known of the kind beside an apiVersion.
type kindOf struct {
	name  string
	found bool
}

// finder looks for places in one file.
type finder struct {
	text
	wanted   Wanted
	file     string
	manifest bool
	places   []Place
}

var (
	keyLine = regexp.MustCompile(`^\s*(?:- +)*(["']?)apiVersion(["']?)\s*:`)
	flowKey = regexp.MustCompile(`\\*["']?apiVersion\\*["']?\s*:\s*\\*["']?$`)
	// wholeLine is all that may be on a line beside the value.
	wholeLine = regexp.MustCompile(`^\s*(?:- +)*["']?apiVersion["']?\s*:\s*["']?[^\s"'{}]+["']?\s*,?\s*(?:#.*)?$`)
)

// Find returns the places in a file, in their order.
func Find(file string, content []byte, wanted Wanted) []Place {
	if !bytes.Contains(content, []byte(wanted.Group)) {
		return nil
	}
	f := &finder{text: newText(content), wanted: wanted, file: file, manifest: isManifest(file)}
	f.apiVersions()
	if f.manifest {
		f.targets()
	}
	slices.SortStableFunc(f.places, func(a, b Place) int { return cmp.Compare(a.start, b.start) })
	return f.places
}

// isManifest tells whether the name of a file is that of a manifest or template.
func isManifest(file string) bool {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".yaml", ".yml", ".json", ".tpl", ".tmpl", ".gotmpl":
		return true
	}
	return file == Stdin
}

// apiVersions looks for each "GROUP/".
func (f *finder) apiVersions() {
	group := []byte(f.wanted.Group + "/")
	for at := 0; ; {
		next := bytes.Index(f.bytes[at:], group)
		if next < 0 {
			return
		}
		start := at + next
		at = start + len(group)
		if start > 0 && ofName(f.bytes[start-1], true) {
			continue
		}
		f.version(start, at)
	}
}

// version looks at what follows "GROUP/".
func (f *finder) version(start, at int) {
	end := at
	for end < len(f.bytes) && ofName(f.bytes[end], false) {
		end++
	}
	name := string(f.bytes[at:end])
	if name == "" && bytes.HasPrefix(f.bytes[end:], []byte("{{")) {
		f.templated(start)
		return
	}
	if !slices.Contains(f.wanted.Versions, name) {
		return
	}
	place := Place{Version: name, What: Mentions, start: at, end: end}
	f.locate(&place, start)
	if f.manifest && !f.judge(&place, start) {
		return
	}
	f.places = append(f.places, place)
}

// templated notes an apiVersion whose version a template puts in.
func (f *finder) templated(start int) {
	line := f.lineOf(start)
	if !f.manifest || !keyLine.Match(f.line(line)) {
		return
	}
	siblings := f.siblings(line)
	if siblings.kind.found && !f.isKind(siblings.kind.name) {
		return
	}
	for _, version := range f.wanted.Versions {
		place := Place{Version: version, What: Mentions, start: start, end: start, Note: "a template puts the version in"}
		f.locate(&place, start)
		f.places = append(f.places, place)
	}
}

// judge finds out what a place in a manifest is; false if it is none of the kind.
func (f *finder) judge(place *Place, start int) bool {
	line := f.lineOf(start)
	text := f.line(line)
	before := f.bytes[f.starts[line]:start]
	var kind kindOf
	switch key := keyLine.FindSubmatchIndex(text); {
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("#")):
		place.Note = "in a comment"
		return true
	case bytes.Contains(before, []byte(".Capabilities.APIVersions.Has")):
		place.Note = "a condition of a template"
		return true
	case key != nil:
		siblings := f.siblings(line)
		kind, place.object = siblings.kind, siblings.object
		if !kind.found { // Braces over several lines, with several keys on one.
			kind, place.object = f.braces(start)
		}
		place.literal = wholeLine.Match(text)
		f.locate(place, f.starts[line]+key[2])
	case flowKey.Match(before):
		kind, place.object = f.braces(start)
		place.literal = !bytes.Contains(text, []byte("{{"))
		f.locate(place, f.starts[line]+flowKey.FindIndex(before)[0])
	default:
		return true
	}
	switch {
	case !kind.found:
		place.Note = "no kind is beside it"
	case strings.Contains(kind.name, "{{"):
		place.Note = "a template puts the kind in"
	case f.isKind(kind.name):
		place.What = Names
	default:
		return false
	}
	return true
}

func (f *finder) isKind(name string) bool {
	return name == f.wanted.Kind || name == cmp.Or(f.wanted.ListKind, f.wanted.Kind+"List")
}

// ofName tells whether a byte continues the name of a version, or of a group.
func ofName(c byte, group bool) bool {
	return c == '-' || group && c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// locate sets the line and the column of a byte.
func (f *finder) locate(place *Place, at int) {
	line := f.lineOf(at)
	place.Line, place.Column = line+1, utf8.RuneCount(f.bytes[f.starts[line]:at])+1
}

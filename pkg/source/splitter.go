package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// document is the text of one YAML document, or of a stream of JSON.
type document struct {
	file string
	text []byte
	// start is the line of the file that text starts in, from 1; 0 if it is not
	// the text of a file.
	start int
}

// origin returns the place of a line of the document, from 1.
func (d document) origin(line int) crd.Origin {
	origin := crd.Origin{File: d.file}
	if d.start > 0 {
		origin.Line = d.start + line - 1
	}
	return origin
}

// firstLine returns the first line of the document that is not empty and no
// comment, from 1.
func (d document) firstLine() int {
	number := 1
	for line := range bytes.Lines(d.text) {
		if !blank(line) {
			return number
		}
		number++
	}
	return 1
}

// errorf returns an error that names the file and the line.
func (d document) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s: %w", d.origin(line), fmt.Errorf(format, args...))
}

// blank reports whether a line holds nothing, a comment or a directive.
func blank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#' || line[0] == '%'
}

// splitter cuts a stream at the document markers of YAML. They are markers
// wherever they are at the start of a line, even in a block of text.
type splitter struct {
	name   string
	reader *bufio.Reader
	// line is the number of the line that is read next, from 1.
	line int
	size int64
	// rest is what followed the marker on its line.
	rest []byte
	done bool
}

func newSplitter(name string, reader io.Reader) *splitter {
	return &splitter{name: name, reader: bufio.NewReaderSize(reader, 64<<10), line: 1}
}

// next returns the next document that is not empty, or io.EOF.
func (s *splitter) next() (document, error) {
	for !s.done {
		doc, err := s.read()
		if err != nil {
			return document{}, err
		}
		empty := true
		for line := range bytes.Lines(doc.text) {
			if !blank(line) {
				empty = false
				break
			}
		}
		if empty {
			continue
		}
		if !utf8.Valid(doc.text) {
			return document{}, doc.errorf(invalidLine(doc.text), "not a text in UTF-8")
		}
		return doc, nil
	}
	return document{}, io.EOF
}

// read returns what comes up to the next marker.
func (s *splitter) read() (document, error) {
	doc := document{file: s.name, text: s.rest, start: s.line}
	if s.rest != nil {
		doc.start-- // The marker's own line.
		s.rest = nil
	}
	atStart := true
	for {
		part, err := s.reader.ReadSlice('\n')
		if atStart && marker(part) {
			s.line++
			s.rest = append([]byte{}, part[len("---"):]...)
			return doc, nil
		}
		doc.text = append(doc.text, part...)
		if s.size += int64(len(part)); s.size > maxInput {
			return doc, fmt.Errorf("%s is larger than %d MiB: read it in parts", s.name, maxInput>>20)
		}
		if len(doc.text) > maxDocument {
			return doc, doc.errorf(doc.firstLine(), "the document is larger than %d MiB: split the list, or read the CRDs from the cluster", maxDocument>>20)
		}
		if atStart = !errors.Is(err, bufio.ErrBufferFull); !atStart {
			continue // A long line goes on.
		}
		if errors.Is(err, io.EOF) {
			s.done = true
			return doc, nil
		}
		if err != nil {
			return doc, fmt.Errorf("reading %s: %w", s.name, err)
		}
		s.line++
	}
}

// marker reports whether a line starts ("---") or ends ("...") a document.
func marker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == len("---") || bytes.IndexByte([]byte(" \t\r\n"), line[len("---")]) >= 0
}

// invalidLine returns the line of the first byte that is not UTF-8.
func invalidLine(text []byte) int {
	number := 1
	for line := range bytes.Lines(text) {
		if !utf8.Valid(line) {
			return number
		}
		number++
	}
	return number
}

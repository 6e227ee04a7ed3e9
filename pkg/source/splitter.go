package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// document is the text of one YAML document, or of a stream of JSON.
type document struct {
	file string
	text []byte
	// start is the line of the file that text starts in, from 1; 0 if it is not
	// the text of a file.
	start int
	// offset is the byte of the file that text starts at; -1 if it was decoded.
	offset int64
	// item is the place in the document of what is decoded: "items[3]" of a list.
	item string

	// What decode found out once, and not for each item of a list: the first
	// line, and whether it may be a template.
	first    int
	template templateSigns
}

// origin returns the place of a line of the document, from 1.
func (d document) origin(line int) crd.Origin {
	origin := crd.Origin{File: d.file}
	if d.start > 0 {
		origin.Line = d.start + line - 1
	}
	return origin
}

// within returns the document for an item of the list that it is.
func (d document) within(index int) document {
	if d.item != "" {
		d.item += "."
	}
	d.item += "items[" + strconv.Itoa(index) + "]"
	return d
}

// place returns where a CRD is for those who look for its fields; nil if it is
// nowhere in a file.
func (d document) place() *crd.Document {
	if d.start == 0 {
		return nil
	}
	return &crd.Document{Text: d.text, Start: d.start, Item: d.item, Offset: d.offset}
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
	// before is the length of the byte order mark; -1 if the file is UTF-16.
	before int64
	// rest is what followed the marker on its line.
	rest []byte
	done bool
}

// newSplitter returns a splitter. As kubectl does, it decodes UTF-16 if a byte
// order mark says so.
func newSplitter(name string, reader io.Reader) *splitter {
	const bufferSize = 64 << 10
	s := &splitter{name: name, reader: bufio.NewReaderSize(reader, bufferSize), line: 1}
	head, _ := s.reader.Peek(len("\ufeff")) // An error comes again when it is read.
	switch {
	case string(head) == "\ufeff":
		n, _ := s.reader.Discard(len(head)) // It is in the buffer.
		s.before = int64(n)
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		s.before = -1
		s.reader = bufio.NewReaderSize(transform.NewReader(s.reader, unicode.BOMOverride(transform.Nop)), bufferSize)
	}
	return s
}

// offset returns the byte of the file that is read next; -1 if there is none.
func (s *splitter) offset() int64 {
	if s.before < 0 {
		return -1
	}
	return s.before + s.size
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
	doc := document{file: s.name, text: s.rest, start: s.line, offset: s.offset()}
	if s.rest != nil {
		doc.start-- // The marker's own line.
		if doc.offset >= 0 {
			doc.offset -= int64(len(s.rest))
		}
		s.rest = nil
	}
	atStart := true
	for {
		part, err := s.reader.ReadSlice('\n')
		s.size += int64(len(part))
		if atStart && marker(part) {
			s.line++
			s.rest = append([]byte{}, part[len("---"):]...)
			return doc, nil
		}
		doc.text = append(doc.text, part...)
		if s.size > maxInput {
			return doc, fmt.Errorf("%s is larger than %d MiB: read it in parts", s.name, maxInput>>20)
		}
		if len(doc.text) > maxDocument {
			return doc, doc.errorf(doc.firstLine(), "the document is larger than %d MiB: %s", maxDocument>>20,
				"an API server takes an object of at most 3 MiB; split a list into documents, or read the CRDs from the cluster")
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

package printers

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/cli-runtime/pkg/printers"
)

// ellipsis marks a text that was cut, as kubectl marks it.
const ellipsis = "..."

// Escape returns untrusted text as it can be shown on one line of a terminal:
// escape sequences in kubectl's way (^[), and other control characters,
// characters that change the direction of text and invalid UTF-8 as Go writes
// them. Line breaks and tabs are written as \n and \t.
func Escape(text string) string {
	if !strings.ContainsFunc(text, unsafe) && utf8.ValidString(text) {
		return text
	}
	text = printers.EscapeTerminal(text)
	var out strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\t':
			out.WriteString(`\t`)
		case r < utf8.RuneSelf && unsafe(r):
			fmt.Fprintf(&out, `\x%02x`, r)
		case unsafe(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// EscapeLines returns untrusted text of several lines as a terminal can show it.
func EscapeLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		columns := strings.Split(lines[i], "\t")
		for j := range columns {
			columns[j] = Escape(columns[j])
		}
		lines[i] = strings.Join(columns, "\t")
	}
	return strings.Join(lines, "\n")
}

// unsafe reports whether a terminal may obey r instead of showing it.
func unsafe(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// cell returns untrusted text as one cell of a table: cut at its first line
// break and escaped.
func cell(text string) string {
	text = strings.TrimRight(text, "\f\n\r")
	if end := strings.IndexAny(text, "\f\n\r"); end >= 0 {
		text = text[:end] + ellipsis
	}
	return Escape(text)
}

// terminalWriter escapes what is written to a terminal in a format that people
// chose themselves, where line breaks and tabs are layout.
type terminalWriter struct{ io.Writer }

func (w terminalWriter) Write(text []byte) (int, error) {
	var out strings.Builder
	for part := range strings.SplitAfterSeq(string(text), "\n") {
		line, newline := strings.CutSuffix(part, "\n")
		for i, column := range strings.Split(line, "\t") {
			if i > 0 {
				out.WriteByte('\t')
			}
			out.WriteString(Escape(column))
		}
		if newline {
			out.WriteByte('\n')
		}
	}
	if _, err := io.WriteString(w.Writer, out.String()); err != nil {
		return 0, err //nolint:wrapcheck // A writer passes on what it is told.
	}
	return len(text), nil
}

// safeForTerminal returns a writer that escapes if w is a terminal, and w if
// it is not: a program gets the text as it is.
func safeForTerminal(w io.Writer) io.Writer {
	if printers.IsTerminal(w) {
		return terminalWriter{w}
	}
	return w
}

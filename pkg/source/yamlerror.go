package source

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// yamlError turns an error of the YAML parser, whose lines count from the start
// of the document, into one with the place in the file.
func yamlError(doc document, err error) error {
	message := err.Error()
	for _, noise := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:"} {
		message = strings.TrimSpace(strings.TrimPrefix(message, noise))
	}
	message, _, _ = strings.Cut(message, "\n")
	line := doc.firstLine()
	if match := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(message); match != nil {
		if number, err := strconv.Atoi(match[1]); err == nil {
			line = number
		}
		message = message[len(match[0]):]
	}
	if bytes.Contains(doc.text, []byte("{{")) {
		return doc.errorf(line, "%s; as it is, it is not valid YAML: %s", errHelm, message)
	}
	if tabs := indentedByTab(doc.text); tabs > 0 && strings.Contains(message, "cannot start any token") {
		return doc.errorf(tabs, "not valid YAML: indented with a tab; use spaces")
	}
	if strings.Contains(message, "control characters") {
		line = unprintableLine(doc.text)
	}
	return doc.errorf(line, "not valid YAML: %s", message)
}

// unprintableLine returns the line of the first byte that no text has, such as
// NUL; the parser does not say.
func unprintableLine(text []byte) int {
	at := bytes.IndexFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n\u0085", r)
	})
	return 1 + bytes.Count(text[:max(at, 0)], []byte{'\n'})
}

// indentedByTab returns the first line whose indentation holds a tab, or 0.
func indentedByTab(text []byte) int {
	number := 1
	for line := range bytes.Lines(text) {
		if bytes.IndexByte(line[:len(line)-len(bytes.TrimLeft(line, " \t"))], '\t') >= 0 {
			return number
		}
		number++
	}
	return 0
}

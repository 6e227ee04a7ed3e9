package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// render returns the text of a scalar value. style is that of the value it
// replaces.
func (d *Document) render(value any, style yaml.Style) (string, error) {
	text, isText := value.(string)
	switch {
	case isText && !utf8.ValidString(text):
		return "", errors.New("the new value is not a text in UTF-8")
	case isText && d.json:
		style = yaml.DoubleQuotedStyle
	case isText:
	default:
		literal, err := literal(value)
		return string(literal), err
	}
	printable := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	switch {
	case style&yaml.DoubleQuotedStyle != 0 || !printable:
		return doubleQuoted(text, d.json)
	case style&yaml.SingleQuotedStyle != 0:
		return "'" + strings.ReplaceAll(text, "'", "''") + "'", nil
	case isPlain(text):
		return text, nil
	case strings.Contains(text, "'"):
		return doubleQuoted(text, false)
	default:
		return "'" + text + "'", nil
	}
}

// renderKey returns the text of a key next to another one.
func (d *Document) renderKey(key string, neighbour *yaml.Node) (string, error) {
	var style yaml.Style
	if neighbour != nil {
		style = neighbour.Style & (yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle)
	}
	return d.render(key, style)
}

// literal returns the JSON of a boolean or a number.
func literal(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("the new value cannot be written: %w", err)
	}
	if len(text) == 0 || bytes.IndexByte([]byte("{[n"), text[0]) >= 0 {
		return nil, errors.New("the new value is neither a text nor a boolean nor a number")
	}
	return text, nil
}

// doubleQuoted returns a text in double quotes, as both YAML and JSON read it.
func doubleQuoted(text string, asJSON bool) (string, error) {
	if asJSON {
		quoted, err := json.Marshal(text)
		if err != nil {
			return "", fmt.Errorf("the new value cannot be written: %w", err)
		}
		return string(quoted), nil
	}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08X`, r)
		default:
			fmt.Fprintf(&out, `\u%04X`, r)
		}
	}
	out.WriteByte('"')
	return out.String(), nil
}

// isPlain reports whether a text needs no quotes, as a key or a value, on a line
// of its own or in braces. YAML 1.1, which Kubernetes speaks, takes "yes" for a
// boolean; YAML 1.2 has other such words. Both are asked.
func isPlain(text string) bool {
	if strings.ContainsAny(text, "\n{}[],&*!|>%@`") {
		return false
	}
	for _, layout := range []string{"%s: %s\n", "{%s: %s}\n"} {
		line := fmt.Appendf(nil, layout, text, text)
		one, two := map[string]any{}, map[string]any{}
		if sigsyaml.Unmarshal(line, &one) != nil || yaml.Unmarshal(line, &two) != nil ||
			len(one) != 1 || len(two) != 1 || one[text] != any(text) || two[text] != any(text) {
			return false
		}
	}
	return true
}

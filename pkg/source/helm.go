package source

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// errHelm is the message for a manifest that Helm has yet to render (case 95).
const errHelm = "looks like a Helm template; render it first (helm template)"

// templateSigns are what of a template a text shows.
type templateSigns struct {
	// braces: it has "{{" somewhere, which may be somebody's text.
	braces bool
	// comment: a comment at the start of a line has "{{".
	comment bool
}

func newTemplateSigns(text []byte) (signs templateSigns) {
	if !bytes.Contains(text, []byte("{{")) {
		return signs
	}
	signs.braces = true
	for line := range bytes.Lines(text) {
		// In a block of text every line is indented, so this is a comment.
		if line[0] == '#' && bytes.Contains(line, []byte("{{")) {
			signs.comment = true
			break
		}
	}
	return signs
}

// helmTemplate reports whether a document has expressions of a template. The
// schemas of real CRDs document template languages of their own, so that "{{"
// there, and in what kubectl remembers of them, means nothing. text is the
// object as JSON.
func helmTemplate(signs templateSigns, text []byte) bool {
	if !signs.braces || signs.comment {
		return signs.comment
	}
	var object any
	if json.Unmarshal(text, &object) != nil {
		return false
	}
	return hasExpression(object)
}

// hasExpression looks for "{{" in the texts of an object.
func hasExpression(value any) bool {
	switch value := value.(type) {
	case string:
		return strings.Contains(value, "{{")
	case []any:
		return slices.ContainsFunc(value, hasExpression)
	case map[string]any:
		for key, element := range value {
			if strings.Contains(key, "{{") {
				return true
			}
			if !quotesTemplates(key) && hasExpression(element) {
				return true
			}
		}
	}
	return false
}

// quotesTemplates reports whether "{{" under a key is somebody's text.
func quotesTemplates(key string) bool {
	switch key {
	case "schema", "validation", "openAPIV3Schema", "additionalPrinterColumns", "description",
		"kubectl.kubernetes.io/last-applied-configuration":
		return true
	}
	return false
}

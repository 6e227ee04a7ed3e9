package validate

import (
	"regexp"
	"strings"
)

// warningText is what a deprecationWarning mentions.
type warningText struct {
	text string
	// own are the versions V of mentions GROUP/V of the CRD's own group, unless
	// another kind follows: groups hold several kinds, each with its own versions.
	own []string
	// others says that the text points to another group, kind or name.
	others bool
}

// mentions reads a deprecationWarning. It is written for people, so this is
// lenient: what cannot be told for certain counts as named.
func (s *Subject) mentions(text string) warningText {
	mentioned := warningText{text: text}
	groupVersion := regexp.MustCompile(`([a-z0-9][-a-z0-9.]*)/([a-z][-a-z0-9]*)(?:,? (?:Kind=)?([A-Z][A-Za-z0-9]*))?`)
	for _, match := range groupVersion.FindAllStringSubmatch(text, -1) {
		group, version, kind := match[1], match[2], match[3]
		switch {
		case group != s.CRD.Spec.Group:
			mentioned.others = mentioned.others || strings.Contains(group, ".")
		case kind != "" && kind != s.CRD.Spec.Names.Kind && kind != s.CRD.Spec.Names.ListKind:
			mentioned.others = true
		default:
			mentioned.own = append(mentioned.own, version)
		}
	}
	return mentioned
}

// bare reports whether a text has a word, as a whole.
func bare(text, word string) bool {
	if word == "" {
		return false
	}
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if (start == 0 || !wordByte(text[start-1])) && (end == len(text) || !wordByte(text[end])) {
			return true
		}
		from = start + 1
	}
}

func wordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_'
}

// recommended returns the version V of "use V" in a text, or "".
func recommended(text string) string {
	match := regexp.MustCompile(`(?i)\b(?:use|to) (?:version )?["'` + "`" + `]?([a-z][-a-z0-9]*)`).FindStringSubmatch(text)
	if match == nil {
		return ""
	}
	return match[1]
}

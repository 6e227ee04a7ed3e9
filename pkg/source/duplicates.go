package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// duplicateKeys refuses JSON in which a key comes twice, of which decoding takes
// the last; YAML is checked when it is parsed. The document is valid JSON.
func duplicateKeys(doc document) error {
	from := json.NewDecoder(bytes.NewReader(doc.text))
	var open []container
	for {
		token, failed := from.Token()
		if failed != nil {
			return nil // The end: the document was decoded before.
		}
		switch token {
		case json.Delim('{'):
			open = append(open, container{keys: map[string]struct{}{}})
			continue
		case json.Delim('['):
			open = append(open, container{})
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		default:
			if len(open) == 0 {
				break
			}
			last := &open[len(open)-1]
			if key, ok := token.(string); ok && last.keys != nil && !last.atValue {
				last.key, last.atValue = key, true
				if _, known := last.keys[key]; known {
					line := 1 + bytes.Count(doc.text[:from.InputOffset()], []byte{'\n'})
					return doc.errorf(line, "duplicate field %q", path(open))
				}
				last.keys[key] = struct{}{}
				continue
			}
		}
		// A value ended.
		if len(open) == 0 {
			return nil
		}
		last := &open[len(open)-1]
		last.index++
		last.atValue = false
	}
}

// container is an object or a list of JSON that is being read.
type container struct {
	// keys are those of an object so far; nil for a list.
	keys map[string]struct{}
	key  string
	// atValue: the key was read, and its value comes.
	atValue bool
	index   int
}

// path returns the path of what is being read.
func path(open []container) string {
	var text string
	for _, one := range open {
		switch {
		case one.keys == nil:
			text += "[" + strconv.Itoa(one.index) + "]"
		case text == "":
			text = one.key
		default:
			text = fmt.Sprintf("%s.%s", text, one.key)
		}
	}
	return text
}

package manifest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// change is an edit and the splice that makes it.
type change struct {
	splice

	edit Edit
	way  []step
	// added are the keys below way that did not exist.
	added []segment
}

// change returns how to make an edit; nil if there is nothing to do, or the
// reason why it cannot be done in place.
func (d *Document) change(edit Edit) (*change, string) {
	way := d.walk(edit.Path)
	made := change{edit: edit, way: way.steps}
	var reason string
	switch {
	case way.shared:
		return nil, "an anchor, an alias or a merge key is on the way to it"
	case way.rest == "" && len(way.steps) == 0:
		return nil, "it is the whole document"
	case edit.Remove && way.rest != "":
		return nil, ""
	case edit.Remove:
		made.splice, reason = d.remove(way.steps[len(way.steps)-1])
	case way.rest == "":
		last := way.steps[len(way.steps)-1]
		if equalsScalar(last.node, edit.Set) {
			return nil, ""
		}
		made.splice, reason = d.set(last, edit.Set)
	default:
		var ok bool
		if made.added, ok = segments(way.rest); !ok {
			return nil, "it is not the path of a field"
		}
		made.splice, reason = d.add(way, made.added, edit.Set)
	}
	if reason != "" {
		return nil, reason
	}
	return &made, ""
}

// remove takes an entry out of its mapping.
func (d *Document) remove(last step) (splice, string) {
	switch {
	case last.key == nil:
		return splice{}, "it is an item of a list"
	case merges(last.parent):
		return splice{}, "a merge key is next to it"
	case last.key.Anchor != "" || last.key.Kind != yaml.ScalarNode:
		return splice{}, "its key is no plain text"
	case anchored(last.node):
		return splice{}, "an anchor is in it"
	case last.parent.Style&yaml.FlowStyle != 0:
		return d.removeFlow(last.parent, last.key)
	default:
		return d.removeLines(last.parent, last.key, last.node)
	}
}

// anchored reports whether a node or one in it has an anchor, which other
// places may need.
func anchored(node *yaml.Node) bool {
	return node.Anchor != "" || slices.ContainsFunc(node.Content, anchored)
}

// set replaces a scalar.
func (d *Document) set(last step, value any) (splice, string) {
	start, end, reason := d.scalar(last.node)
	if reason != "" {
		return splice{}, reason
	}
	text, err := d.render(value, last.node.Style)
	if err != nil {
		return splice{}, err.Error()
	}
	if start == end {
		// Nothing is written after the colon.
		if last.key == nil {
			return splice{}, "it is an empty item of a list"
		}
		at, ok := d.afterColon(last.key)
		if !ok {
			return splice{}, "its place in the text is unknown"
		}
		return splice{start: at, end: at, text: " " + text}, ""
	}
	return splice{start: start, end: end, text: text}, ""
}

// afterColon returns the byte after the colon of a key.
func (d *Document) afterColon(key *yaml.Node) (int, bool) {
	_, end, reason := d.scalar(key)
	if reason != "" {
		return 0, false
	}
	end += len(d.text[end:]) - len(bytes.TrimLeft(d.text[end:], " \t"))
	return end + 1, end < len(d.text) && d.text[end] == ':'
}

// add adds a field, and the mappings that it is in.
func (d *Document) add(way trail, added []segment, value any) (splice, string) {
	mapping := way.last(d.root)
	for i, one := range added {
		if one.bracket && (mapping.Kind == yaml.SequenceNode || i == 0 && len(way.steps) == 0 || isIndex(one.text)) {
			return splice{}, fmt.Sprintf("there is no item [%s] in its list", one.text)
		}
	}
	empty := mapping.Kind == yaml.ScalarNode && mapping.Value == "" && mapping.Style == 0 && len(way.steps) > 0
	switch {
	case empty && inFlow(way), !empty && mapping.Kind != yaml.MappingNode:
		return splice{}, "what it belongs into is not a mapping"
	case merges(mapping):
		return splice{}, "a merge key is next to it"
	}
	var siblings *yaml.Node
	if len(mapping.Content) > 0 {
		siblings = mapping.Content[len(mapping.Content)-2]
	}
	flow := mapping.Style&yaml.FlowStyle != 0
	entry, err := d.entry(added, value, siblings, flow)
	switch {
	case err != nil:
		return splice{}, err.Error()
	case flow:
		return d.addFlow(mapping, entry)
	case !empty:
		return d.addLine(mapping, added[0].text, entry), ""
	}
	key := way.steps[len(way.steps)-1].key
	if key == nil {
		return splice{}, "what it belongs into is an empty item of a list"
	}
	at := len(d.text)
	if key.Line < len(d.starts) {
		at = d.starts[key.Line]
	}
	return d.addLineAfter(at, key.Column+1, entry), ""
}

// inFlow reports whether the last node of a trail is in braces or brackets.
func inFlow(way trail) bool {
	return slices.ContainsFunc(way.steps, func(one step) bool { return one.parent.Style&yaml.FlowStyle != 0 })
}

func isIndex(text string) bool { return strings.Trim(text, "0123456789") == "" }

// entry returns the text of a new field with the mappings that it is in.
func (d *Document) entry(added []segment, value any, sibling *yaml.Node, flow bool) (string, error) {
	text, err := d.render(value, 0)
	if err != nil {
		return "", err
	}
	for i := len(added) - 1; i >= 0; i-- {
		key, err := d.renderKey(added[i].text, sibling)
		if err != nil {
			return "", err
		}
		switch {
		case i == len(added)-1:
			text = key + ": " + text
		case flow:
			text = key + ": {" + text + "}"
		default:
			text = key + ":\n  " + strings.ReplaceAll(text, "\n", "\n  ")
		}
	}
	return text, nil
}

package manifest

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxCandidates bounds how many ways to read a path are tried at one mapping.
const maxCandidates = 32

// segment is one step of a path: a key, or an index, which is also a key.
type segment struct {
	text    string
	bracket bool
}

// candidates returns the ways to take the first segment off a path, the
// likeliest first. There are several because keys may hold dots and brackets.
func candidates(path string) (segments []segment, rests []string) {
	add := func(text string, bracket bool, rest string) {
		segments = append(segments, segment{text: text, bracket: bracket})
		rests = append(rests, rest)
	}
	if strings.HasPrefix(path, "[") {
		for i := 1; i < len(path) && len(segments) < maxCandidates; i++ {
			if path[i] == ']' && (i+1 == len(path) || path[i+1] == '.' || path[i+1] == '[') {
				add(path[1:i], true, path[i+1:])
			}
		}
		return segments, rests
	}
	path = strings.TrimPrefix(path, ".")
	for i := 0; i <= len(path) && len(segments) < maxCandidates; i++ {
		if i == len(path) || path[i] == '.' || path[i] == '[' {
			add(path[:i], false, path[i:])
		}
		if i < len(path) && path[i] == '[' {
			break
		}
	}
	return segments, rests
}

// segments splits what of a path is not in the document; ok is false if it is
// no path.
func segments(path string) (all []segment, ok bool) {
	for path != "" {
		first, rests := candidates(path)
		if len(first) == 0 || first[0].text == "" {
			return nil, false
		}
		all, path = append(all, first[0]), rests[0]
	}
	return all, true
}

// step is a node on the way to a field.
type step struct {
	// parent is the list or the mapping that node is in.
	parent *yaml.Node
	// key is the node of the key in a mapping; nil in a list.
	key *yaml.Node
	// index is the place in a list.
	index int
	node  *yaml.Node
}

// trail is the way to a field, as far as it exists.
type trail struct {
	steps []step
	// rest is what of the path does not exist.
	rest string
	// shared nodes are used in several places, or come from elsewhere.
	shared bool
}

// last returns the deepest node of a trail.
func (t trail) last(root *yaml.Node) *yaml.Node {
	if len(t.steps) == 0 {
		return root
	}
	return t.steps[len(t.steps)-1].node
}

// walk follows a path from the root, through aliases and merge keys.
func (d *Document) walk(path string) trail {
	way := trail{rest: path, shared: d.root.Anchor != ""}
	at := d.root
	for way.rest != "" {
		if at.Kind == yaml.AliasNode && at.Alias != nil {
			at, way.shared = at.Alias, true
		}
		next, rest, merged := child(at, way.rest)
		if next.node == nil {
			return way
		}
		at, way.rest = next.node, rest
		way.steps = append(way.steps, next)
		way.shared = way.shared || merged || at.Anchor != ""
	}
	return way
}

// child takes one step from a node.
func child(from *yaml.Node, path string) (next step, rest string, merged bool) {
	options, rests := candidates(path)
	for i, option := range options {
		switch from.Kind {
		case yaml.SequenceNode:
			index, err := strconv.Atoi(option.text)
			if err == nil && option.bracket && index >= 0 && index < len(from.Content) {
				return step{parent: from, index: index, node: from.Content[index]}, rests[i], false
			}
		case yaml.MappingNode:
			visited := map[*yaml.Node]bool{}
			if key, node, owner := lookup(from, option.text, visited); node != nil {
				return step{parent: owner, key: key, node: node}, rests[i], owner != from
			}
		case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
			return step{}, "", false
		}
	}
	return step{}, "", false
}

// lookup finds a key in a mapping or in what is merged into it. Each mapping is
// visited once: merged lists of merged lists would take for ever.
func lookup(mapping *yaml.Node, key string, visited map[*yaml.Node]bool) (keyNode, value, owner *yaml.Node) {
	if visited[mapping] {
		return nil, nil, nil
	}
	visited[mapping] = true
	switch mapping.Kind {
	case yaml.AliasNode:
		return lookup(mapping.Alias, key, visited)
	case yaml.SequenceNode: // A list of mappings to merge.
		for _, one := range mapping.Content {
			if keyNode, value, owner = lookup(one, key, visited); value != nil {
				return keyNode, value, owner
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if one := mapping.Content[i]; one.Kind == yaml.ScalarNode && one.Value == key && !isMerge(one) {
				return one, mapping.Content[i+1], mapping
			}
		}
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if !isMerge(mapping.Content[i]) {
				continue
			}
			if keyNode, value, owner = lookup(mapping.Content[i+1], key, visited); value != nil {
				return keyNode, value, owner
			}
		}
	case yaml.DocumentNode, yaml.ScalarNode:
	}
	return nil, nil, nil
}

func isMerge(key *yaml.Node) bool { return key.Kind == yaml.ScalarNode && key.Tag == "!!merge" }

// merges reports whether a mapping has merge keys.
func merges(mapping *yaml.Node) bool {
	for i := 0; i < len(mapping.Content); i += 2 {
		if isMerge(mapping.Content[i]) {
			return true
		}
	}
	return false
}

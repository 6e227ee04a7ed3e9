package manifest

import (
	"bytes"
	"errors"
	"slices"
)

// maxAttempts bounds how often a text is edited and read again while looking
// for the edits that spoil it.
const maxAttempts = 200

// Apply returns the text with the edits made. An edit that cannot be made in
// place is skipped as a whole; one that changes nothing is neither. The result
// is read again and compared: its value is that of the document with exactly
// these edits, or it is an error.
func (d *Document) Apply(edits []Edit) ([]byte, []Skipped, error) {
	value, err := decode(d.text)
	if err != nil {
		return nil, nil, err
	}
	edits, skipped := distinct(edits)
	attempts := maxAttempts
	after, more, err := d.apply(value, edits, &attempts)
	if err != nil {
		return nil, nil, err
	}
	return after, append(skipped, more...), nil
}

// distinct leaves out repeated edits, and those that contradict one before.
func distinct(edits []Edit) (different []Edit, skipped []Skipped) {
	first := map[string]Edit{}
	for _, edit := range edits {
		before, known := first[edit.Path]
		switch {
		case !known:
			first[edit.Path] = edit
			different = append(different, edit)
		case before.Remove != edit.Remove, !edit.Remove && !sameValue(before.Set, edit.Set):
			skipped = append(skipped, Skipped{Edit: edit, Reason: "another change of the same field comes first"})
		}
	}
	return different, skipped
}

// apply makes the edits. If the result is wrong, it halves them to find those
// that spoil it: they are skipped.
func (d *Document) apply(value any, edits []Edit, attempts *int) ([]byte, []Skipped, error) {
	if *attempts--; *attempts < 0 {
		return nil, nil, errors.New("too many of the changes cannot be made in place: make them by hand")
	}
	after, skipped, err := d.attempt(value, edits)
	if err == nil {
		return after, skipped, nil
	}
	if len(edits) == 1 {
		return d.text, []Skipped{{Edit: edits[0], Reason: err.Error()}}, nil
	}
	if value, err = decode(d.text); err != nil { // The attempt changed it.
		return nil, nil, err
	}
	half := len(edits) / 2
	after, skipped, err = d.apply(value, edits[:half], attempts)
	if err != nil {
		return nil, nil, err
	}
	rest, err := Parse(after)
	if err != nil {
		return nil, nil, err
	}
	if value, err = decode(after); err != nil {
		return nil, nil, err
	}
	after, more, err := rest.apply(value, edits[half:], attempts)
	return after, append(skipped, more...), err
}

// attempt makes the edits at once and checks the result. It changes value.
func (d *Document) attempt(value any, edits []Edit) (after []byte, skipped []Skipped, err error) {
	var made []change
	for _, edit := range edits {
		one, reason := d.change(edit)
		switch {
		case reason != "":
			skipped = append(skipped, Skipped{Edit: edit, Reason: reason})
		case one != nil:
			made = append(made, *one)
		}
	}
	slices.SortStableFunc(made, func(a, b change) int { return a.start - b.start })
	var out bytes.Buffer
	at := 0
	kept := made[:0]
	for _, one := range made {
		if one.start < at {
			skipped = append(skipped, Skipped{Edit: one.edit, Reason: "it overlaps with another change"})
			continue
		}
		out.Write(d.text[at:one.start])
		out.WriteString(one.text)
		at = one.end
		kept = append(kept, one)
	}
	out.Write(d.text[at:])
	if len(kept) == 0 {
		return d.text, skipped, nil
	}
	if err := verify(value, kept, out.Bytes()); err != nil {
		return nil, nil, err
	}
	return out.Bytes(), skipped, nil
}

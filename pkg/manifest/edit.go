package manifest

// Edit is a change of a field.
type Edit struct {
	// Path is the field.
	Path string
	// Set is the new value: a text, a boolean or a number. A field that is missing
	// is added, with the mappings around it.
	Set any
	// Remove takes the field away instead.
	Remove bool
}

// Skipped is an edit that was not made.
type Skipped struct {
	Edit

	// Reason says why, in lower case and without a full stop.
	Reason string
}

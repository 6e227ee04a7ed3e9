package v1alpha1

// Rehearsal is the result of server dry runs of the no-op patch.
type Rehearsal struct {
	// Sampled objects of Total were rehearsed; Complete says all were.
	Sampled  int64 `json:"sampled"`
	Total    int64 `json:"total"`
	Complete bool  `json:"complete"`
	// Refused are the objects that the server would not rewrite.
	Refused []ObjectFailure `json:"refused,omitempty"`
	// RefusedCount may be higher than the number of objects listed.
	RefusedCount int64 `json:"refusedCount,omitempty"`
	// Detours are the other versions that take objects which the schema refuses,
	// without a loss. Those of the version that the intent names are not refused.
	Detours []Detour `json:"detours,omitempty"`
	// Lost are the field paths that a rewrite would drop or change.
	Lost []FieldDifference `json:"lost,omitempty"`
	// Appeared are the field paths that a rewrite would add, by defaulting.
	Appeared []FieldDifference `json:"appeared,omitempty"`
	// Conversion is what became of objects that a conversion webhook sent to the
	// endpoint of the rewrite and back; absent where nothing could be sent.
	Conversion *RehearsedConversion `json:"conversion,omitempty"`
}

// RehearsedConversion is what the conversions of a migration do to objects: from
// the versions that they may be persisted at to the endpoint of the rewrite, and
// back.
type RehearsedConversion struct {
	// From are the versions that objects were sent from, To is that of the endpoint.
	From []string `json:"from"`
	To   string   `json:"to"`
	// Sampled objects of Total came back and were compared, Failed did not, as they
	// could not be converted. Complete says that nothing was left out, but for
	// objects that were deleted meanwhile.
	Sampled  int64 `json:"sampled"`
	Failed   int64 `json:"failed,omitempty"`
	Total    int64 `json:"total"`
	Complete bool  `json:"complete"`
	// Lost are the field paths that a conversion drops or changes.
	Lost []FieldDifference `json:"lost,omitempty"`
}

// Detour is a served version through which objects can be rewritten that the
// schema of the storage version refuses.
type Detour struct {
	Version string `json:"version"`
	// Objects is how many of those that were rehearsed.
	Objects int64 `json:"objects"`
}

// FieldDifference is a field path and the objects that it differs in. Values
// are never given.
type FieldDifference struct {
	// Path is "spec.hostPort", with "[*]" for list items and "[key]" for map keys.
	Path string `json:"path"`
	// Change is lost, changed or appeared.
	Change string `json:"change"`
	// Objects is the number of objects.
	Objects int64 `json:"objects"`
	// Examples are the first few objects, namespace/name.
	Examples []string `json:"examples,omitempty"`
}

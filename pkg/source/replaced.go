package source

import (
	"fmt"
	"os"
)

// Replaced returns what a file holds, and what WriteBack would make of it. It
// writes nothing.
func Replaced(file string, replacements []Replacement) (before, after []byte, err error) {
	before, err = os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", file, err)
	}
	after, err = replace(before, replacements)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return before, after, nil
}

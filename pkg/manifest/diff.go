package manifest

import "github.com/aymanbagabas/go-udiff"

// Diff returns the change of a file as a unified diff, empty if there is none.
func Diff(name string, before, after []byte) string {
	old, now := string(before), string(after)
	unified, err := udiff.ToUnifiedDiff(name, name, old, udiff.Lines(old, now), udiff.DefaultContextLines)
	if err != nil {
		// The edits are the library's own and cannot be wrong; if they are, all of
		// the file was replaced.
		unified, _ = udiff.ToUnifiedDiff(name, name, old, []udiff.Edit{{End: len(old), New: now}}, 0)
	}
	// The library counts the lines of the new file without those between two
	// changes of the same hunk (v0.4.1).
	added := 0
	for _, hunk := range unified.Hunks {
		hunk.ToLine = hunk.FromLine + added
		for _, line := range hunk.Lines {
			switch line.Kind {
			case udiff.Insert:
				added++
			case udiff.Delete:
				added--
			case udiff.Equal:
			}
		}
	}
	return unified.String()
}

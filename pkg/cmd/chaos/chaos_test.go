package chaos_test

import "testing"

// TestChaos breaks one thing at a time. Without -long it leaves out what takes long,
// and what tests of other packages break, too.
func TestChaos(t *testing.T) {
	t.Parallel()
	var faults []fault
	faults = append(faults, networkFaults()...)
	faults = append(faults, processFaults(t.TempDir())...)
	faults = append(faults, peopleFaults()...)
	faults = append(faults, objectFaults()...)
	faults = append(faults, controlPlaneFaults()...)
	for _, f := range faults {
		if f.onlyLong && !*long {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			if !*long {
				t.Parallel()
			} // In full length one alone is enough for a small machine.
			play(t, f)
		})
	}
}

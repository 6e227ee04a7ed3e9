//go:build !controlplane

package chaos_test

// controlPlaneFaults are none without a control plane.
func controlPlaneFaults() []fault { return nil }

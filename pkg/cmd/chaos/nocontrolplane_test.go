//go:build !controlplane

package chaos_test

// controlPlaneFaults are none without a control plane.
func controlPlaneFaults() []fault { return nil }

// startControlPlane starts what there is.
func startControlPlane(s *scene) { startOne(s) }

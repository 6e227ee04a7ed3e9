// Package preflight answers what applying a manifest of a CRD would do to the
// CRD that is there: whether the API server takes it, what it breaks, and what
// has to be done first. It is pure; what is known of a cluster comes in [Input].
package preflight

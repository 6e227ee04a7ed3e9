// Package v1alpha1 holds the machine-readable documents that kubectl crdver
// prints and reads: what `-o json|yaml` gives, what `--plan-out` saves and what
// `apply -f` takes. Field names and meanings are an API: a change that breaks a
// reader needs a new version.
//
// Times are RFC 3339 in UTC. Lists of versions are in priority order, highest
// first, unless a field says otherwise. Field values of custom resources never
// appear in these documents, field paths do.
//
// +k8s:deepcopy-gen=package
// +groupName=crdver.dev
package v1alpha1

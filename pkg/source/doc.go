// Package source loads CustomResourceDefinitions: from manifests (files,
// folders, URLs, kustomizations, standard input) and from a cluster, where it
// resolves the names that kubectl users give them.
//
// Manifests are not trusted: sizes are bounded, and whatever is wrong with one
// is an error that names its file and line.
package source

// Package manifest finds the places of fields in YAML and JSON documents, and
// edits documents at these places. It never encodes a document again: comments,
// layout, quotes and line breaks stay as they are, and only the lines of the
// edited fields change.
//
// Fields are named by paths as the API server prints them:
// "spec.versions[1].schema.openAPIV3Schema.properties[spec].required". What is in
// brackets is an index in a list and a key, dots and all, in a mapping.
package manifest

package crd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Document is the text of a manifest that holds a CRD, for finding the places
// of its fields and for writing it back. The CRDs of a list share the text.
type Document struct {
	// Text is one YAML document or one value of JSON, in UTF-8 and without a byte
	// order mark, with the line breaks of the file.
	Text []byte
	// Start is the line of the file that Text starts in, from 1.
	Start int
	// Item is the place of the CRD in the document: "" if it is all of it, and
	// "items[3]" or "items[3].items[0]" in a list.
	Item string
	// Offset is the byte of the file at which Text starts, or -1 if Text is not
	// what the file holds: it was UTF-16.
	Offset int64
	// V1beta1 manifests have some fields in other places than v1.
	V1beta1 bool
	// Common are the fields that a v1beta1 manifest has for all versions at once:
	// validation, subresources, additionalPrinterColumns.
	Common []string
}

// Path returns the path in the document of a field of the CRD in the v1 API.
func (d *Document) Path(field string) string {
	if d.V1beta1 {
		field = d.v1beta1Path(field)
	}
	if d.Item == "" || field == "" {
		return d.Item + field
	}
	return d.Item + "." + field
}

// v1beta1Path returns the path in a v1beta1 manifest of a field of the v1 API.
func (d *Document) v1beta1Path(field string) string {
	const conversion = "spec.conversion."
	if rest, ok := strings.CutPrefix(field, conversion+"webhook."); ok {
		if inConfig, ok := strings.CutPrefix(rest, "clientConfig"); ok {
			rest = "webhookClientConfig" + inConfig
		}
		return conversion + rest
	}
	inVersions, isVersion := strings.CutPrefix(field, "spec.versions[")
	_, rest, isField := strings.Cut(inVersions, "].")
	if !isVersion || !isField {
		return field
	}
	name := rest[:len(rest)-len(strings.TrimLeftFunc(rest, unicode.IsLetter))]
	common := name
	if name == "schema" {
		common = "validation"
	}
	if slices.Contains(d.Common, common) {
		field = "spec." + common + rest[len(name):]
	}
	if name == "additionalPrinterColumns" {
		if column, ok := strings.CutSuffix(field, "].jsonPath"); ok {
			field = column + "].JSONPath"
		}
	}
	return field
}

// Values returns how the CRD was written, as JSON values: with the status, the
// absent fields and the API version that decoding hides. It decodes at each
// call, and returns nil for a live CRD.
func (o Origin) Values() (map[string]any, error) {
	if o.JSON == nil {
		return nil, nil
	}
	var values map[string]any
	if err := json.Unmarshal(o.JSON, &values); err != nil {
		return nil, fmt.Errorf("%s: not an object: %w", o, err)
	}
	return values, nil
}

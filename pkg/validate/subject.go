package validate

import (
	"context"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// Subject is what the rules look at: one CRD, and for a live one what was
// observed around it.
type Subject struct {
	lifecycle.State

	// Now is the time that certificates are checked against.
	Now time.Time
	// Document is how the manifest was written, as JSON values; nil for a live CRD.
	// Rules need it for what decoding hides: a status, an absent field.
	Document map[string]any

	ctx      context.Context //nolint:containedctx // Rules are plain functions; upstream's validation of defaults takes a context.
	schemas  map[string]schemaOf
	recent   []written
	refusals *[]Refusal
}

type schemaOf struct {
	schema *schema.Schema
	err    error
}

// NewSubject returns the subject for a CRD. It is used by one goroutine.
func NewSubject(ctx context.Context, state lifecycle.State, now time.Time) *Subject {
	return &Subject{State: state, Now: now, ctx: ctx, schemas: map[string]schemaOf{}}
}

// Context is the context of the run, for upstream's validation of defaults.
func (s *Subject) Context() context.Context { return s.ctx }

// Live reports whether the CRD is one of a cluster.
func (s *Subject) Live() bool { return s.CRD.Origin.Live() }

// Schema returns the structural schema of a version of the CRD, or nil if the
// version has none that is structural: that is then a refusal, and other rules
// need not repeat it.
func (s *Subject) Schema(version string) *schema.Schema {
	known, ok := s.schemas[version]
	if !ok {
		known.schema, known.err = schema.ForVersion(s.CRD.CustomResourceDefinition, version)
		s.schemas[version] = known
	}
	if known.err != nil {
		return nil
	}
	return known.schema
}

// VersionPath returns the path of a field of a version:
// VersionPath("v1", "schema") is "spec.versions[0].schema".
func (s *Subject) VersionPath(version, field string) string {
	return versionPath(s.CRD, version, field)
}

// Names returns "group/version Kind", as deprecation warnings have it.
func (s *Subject) Names(version string) string {
	return s.CRD.Spec.Group + "/" + version + " " + s.CRD.Spec.Names.Kind
}

// Command returns a command of this tool for the CRD, ready to paste.
func (s *Subject) Command(verb, version string) string {
	words := "kubectl crdver " + verb
	if version != "" {
		words += " " + version
	}
	return words + " " + s.CRD.Name
}

func versionPath(c crd.CRD, version, field string) string {
	path := "spec.versions"
	if i := c.VersionIndex(version); i >= 0 {
		path += "[" + itoa(i) + "]"
	}
	if field != "" {
		path += "." + field
	}
	return path
}

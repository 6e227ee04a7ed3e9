package cmd

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/manifest"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/source"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// fixes are the edits of one CRD's manifest, and the findings that they are for.
type fixes struct {
	origin crd.Origin
	// edits are by the index of their finding.
	edits map[int][]manifest.Edit
}

// newFixes collects the edits of findings that count; nil if there are none.
func newFixes(origin crd.Origin, found []validate.Found) *fixes {
	if origin.Document == nil {
		return nil
	}
	edits := map[int][]manifest.Edit{}
	for i, one := range found {
		if one.Suppressed != nil {
			continue
		}
		for _, edit := range one.Edits {
			edits[i] = append(edits[i], manifest.Edit{Path: origin.Document.Path(edit.Path), Set: edit.Set, Remove: edit.Remove})
		}
	}
	if len(edits) == 0 {
		return nil
	}
	return &fixes{origin: origin, edits: edits}
}

// documentFix is the edit of one document, which can hold several CRDs.
type documentFix struct {
	document *crd.Document
	edits    []manifest.Edit
	owners   []*checkedCRD
	after    []byte
}

// fixAll edits the manifests, or prints the changes with --dry-run. Findings that
// were corrected are taken out of what is reported.
func (o *validateOptions) fixAll(f *Factory, command *cobra.Command, checked []checkedCRD) error {
	files := map[string][]*documentFix{}
	for i := range checked {
		one := &checked[i]
		if one.fixes == nil {
			continue
		}
		origin := one.fixes.origin
		if err := source.CanWriteBack(origin); err != nil {
			f.Warn(fmt.Sprintf("%s: not corrected: %s", origin, err))
			continue
		}
		fix := documentOf(files, origin)
		for _, index := range slices.Sorted(maps.Keys(one.fixes.edits)) {
			fix.edits = append(fix.edits, one.fixes.edits[index]...)
		}
		fix.owners = append(fix.owners, one)
	}
	if !o.dryRun {
		defer f.keepGoing()()
	}
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if command.Context().Err() != nil {
			return fmt.Errorf("correcting manifests: %w", command.Context().Err())
		}
		if err := o.fixFile(f, name, files[name]); err != nil {
			failed = append(failed, err)
		}
	}
	if len(files) == 0 {
		f.tell("Nothing to correct\n")
	}
	return errors.Join(failed...)
}

// documentOf returns the edit of the document that an origin is in.
func documentOf(files map[string][]*documentFix, origin crd.Origin) *documentFix {
	for _, fix := range files[origin.File] {
		if fix.document.Offset == origin.Document.Offset {
			return fix
		}
	}
	fix := &documentFix{document: origin.Document}
	files[origin.File] = append(files[origin.File], fix)
	return fix
}

// fixFile edits the documents of one file.
func (o *validateOptions) fixFile(f *Factory, name string, documents []*documentFix) error {
	var replacements []source.Replacement
	done := 0
	for _, fix := range documents {
		skipped, err := fix.apply()
		if err != nil {
			return fmt.Errorf("%s: not corrected: %w", name, err)
		}
		for _, skip := range skipped {
			f.Warn(fmt.Sprintf("%s: %s: not corrected: %s", name, skip.Path, skip.Reason))
		}
		if len(skipped) == len(fix.edits) {
			continue
		}
		replacements = append(replacements, source.Replacement{Document: fix.document, Text: fix.after})
		for _, owner := range fix.owners {
			done += owner.corrected(skipped, o.dryRun)
		}
	}
	if len(replacements) == 0 {
		return nil
	}
	if o.dryRun {
		return o.showFile(f, name, replacements)
	}
	if err := source.WriteBack(name, replacements); err != nil {
		return err
	}
	f.tell("%s: corrected %s\n", printers.Escape(name), english.Plural(done, "finding"))
	return nil
}

// showFile prints what --fix would change in a file.
func (o *validateOptions) showFile(f *Factory, name string, replacements []source.Replacement) error {
	before, after, err := source.Replaced(name, replacements)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(f.Out, printers.EscapeLines(manifest.Diff(name, before, after))); err != nil {
		return fmt.Errorf("writing the changes: %w", err)
	}
	return nil
}

func (d *documentFix) apply() ([]manifest.Skipped, error) {
	parsed, err := manifest.Parse(d.document.Text)
	if err != nil {
		return nil, err
	}
	after, skipped, err := parsed.Apply(d.edits)
	if err != nil {
		return nil, err
	}
	d.after = after
	return skipped, nil
}

// corrected takes the findings out whose edits were all made, and returns how
// many there are.
func (c *checkedCRD) corrected(skipped []manifest.Skipped, keep bool) int {
	var left []validate.Found
	done := 0
	for i, found := range c.found {
		edits := c.fixes.edits[i]
		made := len(edits) > 0 && !slices.ContainsFunc(edits, func(edit manifest.Edit) bool {
			return slices.ContainsFunc(skipped, func(skip manifest.Skipped) bool { return skip.Path == edit.Path })
		})
		if made {
			done++
		}
		if !made || keep {
			left = append(left, found)
		}
	}
	c.found = left
	return done
}

// findingsOf returns the findings of a CRD as they are printed.
func findingsOf(found []validate.Found) []v1alpha1.Finding {
	findings := make([]v1alpha1.Finding, 0, len(found))
	for _, one := range found {
		findings = append(findings, one.Finding)
	}
	return findings
}

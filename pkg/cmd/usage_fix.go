package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/manifest"
	"github.com/crdver/kubectl-crdver/pkg/manifestuse"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/source"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// fixedManifests counts what --fix did, and what it left; mentions are not counted:
// there can be nothing to do about them.
type fixedManifests struct {
	places, files, left int
	failed              []error
}

// fixManifests rewrites the manifests, or prints the changes with --dry-run. What
// it leaves is told, and ends with the exit code of findings.
func (o *usageOptions) fixManifests(ctx context.Context, f *Factory, targets []usage.Target) error {
	rewriter, err := o.rewriter(ctx, f, targets)
	if err != nil {
		return err
	}
	if !o.sources.manifests.dryRun {
		defer f.keepGoing()()
	}
	var done fixedManifests
	walked, err := manifestuse.Tree{Names: o.sources.manifests.files}.Each(ctx, func(file string, content []byte) error {
		rewritten, err := rewriter.Rewrite(ctx, file, content)
		if err != nil {
			done.failed = append(done.failed, err)
			return nil
		}
		return o.fixManifest(f, file, content, rewritten, &done)
	})
	for _, why := range walked.Unread {
		done.failed = append(done.failed, errors.New(why))
	}
	did := "rewrote"
	if o.sources.manifests.dryRun {
		did = "would rewrite"
	}
	f.tell("%s %s in %s; %s left\n", did, english.Plural(done.places, "apiVersion"), english.Plural(done.files, "file"), english.Plural(done.left, "place"))
	switch err := errors.Join(append(done.failed, err)...); {
	case err != nil:
		return err
	case done.left > 0:
		return Pending()
	}
	return nil
}

// fixManifest writes one file. A file that cannot be written does not keep the
// others from it.
func (o *usageOptions) fixManifest(f *Factory, file string, before []byte, rewritten manifestuse.Rewritten, done *fixedManifests) error {
	for _, place := range rewritten.Left {
		f.Warn(fmt.Sprintf("%s:%d:%d: not rewritten: %s", file, place.Line, place.Column, place.Note))
		if place.What != manifestuse.Mentions {
			done.left++
		}
	}
	if bytes.Equal(before, rewritten.After) {
		return nil
	}
	if o.sources.manifests.dryRun {
		if _, err := fmt.Fprint(f.Out, printers.EscapeLines(manifest.Diff(file, before, rewritten.After))); err != nil {
			return fmt.Errorf("writing the changes: %w", err)
		}
	} else if err := source.WriteBack(file, []source.Replacement{{Document: &crd.Document{Text: before}, Text: rewritten.After}}); err != nil {
		done.failed = append(done.failed, err)
		return nil
	}
	done.places += rewritten.Done
	done.files++
	return nil
}

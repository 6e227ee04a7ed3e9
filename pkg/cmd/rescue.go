package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/observe"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

// looksAtOnce bounds how many CRDs are looked at at a time.
const looksAtOnce = 8

const rescueLong = `Make objects readable again that are stored at a version which their CRD no
longer has, and bring them to the storage version.

That is the trouble where LIST, GET and DELETE fail with "request to convert CR
from an invalid group/version", "StorageError: corrupt object" or, for ever, 429
"storage is (re)initializing": the objects are intact, and the version was
removed while they were still stored at it. It is added again, unserved, and
listed in status.storedVersions; the rewrite is rehearsed; every object is
rewritten and verified; the list is trimmed and the version removed.

The schema of the added version keeps every field, whatever manifests say: what
another one lacks would be dropped unseen. What the schema of the storage version
lacks is lost when objects are rewritten. To see it before, the version is served
for as long as the rehearsal takes; with --serve=false it is not, and nothing is
seen. With -f, the plan lists the fields that the manifest's schema of the missing
version has and the storage version's lacks.

A version that somebody serves meanwhile ("restore" does) is left alone.

Without a CRD, every CRD of the cluster is looked at: its first objects, and all
of them where something hints at trouble, or with --deep. A CRD that is named is
always looked at whole. Objects whose bytes in etcd are damaged are told apart,
and never touched.`

const rescueExample = `  # Look for objects that cannot be read, and show what would be done
  kubectl crdver rescue --dry-run=client

  # Rescue the objects of one CRD
  kubectl crdver rescue crontabs.example.com

  # Tell beforehand which fields of the missing version would be lost
  kubectl crdver rescue crontabs.example.com -f old-crd.yaml`

type rescueOptions struct {
	flags                changeFlags
	files                resource.FilenameOptions
	until                string
	deep                 bool
	serve                bool
	allowOwnerReferences bool
	loss                 lossFlags
}

func newRescueCommand(f *Factory) *cobra.Command {
	var o rescueOptions
	command := &cobra.Command{
		Use:               "rescue [CRD...]",
		Short:             "Bring back objects that are stored at a version which is gone",
		Long:              rescueLong,
		Example:           rescueExample,
		ValidArgsFunction: completeCRDs(f),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(f, command, args) },
	}
	flags := command.Flags()
	source.AddFlags(command, &o.files, "a CRD that still has the missing version: its fields are compared with those of the storage version")
	flags.BoolVar(&o.deep, "deep", false, "Look at all objects of every CRD, not only at the first ones, where no CRD is named")
	flags.BoolVar(&o.serve, "serve", true, "Serve the added version during the rehearsal, which shows what the rewrite would lose")
	flags.BoolVar(&o.allowOwnerReferences, "allow-owner-references", false, "Stop serving the version after the rehearsal although ownerReferences name it: the garbage collector may delete those children")
	o.loss.add(command)
	untilFlag(command, v1alpha1.VerbRescue, &o.until)
	o.flags.add(command)
	selectionFlags(command, &o.flags.selection)
	return command
}

func (o *rescueOptions) run(f *Factory, command *cobra.Command, args []string) error {
	if err := o.flags.validate(command); err != nil {
		return err
	}
	c, err := f.newChange(o.flags, command)
	if err != nil {
		return err
	}
	ctx := command.Context()
	given := &definition{}
	if len(o.files.Filenames) > 0 || o.files.Kustomize != "" {
		given.names = strings.Join(o.files.Filenames, ",") + o.files.Kustomize
		if given.crds, err = source.Manifests(ctx, f.IOStreams, o.files); err != nil {
			return err
		}
	}
	intent := v1alpha1.Intent{
		Verb: v1alpha1.VerbRescue, Until: v1alpha1.Action(o.until), Unserved: !o.serve,
		AllowOwnerReferences: o.allowOwnerReferences, AllowLoss: o.loss.paths, Accepted: o.loss.accepted, RehearseAll: o.loss.all,
	}
	crds, err := o.lost(ctx, c, args, given.offer(intent))
	if err != nil {
		return err
	}
	if len(crds) == 0 {
		if o.flags.output == "" {
			return nil
		}
		return c.printReports([]v1alpha1.Report{})
	}
	if err := given.check(crds, len(args) > 0); err != nil {
		return err
	}
	return c.run(ctx, crds, func(one crd.CRD) v1alpha1.Intent { return given.missing(intent, one) })
}

// check refuses manifests that cannot be meant: whoever names one expects its
// schema to be looked at. Each CRD that was named needs one, of those found one at least.
func (d *definition) check(crds []crd.CRD, named bool) error {
	if d.names == "" {
		return nil
	}
	var without []string
	for _, one := range crds {
		manifest := d.of(one)
		switch {
		case manifest == nil:
			without = append(without, one.Name)
		case manifest.Spec.Scope != one.Spec.Scope:
			return fmt.Errorf("%s is a manifest of another %s: its scope is %s, not %s", d.names, one.Name, manifest.Spec.Scope, one.Spec.Scope)
		case manifest.Spec.Names.Kind != one.Spec.Names.Kind:
			return fmt.Errorf("%s is a manifest of another %s: its kind is %s, not %s", d.names, one.Name, manifest.Spec.Names.Kind, one.Spec.Names.Kind)
		}
	}
	if len(without) == 0 || !named && len(without) < len(crds) {
		return nil
	}
	return fmt.Errorf("no manifest in %s is one of %s; name the right file, or leave -f out", d.names, strings.Join(without, ", "))
}

// missing completes the intent of a rescue with what the manifest has and the
// CRD does not: which of these are needed only the objects tell.
func (d *definition) missing(intent v1alpha1.Intent, one crd.CRD) v1alpha1.Intent {
	manifest := d.of(one)
	if manifest == nil {
		return intent
	}
	intent.DefinitionSource = d.names
	for _, v := range manifest.Spec.Versions {
		if one.Version(v.Name) == nil {
			intent.Definitions = append(intent.Definitions, *v.DeepCopy())
		}
	}
	return intent
}

// lost returns the CRDs to rescue: those that are named, or those found.
func (o *rescueOptions) lost(ctx context.Context, c *change, args []string, intent v1alpha1.Intent) ([]crd.CRD, error) {
	if len(args) > 0 {
		return c.selected(ctx, args, intent, nil)
	}
	all, err := source.Resolve(ctx, c.cluster.CRDs(), nil, o.flags.selection)
	if err != nil {
		return nil, denied(err)
	}
	found := o.look(ctx, c, all)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("looking for objects that cannot be read: %w", err)
	}
	crds, err := c.selected(ctx, nil, intent, func(one crd.CRD) bool { return found.trouble[one.Name] })
	var none *source.NoneFitsError
	if !errors.As(err, &none) {
		return crds, err
	}
	c.tell("Nothing to rescue: %s.\n", found.text())
	if len(found.unknown) > 0 {
		return nil, fmt.Errorf("the objects of %s could not be listed: %s", english.Plural(len(found.unknown), "CRD"), strings.Join(found.unknown, "; "))
	}
	return nil, nil
}

// looked is what came of looking at the objects of many CRDs.
type looked struct {
	mutex   sync.Mutex
	trouble map[string]bool
	unknown []string
	whole   int
	part    int
}

// text says how far "nothing" reaches.
func (l *looked) text() string {
	const deep = "(--deep looks at all)"
	whole, part := english.Plural(l.whole, "CRD"), english.Plural(l.part, "CRD")
	switch has := map[bool]string{true: "has", false: "have"}[l.part == 1]; {
	case l.whole+l.part == 0:
		return "no CRD was looked at whose objects can be listed"
	case l.part == 0:
		return fmt.Sprintf("every object of %s can be read", whole)
	case l.whole == 0:
		return fmt.Sprintf("the first objects of %s can be read, which %s more %s", part, has, deep)
	default:
		return fmt.Sprintf("every object of %s can be read, and so can the first ones of %s that %s more %s", whole, part, has, deep)
	}
}

// look lists objects of each CRD: the first page, which costs little, and all of
// them with --deep or where something hints at trouble.
func (o *rescueOptions) look(ctx context.Context, c *change, crds []crd.CRD) *looked {
	found := &looked{trouble: map[string]bool{}}
	observer := observe.New(c.cluster)
	var group errgroup.Group
	group.SetLimit(looksAtOnce)
	for _, one := range crds {
		if one.DeletionTimestamp != nil || !one.Established() || len(one.Served()) == 0 {
			continue // Nothing of it can be listed, whatever is stored.
		}
		group.Go(func() error {
			var observations lifecycle.Observations
			look := observer.Unreadable(ctx, one, o.deep || observe.Suspect(one), &observations)
			found.note(one, look, observations)
			return nil
		})
	}
	_ = group.Wait() // No look returns an error.
	return found
}

func (l *looked) note(one crd.CRD, look observe.Look, observations lifecycle.Observations) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch {
	case observations.LostVersion != "", len(observations.Corrupt) > 0, len(lifecycle.Rescued(one)) > 0:
		l.trouble[one.Name] = true
	case look.Error != "", observations.ObjectsError != "":
		l.unknown = append(l.unknown, one.Name+": "+look.Error+observations.ObjectsError)
	case look.Whole:
		l.whole++
	default:
		l.part++
	}
}

package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

// definitionFlags tell where the definition of a version comes from that is
// not in spec.versions (any more).
type definitionFlags struct {
	from  string
	files resource.FilenameOptions
}

func (d *definitionFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&d.from, "from", "", "Add VERSION, where it is missing, as a copy of this version's schema")
	source.AddFlags(command, &d.files, "a CRD whose definition of VERSION is added where it is missing")
	command.MarkFlagsMutuallyExclusive("from", "filename")
	command.MarkFlagsMutuallyExclusive("from", "kustomize")
}

// definition is a version's definition, CRD by CRD.
type definition struct {
	from  string
	names string
	crds  []crd.CRD
}

// load reads the manifests, if there are any.
func (d *definitionFlags) load(ctx context.Context, f *Factory, version string) (*definition, error) {
	found := &definition{from: d.from}
	if len(d.files.Filenames) == 0 && d.files.Kustomize == "" {
		return found, nil
	}
	found.names = strings.Join(d.files.Filenames, ",") + d.files.Kustomize
	crds, err := source.Manifests(ctx, f.IOStreams, d.files)
	if err != nil {
		return nil, err
	}
	for _, one := range crds {
		if one.Version(version) != nil {
			found.crds = append(found.crds, one)
		}
	}
	if len(found.crds) == 0 {
		return nil, fmt.Errorf("no CRD in %s has a version %s", found.names, version)
	}
	return found, nil
}

// of returns the manifest of a live CRD, or nil.
func (d *definition) of(live crd.CRD) *crd.CRD {
	for i := range d.crds {
		if d.crds[i].Name == live.Name {
			return &d.crds[i]
		}
	}
	return nil
}

// fits reports whether a CRD has the version or can get it.
func (d *definition) fits(c crd.CRD, version string) bool {
	return c.Version(version) != nil || d.of(c) != nil || d.from != "" && c.Version(d.from) != nil
}

// offer completes an intent for the commands that are offered to choose from.
func (d *definition) offer(intent v1alpha1.Intent) v1alpha1.Intent {
	intent.From, intent.DefinitionSource = d.from, d.names
	return intent
}

// fill completes the intent for one CRD.
func (d *definition) fill(intent v1alpha1.Intent, one crd.CRD) v1alpha1.Intent {
	intent.From = d.from
	if manifest := d.of(one); manifest != nil {
		intent.Definition = manifest.Version(intent.Version).DeepCopy()
		intent.DefinitionSource = d.names
	}
	return intent
}

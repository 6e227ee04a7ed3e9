package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/manifestuse"
	"github.com/crdver/kubectl-crdver/pkg/source"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// mayBeAmong tells whether the CRD may be looked for among the files: nobody named a
// cluster, or the one there is has no such CRD. A cluster that cannot be asked might
// have it, and what it knows would be missing without anybody's noticing.
func (o *usageOptions) mayBeAmong(err error, args []string) bool {
	if len(o.sources.manifests.files) == 0 || o.sources.requests.watch > 0 {
		return false
	}
	if errors.Is(err, errNoCluster) {
		return true
	}
	unknown, none, version := (*source.UnknownError)(nil), (*source.NoneFitsError)(nil), (*noVersionError)(nil)
	missing := errors.As(err, &unknown) || errors.As(err, &none) || errors.As(err, &version)
	return missing && o.selection.Empty() && len(args)-versionArgs(args) < 2
}

// among looks for the CRD among the files. why says why the cluster does not give it,
// and is the error if the files do not, either.
func (m *usageManifests) among(ctx context.Context, f *Factory, args []string, why error) ([]usage.Target, error) {
	found := definitionsAmong{streams: f.IOStreams}
	_, err := m.tree(f).Each(ctx, func(file string, content []byte) error {
		if file == manifestuse.Stdin {
			m.stdin = bytes.NewReader(content) // It is read again for what names the version.
		}
		return found.read(ctx, file, content)
	})
	if err != nil {
		return nil, err
	}
	version, names := versionOf(found.crds, args)
	targets := targetsAmong(found.crds, version, names)
	if len(names) == 0 {
		targets = slices.DeleteFunc(targets, func(target usage.Target) bool {
			return version != "" && target.CRD.Version(version) == nil || version == "" && len(target.Versions) < 2
		})
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("%w; among the files of --filename there is none either", why)
	}
	for _, target := range targets {
		if other := found.others[target.CRD.Name]; other != "" {
			return nil, fmt.Errorf("the CRD %s is in %s and another one in %s: name one with --crd", target.CRD.Name, target.CRD.Origin.File, other)
		}
		f.tell("The CRD %s is that of %s\n", target.CRD.Name, oneLine(target.CRD.Origin.File))
	}
	m.offline = "no cluster is asked about this and all else: " + oneLine(why.Error())
	return targets, nil
}

// definitionsAmong are the CRDs of files that hold anything.
type definitionsAmong struct {
	streams genericiooptions.IOStreams
	crds    []crd.CRD
	// others are the files with another CRD of the same name.
	others map[string]string
}

// read takes the CRDs of a file. What is none, or cannot be read, as a template, is
// passed over: whether a CRD was missed is seen by its not being there.
func (d *definitionsAmong) read(ctx context.Context, file string, content []byte) error {
	if !bytes.Contains(content, []byte("CustomResourceDefinition")) {
		return nil
	}
	streams := d.streams
	streams.In = bytes.NewReader(content)
	crds, err := source.Manifests(ctx, streams, resource.FilenameOptions{Filenames: []string{manifestuse.Stdin}})
	if ctx.Err() != nil {
		return err
	}
	for _, one := range crds {
		one.Origin.File = file
		at := slices.IndexFunc(d.crds, func(known crd.CRD) bool { return strings.EqualFold(known.Name, one.Name) })
		switch {
		case at < 0:
			d.crds = append(d.crds, one)
		case !reflect.DeepEqual(d.crds[at].Spec, one.Spec):
			if d.others == nil {
				d.others = map[string]string{}
			}
			d.others[one.Name] = file
		}
	}
	return nil
}

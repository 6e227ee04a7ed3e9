package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

const (
	// maxStandardInput bounds what is read of standard input.
	maxStandardInput = 512 << 20
	stdinName        = "-"
)

// customResources are the objects of manifests, and the CRDs among them.
type customResources struct {
	objects []*unstructured.Unstructured
	crds    []crd.CRD
}

// readObjects reads the objects of manifests, in order. Lists are taken apart.
func readObjects(ctx context.Context, f *Factory, files resource.FilenameOptions) (*customResources, error) {
	var input []byte
	if slices.Contains(files.Filenames, stdinName) {
		var err error
		if input, err = readStdin(ctx, f.In); err != nil {
			return nil, err
		}
	}
	builder := resource.NewLocalBuilder().Unstructured().Local().Flatten()
	for _, name := range files.Filenames {
		if name == stdinName {
			builder = builder.Stream(bytes.NewReader(input), "standard input")
			continue
		}
		builder = builder.FilenameParam(false, &resource.FilenameOptions{Filenames: []string{name}, Recursive: files.Recursive})
	}
	if files.Kustomize != "" {
		builder = builder.FilenameParam(false, &resource.FilenameOptions{Kustomize: files.Kustomize})
	}
	found := &customResources{}
	definitions := false
	err := builder.Do().Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		object, ok := info.Object.(*unstructured.Unstructured)
		switch {
		case !ok:
			return fmt.Errorf("%s: not an object, but a %T", info.Source, info.Object)
		case object.GetKind() == "CustomResourceDefinition" && object.GroupVersionKind().Group == apiextensionsv1.GroupName:
			definitions = true
		default:
			found.objects = append(found.objects, object)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	if definitions {
		streams := f.IOStreams
		streams.In = bytes.NewReader(input)
		if found.crds, err = source.Manifests(ctx, streams, files); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// readStdin reads standard input until it ends or ctx does.
func readStdin(ctx context.Context, in io.Reader) ([]byte, error) {
	type read struct {
		data []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(in, maxStandardInput+1))
		done <- read{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("reading standard input: %w", context.Cause(ctx))
	case got := <-done:
		if got.err != nil {
			return nil, fmt.Errorf("reading standard input: %w", got.err)
		}
		if len(got.data) > maxStandardInput {
			return nil, fmt.Errorf("standard input is larger than %d MiB", maxStandardInput>>20)
		}
		return got.data, nil
	}
}

// definitions finds the CRDs of objects: among manifests, or on the cluster.
type definitions struct {
	crds []crd.CRD
	// client is nil where the manifests are all there is.
	client cluster.Interface
	looked bool
}

// of returns the CRD of a kind, or nil.
func (d *definitions) of(ctx context.Context, kind schema.GroupKind) (*crd.CRD, error) {
	if one := d.known(kind); one != nil || d.client == nil || d.looked {
		return one, nil
	}
	d.looked = true
	err := source.Each(ctx, d.client.CRDs(), nil, source.Selection{}, func(one crd.CRD) error {
		d.crds = append(d.crds, one)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d.known(kind), nil
}

func (d *definitions) known(kind schema.GroupKind) *crd.CRD {
	for i := range d.crds {
		if d.crds[i].Spec.Group == kind.Group && d.crds[i].Spec.Names.Kind == kind.Kind {
			return &d.crds[i]
		}
	}
	return nil
}

// webhookFlags say how to reach a conversion webhook that is not where the CRD
// says, as one under development.
type webhookFlags struct{ url, ca string }

// caller returns the caller of the flags, or nil without them.
func (w *webhookFlags) caller() (review.Caller, error) {
	if w.url == "" {
		if w.ca != "" {
			return nil, errors.New("--ca belongs to --url")
		}
		return nil, nil
	}
	var ca []byte
	if w.ca != "" {
		var err error
		if ca, err = os.ReadFile(w.ca); err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
	}
	caller, err := review.NewDirect(w.url, ca, "")
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	return caller, nil
}

package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/schema"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

const convertLong = `Convert custom resources to another version of their CRD and print them, as
the API server would show them: with the conversion that the CRD configures, and
then pruned and defaulted with the schema of the version. kubectl convert knows
only the kinds of Kubernetes itself. Nothing is written to the cluster.

The CRD is that of the cluster, or of --crd. With the strategy None nothing else is
needed; a conversion webhook is called at its URL, or through the API server where
it is behind a service. --url calls another one, as one under development.

Fields that the version does not know are dropped, as the server drops them, and
named on standard error. --raw leaves pruning and defaulting out.`

const convertExample = `  # Manifests, many documents in each
  kubectl crdver convert -f crontabs.yaml --to v1 > crontabs-v1.yaml

  # What a chart makes
  helm template ./chart | kubectl crdver convert -f - --to v1

  # Without a cluster: the strategy None
  kubectl crdver convert -f crontab.yaml --to v1 --crd crd.yaml

  # Without a cluster: a webhook under development
  kubectl crdver convert -f crontab.yaml --to v1 --crd crd.yaml --url https://localhost:9443/convert --ca ca.crt`

type convertOptions struct {
	files   resource.FilenameOptions
	to      string
	crds    []string
	webhook webhookFlags
	raw     bool
	output  string
}

func newConvertCommand(f *Factory) *cobra.Command {
	var o convertOptions
	command := &cobra.Command{
		Use:               "convert -f FILENAME... --to VERSION",
		Short:             "Convert custom resources to another version and print them",
		Long:              convertLong,
		Example:           convertExample,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(command *cobra.Command, _ []string) error { return o.run(f, command) },
	}
	source.AddFlags(command, &o.files, "the custom resources")
	flags := command.Flags()
	flags.StringVar(&o.to, "to", "", "Version to convert to")
	flags.StringSliceVar(&o.crds, "crd", nil, "Manifests with the CRDs instead of the cluster's: files, folders or URLs")
	flags.StringVar(&o.webhook.url, "url", "", "URL of the conversion webhook, instead of what the CRD configures")
	flags.StringVar(&o.webhook.ca, "ca", "", "File with the certificates to check that of --url against; without it, those of this machine")
	flags.BoolVar(&o.raw, "raw", false, "Convert only: neither prune nor default")
	flags.StringVarP(&o.output, "output", "o", "yaml", "Output format. One of: (json, yaml)")
	AddTimeoutFlag(command, "Give up after this time")
	_ = command.MarkFlagRequired("to") // The only error of these is about a flag that does not exist.
	_ = command.MarkFlagFilename("crd", "yaml", "yml", "json")
	command.MarkFlagsOneRequired("filename", "kustomize")
	completeFlag(command, "output", "json", "yaml")
	return command
}

func (o *convertOptions) run(f *Factory, command *cobra.Command) error {
	if o.output != "json" && o.output != "yaml" {
		return UsageErrorf(command, "unknown output format %q: it is json or yaml", o.output)
	}
	ctx := command.Context()
	caller, err := o.webhook.caller()
	if err != nil {
		return UsageError(command, err)
	}
	input, err := readObjects(ctx, f, o.files)
	if err != nil {
		return err
	}
	if len(input.objects) == 0 {
		return fmt.Errorf("no custom resource in %s", strings.Join(append(o.files.Filenames, o.files.Kustomize), " "))
	}
	known, err := o.definitions(ctx, f, input.crds)
	if err != nil {
		return err
	}
	c := conversionTo{to: o.to, raw: o.raw, caller: caller, known: known, targets: map[string]review.Converter{}, schemas: map[string]*schema.Schema{}}
	// Nothing is printed before all is converted.
	var out bytes.Buffer
	for _, object := range input.objects {
		converted, err := c.convert(ctx, object)
		if err != nil {
			return err
		}
		if err := o.write(&out, converted.Object); err != nil {
			return err
		}
	}
	for _, warning := range c.warnings {
		f.Warn(warning)
	}
	if _, err := f.Out.Write(out.Bytes()); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// definitions returns where to look for CRDs. Those among the objects count, too.
func (o *convertOptions) definitions(ctx context.Context, f *Factory, among []crd.CRD) (*definitions, error) {
	known := &definitions{crds: among}
	if len(o.crds) > 0 {
		more, err := source.Manifests(ctx, f.IOStreams, resource.FilenameOptions{Filenames: o.crds})
		if err != nil {
			return nil, err
		}
		known.crds = append(more, known.crds...)
		return known, nil
	}
	client, err := f.Cluster()
	if err != nil && len(among) == 0 {
		return nil, fmt.Errorf("%w; or name the CRD with --crd", err)
	}
	if err == nil {
		known.client = client
	}
	return known, nil
}

func (o *convertOptions) write(out *bytes.Buffer, object map[string]any) error {
	if o.output == "json" {
		text, err := json.MarshalIndent(object, "", "    ")
		if err != nil {
			return fmt.Errorf("encoding the object: %w", err)
		}
		out.Write(append(text, '\n'))
		return nil
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return fmt.Errorf("encoding the object: %w", err)
	}
	if out.Len() > 0 {
		out.WriteString("---\n")
	}
	out.Write(text)
	return nil
}

// conversionTo converts objects to a version.
type conversionTo struct {
	to     string
	raw    bool
	caller review.Caller
	known  *definitions
	// targets are how objects are converted, by the names of their CRDs.
	targets map[string]review.Converter
	// schemas are by CRD and version.
	schemas  map[string]*schema.Schema
	warnings []string
}

func (c *conversionTo) convert(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	kind := object.GroupVersionKind()
	name := fmt.Sprintf("%s %s", kind.Kind, object.GetName())
	one, err := c.known.of(ctx, kind.GroupKind())
	if err != nil {
		return nil, err
	}
	if one == nil {
		return nil, fmt.Errorf("%s: no CRD has the kind %s of the group %q", name, kind.Kind, kind.Group)
	}
	if one.Version(kind.Version) == nil {
		return nil, fmt.Errorf("%s: the CRD %s has no version %s: it has %s", name, one.Name, kind.Version, strings.Join(one.VersionNames(), ", "))
	}
	t, err := c.target(*one)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	object = object.DeepCopy()
	for _, version := range c.way(*one, kind.Version) {
		apiVersion := one.Spec.Group + "/" + version
		if object.GetAPIVersion() != apiVersion {
			converted, err := t.Convert(ctx, []map[string]any{object.Object}, apiVersion)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			object.Object = converted[0]
		}
		if c.raw {
			continue
		}
		dropped, err := c.readAt(*one, version, object.Object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(dropped) > 0 {
			c.warnings = append(c.warnings, fmt.Sprintf("%s: %s does not know, and the server drops: %s", name, version, strings.Join(dropped, ", ")))
		}
	}
	return object, nil
}

// way returns the versions that an object passes: that of a client which writes it,
// the storage version, and that of a client which reads it and writes it again. The
// conversion alone goes there directly.
func (c *conversionTo) way(one crd.CRD, from string) []string {
	versions := []string{from, c.to}
	if storage := one.StorageVersion(); !c.raw && storage != "" && from != c.to {
		versions = []string{from, storage, c.to}
	}
	return slices.Compact(versions)
}

// readAt does to an object what the server does when a client writes it at a
// version, and returns the paths that it dropped.
func (c *conversionTo) readAt(one crd.CRD, version string, object map[string]any) ([]string, error) {
	key := one.Name + "/" + version
	known := c.schemas[key]
	if known == nil {
		var err error
		if known, err = schema.Served(one.CustomResourceDefinition, version); err != nil {
			return nil, fmt.Errorf("CRD %s: %w", one.Name, err)
		}
		c.schemas[key] = known
	}
	dropped := known.Prune(object)
	if err := known.Coerce(object); err != nil {
		return nil, fmt.Errorf("CRD %s: %w", one.Name, err)
	}
	known.Default(object)
	return dropped, nil
}

// target returns how the objects of a CRD are converted; it is made once.
func (c *conversionTo) target(one crd.CRD) (review.Converter, error) {
	if known := c.targets[one.Name]; known != nil {
		return known, nil
	}
	if one.Version(c.to) == nil {
		return nil, fmt.Errorf("the CRD %s has no version %s: it has %s", one.Name, c.to, strings.Join(one.VersionNames(), ", "))
	}
	var converter review.Converter = review.None{}
	switch {
	case one.ConversionStrategy() != apiextensionsv1.WebhookConverter:
	case c.caller != nil:
		converter = review.Webhook{Caller: c.caller, ReviewVersion: review.VersionOf(one)}
	default:
		var client cluster.Interface
		if c.known.client != nil {
			client = c.known.client
		}
		var err error
		if converter, err = review.For(client, one); err != nil {
			return nil, err
		}
	}
	c.targets[one.Name] = converter
	return converter, nil
}

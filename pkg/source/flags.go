package source

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// AddFlags adds --filename, --recursive and --kustomize to a command, as
// kubectl has them. what ends the sentence "Manifests with ...".
func AddFlags(command *cobra.Command, options *resource.FilenameOptions, what string) {
	flags := command.Flags()
	flags.StringSliceVarP(&options.Filenames, "filename", "f", options.Filenames,
		fmt.Sprintf("Manifests with %s: files, folders, patterns or URLs; - is standard input", what))
	flags.BoolVarP(&options.Recursive, "recursive", "R", options.Recursive, "Read the folders in -f recursively")
	flags.StringVarP(&options.Kustomize, "kustomize", "k", options.Kustomize,
		fmt.Sprintf("Kustomization folder that builds %s", what))
	extensions := make([]string, 0, len(resource.FileExtensions))
	for _, extension := range resource.FileExtensions {
		extensions = append(extensions, strings.TrimPrefix(extension, "."))
	}
	// The only errors are about flags that do not exist.
	_ = command.MarkFlagFilename("filename", extensions...)
	_ = command.MarkFlagDirname("kustomize")
	command.MarkFlagsMutuallyExclusive("filename", "kustomize")
	command.MarkFlagsMutuallyExclusive("recursive", "kustomize")
}

// Manifests returns the CRDs of manifests, schemas and all.
func Manifests(ctx context.Context, streams genericiooptions.IOStreams, options resource.FilenameOptions) ([]crd.CRD, error) {
	var found []crd.CRD
	_, err := Files{FilenameOptions: options, Stdin: streams.In}.Load(ctx, func(one crd.CRD) error {
		found = append(found, one)
		return nil
	})
	return found, err
}

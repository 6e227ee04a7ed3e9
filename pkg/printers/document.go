package printers

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// WriteDocument writes exactly one document, as json or yaml.
func WriteDocument(w io.Writer, format string, document runtime.Object) error {
	printer, err := genericclioptions.NewJSONYamlPrintFlags().ToPrinter(format)
	if err != nil {
		return fmt.Errorf("output format %q: %w", format, err)
	}
	if err := printer.PrintObj(document, w); err != nil {
		return fmt.Errorf("writing %s: %w", format, err)
	}
	return nil
}

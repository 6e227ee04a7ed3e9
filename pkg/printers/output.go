package printers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// The formats for people, and the one for pipes.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatName  = "name"
)

// Flags are the flags that choose how an answer is printed: --output,
// --template, --allow-missing-template-keys, --no-headers and --sort-by.
type Flags struct {
	documents *genericclioptions.JSONYamlPrintFlags
	templates *genericclioptions.KubeTemplatePrintFlags
	columns   columnFlags

	more      []string
	output    string
	noHeaders bool
	sortBy    string
}

// NewFlags returns flags that print a table unless something else is asked for.
// more are formats of the command's own, which are in Document.More.
func NewFlags(more ...string) *Flags {
	return &Flags{
		documents: genericclioptions.NewJSONYamlPrintFlags(),
		templates: genericclioptions.NewKubeTemplatePrintFlags(),
		more:      more,
	}
}

// Formats returns the values of --output, in order.
func (f *Flags) Formats() []string {
	formats := []string{formatTable, formatWide, formatName}
	formats = append(formats, f.documents.AllowedFormats()...)
	formats = append(formats, f.templates.AllowedFormats()...)
	formats = append(formats, f.columns.allowedFormats()...)
	formats = append(formats, f.more...)
	slices.Sort(formats)
	return slices.Compact(formats)
}

// More returns the formats of the command's own.
func (f *Flags) More() []string { return f.more }

// AddFlags adds the flags to a command.
func (f *Flags) AddFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(&f.output, "output", "o", "", fmt.Sprintf("Output format. One of: (%s)", strings.Join(f.Formats(), ", ")))
	flags.BoolVar(&f.noHeaders, "no-headers", false, "Do not print the headers of a table or of custom columns")
	flags.StringVar(&f.sortBy, "sort-by", "", "Sort the items by a field, given as a JSONPath expression ('{.name}'); the field must be a text, a number or true/false")
	f.templates.AddFlags(command)
	// As upstream's, but no sentence.
	flags.Lookup("template").Usage = "Template, or path of the file with it, for -o go-template, -o jsonpath and their -file formats"
	flags.Lookup("allow-missing-template-keys").Usage = "Ignore errors in templates when a field or map key is missing; for go-template and jsonpath"
}

// ToPrinter returns the printer that the flags ask for. For an unknown format
// the error lists all of them.
func (f *Flags) ToPrinter() (*Printer, error) {
	p := &Printer{format: f.output, noHeaders: f.noHeaders, sortBy: f.sortBy}
	format, template := f.output, *f.templates.TemplateArgument
	if template != "" && format == "" {
		format = "go-template"
	}
	switch format {
	case "", formatTable, formatWide, formatName:
		return p, nil
	}
	if slices.Contains(f.more, format) {
		return p, nil
	}
	var err error
	// Kubectl asks the same printers in the same order.
	if p.delegate, err = f.templates.ToPrinter(format); !genericclioptions.IsNoCompatiblePrinterError(err) {
		p.template = true
		return p, oneSentence(err)
	}
	if p.delegate, err = f.documents.ToPrinter(format); !genericclioptions.IsNoCompatiblePrinterError(err) {
		return p, oneSentence(err)
	}
	if p.columns, err = f.columns.toColumns(format, template); !genericclioptions.IsNoCompatiblePrinterError(err) {
		return p, err
	}
	return nil, genericclioptions.NoCompatiblePrinterError{OutputFormat: &f.output, AllowedFormats: f.Formats()}
}

// Document is one answer in all the forms that it can be printed in.
type Document struct {
	// Object is what json, yaml and the templates show.
	Object runtime.Object
	// Items are what custom columns show a line for.
	Items []any
	// Names are what -o name prints, once each.
	Names []string
	// Table is for people.
	Table Table
	// Text is for people instead of a table, where it is not nil.
	Text func(w io.Writer, wide bool) error
	// More are the formats of the command's own.
	More map[string]func(w io.Writer) error
}

// Printer prints a Document in one format.
type Printer struct {
	format    string
	noHeaders bool
	sortBy    string
	delegate  printers.ResourcePrinter
	template  bool
	columns   []customColumn
}

// Default reports whether no format was asked for.
func (p *Printer) Default() bool { return p.format == "" && p.delegate == nil }

// Wide reports whether -o wide was asked for.
func (p *Printer) Wide() bool { return p.format == formatWide }

// TableOptions says how the flags want a table.
func (p *Printer) TableOptions() TableOptions {
	return TableOptions{Wide: p.Wide(), NoHeaders: p.noHeaders}
}

// Human reports whether people read the output: a table, wide or not.
func (p *Printer) Human() bool {
	return p.delegate == nil && p.columns == nil && slices.Contains([]string{"", formatTable, formatWide}, p.format)
}

// SortBy returns the field of --sort-by, or "".
func (p *Printer) SortBy() string { return p.sortBy }

// Print writes the document. Nothing is written if that fails half-way.
func (p *Printer) Print(w io.Writer, d Document) error {
	var out bytes.Buffer
	var err error
	switch {
	case p.format == formatName:
		err = printNames(&out, d.Names)
	case p.columns != nil:
		err = printColumns(&out, p.columns, d.Items, p.noHeaders)
	case p.template:
		w = safeForTerminal(w)
		err = p.printTemplate(&out, d.Object)
	case p.delegate != nil:
		err = p.delegate.PrintObj(d.Object, &out)
	case d.More[p.format] != nil:
		err = d.More[p.format](&out)
	case d.Text != nil:
		err = d.Text(&out, p.Wide())
	default:
		err = d.Table.Print(&out, p.TableOptions())
	}
	if err != nil {
		return oneSentence(err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// printTemplate gives the template the document as kubectl gives it objects:
// unstructured, with whole numbers as such.
func (p *Printer) printTemplate(w io.Writer, object runtime.Object) error {
	content, err := toMap(object)
	if err != nil {
		return err
	}
	return p.delegate.PrintObj(&unstructured.Unstructured{Object: content}, w) //nolint:wrapcheck // Says what failed.
}

func printNames(w io.Writer, names []string) error {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		if _, err := fmt.Fprintln(w, Escape(name)); err != nil {
			return fmt.Errorf("writing names: %w", err)
		}
	}
	return nil
}

// oneSentence cuts off what upstream's template printers add to their errors:
// the whole object, and the word "error".
func oneSentence(err error) error {
	if err == nil {
		return nil
	}
	message, _, _ := strings.Cut(err.Error(), ". Printing more information")
	message = strings.ReplaceAll(strings.TrimPrefix(message, "error "), "Error executing template: ", "")
	if message == err.Error() {
		return err
	}
	return errors.New(message)
}

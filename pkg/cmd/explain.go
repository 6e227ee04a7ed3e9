package cmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

const explainLong = `Explain a rule of "validate" or "preflight": what it looks for, why that
matters and what to do about it. "kubectl crdver validate --list-rules" lists
them.`

const explainExample = `  # Why is this a finding, and what can be done about it?
  kubectl crdver explain single-storage-version

  # Several rules, as documents
  kubectl crdver explain migration-pending ca-bundle-expired -o yaml`

// helpColumns is the width that the texts of rules are wrapped at.
const helpColumns = 80

func newExplainCommand(f *Factory) *cobra.Command {
	output := printers.NewFlags()
	command := &cobra.Command{
		Use:     "explain RULE...",
		Short:   "Explain a rule of validate or preflight",
		Long:    explainLong,
		Example: explainExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name a rule; kubectl crdver validate --list-rules lists them")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return ruleIDs(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(command *cobra.Command, args []string) error {
			printer, err := printerOf(command, output)
			if err != nil {
				return err
			}
			var rules []validate.Rule
			for _, id := range args {
				rule, ok := validate.Find(allRules(), id)
				if !ok {
					return UsageError(command, validate.Unknown(allRules(), id))
				}
				rules = append(rules, rule)
			}
			document := rulesDocument(rules)
			document.Text = func(w io.Writer, _ bool) error { return explainRules(w, rules) }
			return printer.Print(f.Out, document)
		},
	}
	output.AddFlags(command)
	completeFlag(command, "output", output.Formats()...)
	return command
}

// rulesDocument returns rules in all their forms.
func rulesDocument(rules []validate.Rule) printers.Document {
	list := &v1alpha1.RuleList{TypeMeta: typeMeta(v1alpha1.KindRuleList), Items: ruleDocuments(rules)}
	document := printers.Document{Object: list, Table: printers.Table{Columns: []printers.Column{
		{Header: "RULE"}, {Header: "SEVERITY"}, {Header: "COMMAND"}, {Header: "SUMMARY"}, {Header: "LIVE", Wide: true}, {Header: "FIXABLE", Wide: true},
	}}}
	for _, rule := range list.Items {
		document.Items = append(document.Items, rule)
		document.Names = append(document.Names, rule.ID)
		document.Table.Rows = append(document.Table.Rows, []string{
			rule.ID, string(rule.Severity), rule.Command, rule.Summary, printers.Bool(&rule.LiveOnly), printers.Bool(&rule.Fixable),
		})
	}
	return document
}

func explainRules(w io.Writer, rules []validate.Rule) error {
	for i, rule := range ruleDocuments(rules) {
		separator := ""
		if i > 0 {
			separator = "\n"
		}
		_, err := fmt.Fprintf(w, "%s%s (%s, %s)\n%s\n\nWhy it matters:\n%s\n\nWhat to do:\n%s\n", separator,
			rule.ID, rule.Severity, rule.Command, printers.Wrap(rule.Summary, "  ", helpColumns), printers.Wrap(rule.Why, "  ", helpColumns),
			printers.Wrap(rule.Fix, "  ", helpColumns))
		if err != nil {
			return fmt.Errorf("writing the explanation: %w", err)
		}
		for _, note := range []struct {
			applies bool
			text    string
		}{
			{rule.LiveOnly, "It needs a cluster: manifests alone cannot show it."},
			{rule.Fixable, "kubectl crdver validate -f FILE --fix can edit manifests for it."},
			{true, fmt.Sprintf("To ignore it for one CRD, annotate the CRD with %s: %q.", validate.IgnoreAnnotation, rule.ID+": the reason")},
		} {
			if !note.applies {
				continue
			}
			if _, err := fmt.Fprintf(w, "\n%s\n", printers.Wrap(note.text, "", helpColumns)); err != nil {
				return fmt.Errorf("writing the explanation: %w", err)
			}
		}
	}
	return nil
}

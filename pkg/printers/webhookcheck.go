package printers

import (
	"fmt"
	"io"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// WriteWebhookChecks writes the examination of webhooks for people: a table for
// each. wide adds what the API server demands.
func WriteWebhookChecks(w io.Writer, report *v1alpha1.WebhookCheckReport, options TableOptions) error {
	var out strings.Builder
	for _, item := range report.Items {
		fmt.Fprintf(&out, "%s: %s\n", Escape(item.CRD), Escape(webhookLine(item)))
		table := Table{Columns: []Column{{Header: "CHECK"}, {Header: "RESULT"}, {Header: "CAME-BACK"}, {Header: "PROTOCOL", Wide: true}}}
		for _, check := range item.Checks {
			table.Rows = append(table.Rows, []string{check.Name, string(check.Result), check.Message, check.Protocol})
		}
		options.Indent = "  "
		if err := table.Print(&out, options); err != nil {
			return err
		}
		if item.Stopped != "" {
			fmt.Fprintf(&out, "  stopped here: %s\n", Escape(item.Stopped))
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "%s\n", checkSummaryLine(report.Summary))
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the checks: %w", err)
	}
	return nil
}

// webhookLine says where a webhook is and what it was given to convert.
func webhookLine(item v1alpha1.CheckedWebhook) string {
	if item.Webhook == "" {
		return "not called"
	}
	line := item.Webhook
	switch item.Objects.Source {
	case "cluster":
		line += ", objects of the cluster"
	case "files":
		line += ", objects of files"
	case "schema":
		line += ", objects made up from the schemas"
	}
	return line
}

// checkSummaryLine returns the counts of checks in words.
func checkSummaryLine(s v1alpha1.CheckSummary) string {
	counts := []string{fmt.Sprintf("%d ok", s.OK)}
	if s.Failed > 0 {
		counts = append(counts, fmt.Sprintf("%d failed", s.Failed))
	}
	if s.Warnings > 0 {
		counts = append(counts, english.Plural(s.Warnings, "warning"))
	}
	if s.Skipped > 0 {
		counts = append(counts, fmt.Sprintf("%d skipped", s.Skipped))
	}
	return english.Plural(s.Webhooks, "webhook") + ": " + strings.Join(counts, ", ")
}

// WebhookCheckCases returns the checks as tests.
func WebhookCheckCases(report *v1alpha1.WebhookCheckReport) []JUnitCase {
	var cases []JUnitCase
	for _, item := range report.Items {
		for _, check := range item.Checks {
			one := JUnitCase{
				Suite: item.CRD, Name: string(check.Stage) + " " + check.Name, Type: string(check.Result),
				Details: fmt.Sprintf("%s: %s\nprotocol: %s", check.Result, check.Message, check.Protocol),
			}
			switch check.Result {
			case v1alpha1.CheckFailed:
				one.Failure = check.Message
			case v1alpha1.CheckSkipped:
				one.Skipped = check.Message
			case v1alpha1.CheckOK, v1alpha1.CheckWarning:
			}
			cases = append(cases, one)
		}
	}
	return cases
}

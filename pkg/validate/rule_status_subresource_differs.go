package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func statusSubresourceDiffers() Rule {
	return Rule{
		ID:       "status-subresource-differs",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "a served version has no status subresource, while another has one",
		Why: "At the version without it, /status does not exist, so controllers fail there, and a client that writes an object writes its status " +
			"too: what a user applies can overwrite what a controller reported.",
		Fix: "Set subresources.status: {} on every served version, or on none.",
		Check: func(s *Subject) []Problem {
			return s.lacking("status", func(e entry) bool { return e.Subresources != nil && e.Subresources.Status != nil })
		},
	}
}

// lacking returns a problem for each served version that lacks a subresource,
// if another served version has it.
func (s *Subject) lacking(subresource string, has func(entry) bool) []Problem {
	with := ""
	var without []entry
	for _, e := range s.entries() {
		switch {
		case !e.Served:
		case !has(e):
			without = append(without, e)
		case with == "":
			with = e.Name
		}
	}
	if with == "" {
		return nil
	}
	problems := make([]Problem, 0, len(without))
	for _, e := range without {
		problems = append(problems, Problem{
			Version: e.Name,
			Path:    e.path("subresources"),
			Message: e.Name + " has no " + subresource + " subresource, " + with + " has one",
		})
	}
	return problems
}

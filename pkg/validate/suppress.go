package validate

import (
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// IgnoreAnnotation is the annotation of a CRD that names rules which do not
// count for it: "rule-a, rule-b: the reason", several of them on lines of their
// own or separated by semicolons.
const IgnoreAnnotation = "crdver.dev/ignore"

// suppressedBy is who chose to ignore what the annotation names.
const suppressedBy = "annotation"

// ignored are rules that an annotation names together.
type ignored struct {
	ids    []string
	reason string
}

func ignoredBy(c crd.CRD) []ignored {
	var entries []ignored
	for _, entry := range strings.FieldsFunc(c.Annotations[IgnoreAnnotation], func(r rune) bool { return r == '\n' || r == ';' }) {
		names, reason, _ := strings.Cut(entry, ":")
		ids := strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' })
		if len(ids) > 0 {
			entries = append(entries, ignored{ids: ids, reason: strings.TrimSpace(reason)})
		}
	}
	return entries
}

// Suppress marks the findings that the CRD's own annotation names. What the API
// server refuses cannot be ignored: it would still refuse it.
func Suppress(c crd.CRD, found []Found) {
	entries := ignoredBy(c)
	for i := range found {
		for _, entry := range entries {
			if !found[i].Refused && slices.Contains(entry.ids, found[i].Rule) {
				found[i].Suppressed = &v1alpha1.Suppression{By: suppressedBy, Reason: entry.reason}
			}
		}
	}
}

// UnknownIgnored returns the ids in the annotation of a CRD that no rule has.
func UnknownIgnored(rules []Rule, c crd.CRD) []string {
	var unknown []string
	for _, entry := range ignoredBy(c) {
		for _, id := range entry.ids {
			if _, ok := Find(rules, id); !ok {
				unknown = append(unknown, id)
			}
		}
	}
	return unknown
}

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// conform sends what the API server sends, one object and several of each version,
// and looks at everything in the answers.
func (e *examination) conform(ctx context.Context) error {
	for _, p := range e.pairs() {
		objects, to := e.samples.objects[p.from], e.apiVersion(p.to)
		for _, n := range []int{1, len(objects)} {
			a := e.send(ctx, e.reviews, objects[:n], to)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			in := fmt.Sprintf("%s, %s", p, english.Plural(n, "object"))
			found, converted := e.violations(a)
			e.tally.note(in, found)
			e.tally.size(in, converted)
		}
	}
	e.tellRegular()
	e.otherReviews(ctx)
	if name := e.tally.first(func(name string) bool { return refusing(name) && envelope(name) }); name != "" {
		why := fmt.Sprintf("the API server takes no such answer (%s): what it would do with the objects cannot be told", name)
		if name == checkStatusSuccess && e.report.Objects.Source == sourceSchema {
			why = "the webhook does not convert objects that were made up from the schemas: give it real ones with -f"
		}
		return &stopError{why}
	}
	return nil
}

// tellRegular adds one check for each rule of the protocol.
func (e *examination) tellRegular() {
	unseen := ""
	for _, name := range regular() {
		wrong := e.tally.wrong[name]
		switch {
		case wrong != nil:
			result := v1alpha1.CheckFailed
			if wrong.harmless {
				result = v1alpha1.CheckWarning
			}
			if name == checkStatusSuccess && e.report.Objects.Source == sourceSchema {
				result = v1alpha1.CheckWarning // It may refuse what was made up with good reason.
			}
			e.add(v1alpha1.CheckStageProtocol, name, result, "%s (%s; %d of %d answers)", wrong.message, wrong.in, wrong.answers, e.tally.answers)
			if !wrong.harmless && hides(name) && wrong.answers == e.tally.answers {
				unseen = name
			}
		case unseen != "":
			e.add(v1alpha1.CheckStageProtocol, name, v1alpha1.CheckSkipped, "not in any answer, because of %s", unseen)
		default:
			e.add(v1alpha1.CheckStageProtocol, name, v1alpha1.CheckOK, "in all of %d answers", e.tally.answers)
		}
	}
}

// hides reports whether what comes after a check cannot be seen if it fails.
func hides(name string) bool {
	return slices.Contains([]string{checkHTTPStatus, checkJSON, checkResponse, checkStatusSuccess, checkCount}, name)
}

// otherReviews asks in v1beta1, too, if the CRD says that the webhook speaks it
// (case 63).
func (e *examination) otherReviews(ctx context.Context) {
	other := "v1beta1"
	if e.reviews == other {
		other = "v1"
	}
	listed := e.CRD.Spec.Conversion != nil && e.CRD.Spec.Conversion.Webhook != nil &&
		slices.Contains(e.CRD.Spec.Conversion.Webhook.ConversionReviewVersions, other)
	if !listed {
		e.add(v1alpha1.CheckStageProtocol, checkV1beta1, v1alpha1.CheckSkipped, "conversionReviewVersions does not have %s besides %s", other, e.reviews)
		return
	}
	p := e.pairs()[0]
	found, _ := e.violations(e.send(ctx, other, e.samples.objects[p.from], e.apiVersion(p.to)))
	var texts []string
	for _, v := range e.tally.unknown(found) {
		texts = append(texts, v.message)
	}
	e.verdict(checkV1beta1, strings.Join(texts, "; "), v1alpha1.CheckFailed, "it answers "+other+" as well")
}

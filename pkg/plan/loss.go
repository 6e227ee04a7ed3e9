package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// Lossy returns the differences in the objects of a CRD that an intent does not
// allow. --allow-loss names a path, and with it everything below; --accept names
// differences one by one.
func Lossy(intent v1alpha1.Intent, crd string, lost []v1alpha1.FieldDifference) (refused, allowed []v1alpha1.FieldDifference) {
	for _, difference := range lost {
		if slices.ContainsFunc(intent.AllowLoss, func(path string) bool { return below(difference.Path, path) }) ||
			slices.ContainsFunc(intent.Accepted, func(a v1alpha1.AcceptedDifference) bool {
				return a.CRD == crd && a.Path == difference.Path && a.Change == difference.Change
			}) {
			allowed = append(allowed, difference)
		} else {
			refused = append(refused, difference)
		}
	}
	return refused, allowed
}

// below reports whether a field is another one, or lies in it.
func below(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// lossGate blocks on fields that a rewrite loses for good, unless they may be
// lost, and says so in the plan if they may.
func (b *builder) lossGate(lost []v1alpha1.FieldDifference, blocker v1alpha1.Blocker) {
	refused, allowed := Lossy(b.intent, b.state.CRD.Name, lost)
	for _, d := range allowed {
		b.warn("%s is %s in %d objects: --allow-loss or --accept allows it", d.Path, d.Change, d.Objects)
	}
	if len(refused) == 0 {
		return
	}
	for _, d := range refused {
		blocker.Details = append(blocker.Details, fmt.Sprintf("%s %s in %d objects: %s", d.Path, d.Change, d.Objects, strings.Join(d.Examples, ", ")))
	}
	b.block(blocker)
}

// converterGate blocks on a conversion webhook that is in trouble, and on what it
// loses on the way from the versions that objects are persisted at and back.
func (b *builder) converterGate(o lifecycle.Observations) {
	if o.ConverterProblem != "" {
		b.block(v1alpha1.Blocker{
			ID: blockConverter, Message: "the conversion webhook is in trouble: " + o.ConverterProblem,
			Resolve: "kubectl crdver webhook-check " + b.state.CRD.Name,
		})
	}
	if o.RoundTripError != "" {
		b.warn("what the conversion webhook loses could not be found out: %s", o.RoundTripError)
	}
	b.lossGate(o.RoundTripLost, v1alpha1.Blocker{
		ID:      blockConversionLost,
		Message: fmt.Sprintf("the conversion to %s and back loses or changes fields", b.after.StorageVersion()),
		Resolve: "mend the conversion webhook (kubectl crdver roundtrip " + b.state.CRD.Name + " shows each path), or pass --allow-loss PATH or --accept FILE",
	})
}

package plan

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/schema"
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

// MayLose reports whether a rewrite through the endpoint of a version may lose fields
// that an intent does not allow to be lost, as far as the schemas of the versions
// tell that are served. Where they rule it out, a sample of the objects is enough to
// rehearse; otherwise each object has to be looked at before it is written.
func MayLose(intent v1alpha1.Intent, c *apiextensionsv1.CustomResourceDefinition, endpoint string) bool {
	for _, loss := range schema.LostThrough(c, endpoint) {
		if refused, _ := Lossy(intent, c.Name, differencesOf(loss)); loss.Served && len(refused) > 0 {
			return true
		}
	}
	return false
}

func differencesOf(loss schema.VersionLoss) []v1alpha1.FieldDifference {
	var differences []v1alpha1.FieldDifference
	for _, path := range loss.Fields {
		differences = append(differences, v1alpha1.FieldDifference{Path: path, Change: v1alpha1.ChangeLost})
	}
	return differences
}

// unseenGate blocks where objects may be persisted at a version that is not served
// and has fields which the endpoint drops: what they hold cannot be read, neither
// before nor after, and no rehearsal would find anything.
func (b *builder) unseenGate() {
	endpoint := ""
	for _, step := range b.plan.Steps {
		if step.Action == v1alpha1.ActionRehearse {
			endpoint = step.Endpoint
		}
	}
	if endpoint == "" || b.intent.Verb == v1alpha1.VerbRescue { // Which serves it first.
		return
	}
	if n := b.objects(); n != nil && *n == 0 {
		return // What is created meanwhile is written at the storage version.
	}
	for _, loss := range schema.LostThrough(b.withEndpoint(endpoint), endpoint) {
		refused, allowed := Lossy(b.intent, b.state.CRD.Name, differencesOf(loss))
		var fields []string
		for _, d := range slices.Concat(refused, allowed) {
			fields = append(fields, d.Path)
		}
		switch {
		case len(refused) > 0 && b.inTree() && (loss.Served || loss.Listed || !b.state.Trust.Trusted):
			b.block(v1alpha1.Blocker{
				ID: blockInTreeLoss, Details: fields,
				Message: fmt.Sprintf("the schema of %s may drop or change fields of %s: the engine in-tree would do that without looking", endpoint, loss.Version),
				Resolve: "use --engine client, which looks at each object before it writes it; or pass --allow-loss PATH",
			})
		case loss.Served, !loss.Listed && b.state.Trust.Trusted:
		case len(refused) > 0:
			b.block(v1alpha1.Blocker{
				ID: blockUnseen, Details: fields,
				Message: fmt.Sprintf("objects may be stored at %s, which is not served: nobody can see whether they have fields that %s does not keep, and a rewrite drops them for good",
					loss.Version, endpoint),
				Resolve: fmt.Sprintf("serve it for the while (kubectl crdver restore %s %s) and run again: each object is looked at then; "+
					"or add the fields to the schema of %s, or pass --allow-loss PATH", loss.Version, b.state.CRD.Name, endpoint),
			})
		default:
			b.warn("%s of objects that are stored at %s may be lost: --allow-loss allows it", join(fields), loss.Version)
		}
	}
}

// withEndpoint returns the CRD as the objects are rewritten through the endpoint: with
// that version, where a step adds it.
func (b *builder) withEndpoint(endpoint string) *apiextensionsv1.CustomResourceDefinition {
	added := b.after.Version(endpoint)
	if b.state.Version(endpoint) != nil || added == nil {
		return b.state.CRD.CustomResourceDefinition
	}
	c := b.state.CRD.DeepCopy()
	c.Spec.Versions = append(c.Spec.Versions, *added.DeepCopy())
	c.Spec.Versions[len(c.Spec.Versions)-1].Storage = false
	return c
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
		b.warn("%s is %s in %s: --allow-loss or --accept allows it", d.Path, d.Change, english.Plural(d.Objects, "object"))
	}
	if len(refused) == 0 {
		return
	}
	for _, d := range refused {
		blocker.Details = append(blocker.Details, fmt.Sprintf("%s %s in %s: %s", d.Path, d.Change, english.Plural(d.Objects, "object"), strings.Join(d.Examples, ", ")))
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
	if o.ConversionError != "" {
		b.warn("what the conversion webhook loses could not be found out: %s", o.ConversionError)
	}
	if o.Conversion == nil {
		return
	}
	switch c := o.Conversion; {
	case c.Failed > 0:
		b.warn("%s could not be sent to %s through the conversion webhook and back: kubectl crdver roundtrip %s says why",
			english.Plural(c.Failed, "object"), c.To, b.state.CRD.Name)
	case !c.Complete && o.ConversionError == "":
		b.warn("what the conversion webhook loses was tried on %d of %s: --rehearse-all takes every one", c.Sampled, english.Plural(c.Total, "object"))
	}
	b.lossGate(o.Conversion.Lost, v1alpha1.Blocker{
		ID:      blockConversionLost,
		Message: fmt.Sprintf("the conversion to %s and back loses or changes fields", b.after.StorageVersion()),
		Resolve: "mend the conversion webhook (kubectl crdver roundtrip " + b.state.CRD.Name + " shows each path), or pass --allow-loss PATH or --accept FILE",
	})
}

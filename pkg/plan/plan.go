// Package plan computes what a changing command does: from the State of a CRD
// and an intent to a Plan. It is pure; the same function serves the dry run and
// the real one, and the re-planning after a conflict.
package plan

import (
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// InputError is a request that makes no sense for this CRD: an unknown version,
// a message that is too long. It changes nothing and is not a refusal.
type InputError struct{ Message string }

// Error returns the message.
func (e *InputError) Error() string { return e.Message }

func inputErrorf(format string, args ...any) error {
	return &InputError{Message: fmt.Sprintf(format, args...)}
}

// Build computes the plan for one CRD. An error is an *InputError; everything
// else that stands in the way is a blocker of the plan.
func Build(state lifecycle.State, cluster v1alpha1.ClusterIdentity, intent v1alpha1.Intent) (v1alpha1.Plan, error) {
	b := newBuilder(state, cluster, intent)
	if err := errors.Join(b.checkUntil(), b.checkVerify(), b.checkRewrite(), b.checkSelection(), b.checkDetour()); err != nil {
		return v1alpha1.Plan{}, err
	}
	var err error
	switch intent.Verb {
	case v1alpha1.VerbPromote:
		err = b.promote()
	case v1alpha1.VerbMigrate:
		b.migrate()
	case v1alpha1.VerbRetire:
		err = b.retire()
	case v1alpha1.VerbDeprecate:
		err = b.deprecate()
	case v1alpha1.VerbRestore:
		err = b.restore()
	case v1alpha1.VerbRescue:
		b.rescue()
	case v1alpha1.VerbBrownout:
		err = b.brownout()
	default:
		err = inputErrorf("unknown verb %q in the intent", intent.Verb)
	}
	if err != nil {
		return v1alpha1.Plan{}, err
	}
	return b.finish(), nil
}

// builder makes the steps of a plan one after the other. after is the CRD as
// it will be once the steps so far are done: patches address versions by their
// place in it.
type builder struct {
	state  lifecycle.State
	intent v1alpha1.Intent
	plan   v1alpha1.Plan
	after  crd.CRD
}

func newBuilder(state lifecycle.State, cluster v1alpha1.ClusterIdentity, intent v1alpha1.Intent) *builder {
	b := &builder{state: state, intent: intent}
	b.after = crd.CRD{CustomResourceDefinition: state.CRD.DeepCopy(), Origin: state.CRD.Origin}
	b.plan = v1alpha1.Plan{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindPlan},
		Target: v1alpha1.Target{
			Cluster: cluster,
			CRD:     Identity(state),
		},
		Intent:     intent,
		Complete:   true,
		Applyable:  true,
		Blockers:   []v1alpha1.Blocker{},
		Warnings:   []string{},
		Steps:      []v1alpha1.Step{},
		ObjectMeta: metav1.ObjectMeta{Name: planName(state, intent)},
	}
	return b
}

// planName names a plan after its intent and CRD.
func planName(state lifecycle.State, intent v1alpha1.Intent) string {
	name := string(intent.Verb)
	if intent.Version != "" {
		name += "-" + intent.Version
	}
	return name + "-" + state.CRD.Name
}

// Identity returns what a plan remembers of the CRD.
func Identity(state lifecycle.State) v1alpha1.CRDIdentity {
	c := state.CRD
	return v1alpha1.CRDIdentity{
		Name:            c.Name,
		UID:             string(c.UID),
		ResourceVersion: c.ResourceVersion,
		Generation:      c.Generation,
		Group:           c.Spec.Group,
		Kind:            c.Spec.Names.Kind,
		Resource:        c.Spec.Names.Plural,
		Scope:           string(c.Spec.Scope),
		StorageVersion:  state.Storage,
		StoredVersions:  slices.Clone(state.Stored),
	}
}

// add appends a step; its id is the action, with the version where the plan
// already has that action.
func (b *builder) add(step v1alpha1.Step) {
	step.ID = string(step.Action)
	if slices.ContainsFunc(b.plan.Steps, func(s v1alpha1.Step) bool { return s.ID == step.ID }) {
		step.ID += "-" + step.Version
	}
	if step.Preconditions == nil {
		step.Preconditions = []v1alpha1.Precondition{}
	}
	if step.Verify == nil {
		step.Verify = []v1alpha1.Check{}
	}
	b.plan.Steps = append(b.plan.Steps, step)
}

// block adds blockers, each once.
func (b *builder) block(blockers ...v1alpha1.Blocker) {
	for _, blocker := range blockers {
		if !slices.ContainsFunc(b.plan.Blockers, func(o v1alpha1.Blocker) bool {
			return o.ID == blocker.ID && o.Message == blocker.Message
		}) {
			b.plan.Blockers = append(b.plan.Blockers, blocker)
		}
	}
}

func (b *builder) warn(format string, args ...any) {
	b.plan.Warnings = append(b.plan.Warnings, fmt.Sprintf(format, args...))
}

// status returns met without blockers and unmet with some.
func status(blockers []v1alpha1.Blocker) v1alpha1.PreconditionStatus {
	if len(blockers) > 0 {
		return v1alpha1.PreconditionUnmet
	}
	return v1alpha1.PreconditionMet
}

// index returns the place of a version in spec.versions once the steps so far
// are done, and the entry.
func (b *builder) index(version string) (int, *apiextensionsv1.CustomResourceDefinitionVersion) {
	i := b.after.VersionIndex(version)
	if i < 0 {
		return i, nil
	}
	return i, &b.after.Spec.Versions[i]
}

// unknownVersion is the error for a version that the CRD does not have.
func (b *builder) unknownVersion(version string) error {
	message := fmt.Sprintf("%s has no version %q", b.state.CRD.Name, version)
	if nearest := b.state.Nearest(version); nearest != "" {
		message += fmt.Sprintf("; did you mean %q?", nearest)
	} else {
		message += fmt.Sprintf("; it has %s", join(b.state.CRD.VersionNames()))
	}
	return &InputError{Message: message}
}

// order lists the actions of each verb as they come.
func order(verb v1alpha1.Verb) []v1alpha1.Action {
	switch verb {
	case v1alpha1.VerbPromote:
		return []v1alpha1.Action{
			v1alpha1.ActionAdd, v1alpha1.ActionServe, v1alpha1.ActionRehearse, v1alpha1.ActionSetStorage,
			v1alpha1.ActionBarrier, v1alpha1.ActionInTreeMigrate, v1alpha1.ActionMigrate, v1alpha1.ActionVerify,
			v1alpha1.ActionRecord, v1alpha1.ActionTrim, v1alpha1.ActionDeleteSVM, v1alpha1.ActionDeprecateOlder,
		}
	case v1alpha1.VerbMigrate:
		return []v1alpha1.Action{
			v1alpha1.ActionRehearse, v1alpha1.ActionBarrier, v1alpha1.ActionInTreeMigrate, v1alpha1.ActionMigrate,
			v1alpha1.ActionVerify, v1alpha1.ActionRecord, v1alpha1.ActionTrim, v1alpha1.ActionDeleteSVM,
		}
	case v1alpha1.VerbRetire:
		return []v1alpha1.Action{
			v1alpha1.ActionRehearse, v1alpha1.ActionDeprecate, v1alpha1.ActionUnserve, v1alpha1.ActionBarrier,
			v1alpha1.ActionInTreeMigrate, v1alpha1.ActionMigrate, v1alpha1.ActionVerify, v1alpha1.ActionRecord,
			v1alpha1.ActionTrim, v1alpha1.ActionDeleteSVM, v1alpha1.ActionCleanManagedFields, v1alpha1.ActionRemove,
		}
	case v1alpha1.VerbDeprecate:
		return []v1alpha1.Action{v1alpha1.ActionDeprecate, v1alpha1.ActionUndeprecate}
	case v1alpha1.VerbRestore:
		return []v1alpha1.Action{v1alpha1.ActionAdd, v1alpha1.ActionServe}
	case v1alpha1.VerbRescue:
		return []v1alpha1.Action{
			v1alpha1.ActionAdd, v1alpha1.ActionListStored, v1alpha1.ActionServe, v1alpha1.ActionRehearse, v1alpha1.ActionUnserve,
			v1alpha1.ActionBarrier, v1alpha1.ActionMigrate, v1alpha1.ActionVerify, v1alpha1.ActionTrim,
			v1alpha1.ActionCleanManagedFields, v1alpha1.ActionRemove,
		}
	case v1alpha1.VerbBrownout:
		return []v1alpha1.Action{v1alpha1.ActionServe, v1alpha1.ActionClear, v1alpha1.ActionBrownout}
	}
	return nil
}

// UntilSteps returns the steps that --until of a verb takes.
func UntilSteps(verb v1alpha1.Verb) []string {
	var names []string
	for _, action := range order(verb) {
		names = append(names, string(action))
	}
	return names
}

func (b *builder) checkUntil() error {
	if b.intent.Until == "" || slices.Contains(order(b.intent.Verb), b.intent.Until) {
		return nil
	}
	return inputErrorf("unknown step %q for --until of %s: use one of %s",
		b.intent.Until, b.intent.Verb, join(UntilSteps(b.intent.Verb)))
}

// cut drops the steps after --until. Blockers of steps that are dropped are
// none of this run.
func (b *builder) cut() {
	if b.intent.Until == "" {
		return
	}
	actions := slices.Concat([]v1alpha1.Action{v1alpha1.ActionWaitForSVM, v1alpha1.ActionPutBack}, order(b.intent.Verb))
	last := slices.Index(actions, b.intent.Until)
	var kept []v1alpha1.Step
	for _, step := range b.plan.Steps {
		action := step.Action
		if action == v1alpha1.ActionSoak {
			action = v1alpha1.ActionDeprecate // It comes after that step, or after a later one.
		}
		if slices.Index(actions, action) <= last {
			kept = append(kept, step)
		} else {
			b.plan.Complete = false
		}
	}
	if kept == nil || !slices.ContainsFunc(kept, b.wanted) {
		kept = []v1alpha1.Step{}
	}
	b.plan.Steps = kept
}

// wanted reports whether a step does something by itself, and does not only
// make ready for steps that --until leaves out. One that is named is wanted.
func (b *builder) wanted(step v1alpha1.Step) bool {
	return step.Action == b.intent.Until || !slices.Contains([]v1alpha1.Action{
		v1alpha1.ActionRehearse, v1alpha1.ActionBarrier, v1alpha1.ActionWaitForSVM,
	}, step.Action)
}

// finish cuts the plan at --until, adds the blockers that concern all steps and
// the summary.
func (b *builder) finish() v1alpha1.Plan {
	b.prepend()
	b.cut()
	b.gates()
	b.etcdPreconditions()
	b.plan.Applyable = len(b.plan.Blockers) == 0
	if !b.plan.Applyable && len(b.plan.Steps) == 0 {
		b.plan.Complete = false
	}
	summary := v1alpha1.Summary{Steps: len(b.plan.Steps), Irreversible: []string{}}
	for _, step := range b.plan.Steps {
		summary.CRDPatches += b.patchesOf(step)
		if !step.Reversible {
			summary.Irreversible = append(summary.Irreversible, step.ID)
		}
	}
	b.count(&summary)
	if b.has(v1alpha1.ActionRehearse) {
		summary.Rehearsal = b.rehearsal()
	}
	// Shards work at the same time, and on different objects.
	if (b.migrates() || b.has(v1alpha1.ActionCleanManagedFields)) && b.intent.Shard == "" {
		b.plan.Hold = lifecycle.HoldAnnotation
	}
	b.plan.Summary = summary
	return b.plan
}

// has reports whether the plan has a step with that action.
func (b *builder) has(action v1alpha1.Action) bool {
	return slices.ContainsFunc(b.plan.Steps, func(s v1alpha1.Step) bool { return s.Action == action })
}

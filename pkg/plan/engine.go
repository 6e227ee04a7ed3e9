package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// Where these many objects are behind a link this slow, the client engine takes
// long, and the plan says what would be faster.
const (
	ManyObjects = 100_000
	SlowLink    = 10 * time.Millisecond
)

// svmGroup is the API group of in-tree migrations.
const svmGroup = "storagemigration.k8s.io"

// storedPath is the JSON pointer of the list of stored versions.
const storedPath = "/status/storedVersions"

// Identifiers of the blockers of the engine in-tree.
const (
	blockNoInTree       = "in-tree-not-served"
	blockInTreeNarrowed = "in-tree-narrowed"
)

// inTree reports whether the server rewrites the objects.
func (b *builder) inTree() bool { return b.intent.Engine == v1alpha1.EngineInTree }

// migrates reports whether the plan rewrites objects, by whatever engine.
func (b *builder) migrates() bool {
	return b.has(v1alpha1.ActionMigrate) || b.has(v1alpha1.ActionInTreeMigrate)
}

// chooseEngine says which engine rewrites the objects, and why.
func (b *builder) chooseEngine() {
	choice := &v1alpha1.EngineChoice{Name: v1alpha1.EngineClient, Reason: "asked for with --engine"}
	switch b.intent.Engine {
	case v1alpha1.EngineInTree:
		choice.Name = v1alpha1.EngineInTree
	case v1alpha1.EngineClient:
	default:
		choice.Reason = "auto: it knows what came of each object, and nothing trims status.storedVersions before the proof"
	}
	b.plan.Engine = choice
}

// mayMigrate tells why objects cannot be rewritten. A migration of somebody else
// blocks, unless it is waited for.
func (b *builder) mayMigrate() []v1alpha1.Blocker {
	return slices.DeleteFunc(b.state.MayMigrate(), func(x v1alpha1.Blocker) bool {
		return x.ID == lifecycle.BlockMigrationRunning && b.waits()
	})
}

// waits reports whether migrations that are not finished are waited for.
func (b *builder) waits() bool { return b.inTree() || b.intent.WaitForSVM }

// SVMVersion returns the apiVersion that in-tree migrations are made at, or "", of a
// server that serves these versions of the API group. The resource of a v1alpha1 has
// another form, and no server has both.
func SVMVersion(served []string) string {
	for _, version := range []string{"v1", "v1beta1"} {
		if slices.Contains(served, version) {
			return svmGroup + "/" + version
		}
	}
	return ""
}

func (b *builder) svmVersion() string { return SVMVersion(b.state.Observations.MigrationVersions) }

// listed returns status.storedVersions as the steps so far leave it, once versions
// are put back.
func (b *builder) listed() []string { return b.withPutBack(b.after.Status.StoredVersions) }

// withPutBack returns a list with the versions that are put back in front.
func (b *builder) withPutBack(stored []string) []string {
	listed := slices.Clone(stored)
	for _, version := range slices.Backward(b.state.PutBack()) {
		if !slices.Contains(listed, version) {
			listed = slices.Insert(listed, 0, version)
		}
	}
	return listed
}

// adopted returns the migration of this tool that is followed instead of making
// another one: it is running, or it did its work. One that failed is made again.
func (b *builder) adopted() string {
	if b.has(v1alpha1.ActionSetStorage) {
		return "" // It was made for the storage version of before.
	}
	for _, m := range slices.Backward(b.state.Observations.Migrations) {
		if m.Ours && !m.Failed {
			return m.Name
		}
	}
	return ""
}

// inTreeMigrate plans the migration by the server.
func (b *builder) inTreeMigrate(storage, endpoint string) {
	stored := b.listed()
	if !slices.Contains(stored, storage) {
		stored = append(stored, storage) // The server appends it itself.
	}
	step := v1alpha1.Step{
		Action:   v1alpha1.ActionInTreeMigrate,
		Version:  storage,
		Endpoint: endpoint,
		Why:      b.whyMigrate(storage) + "; the cluster's own controller rewrites the objects, and goes on if this command ends",
		Preconditions: []v1alpha1.Precondition{{
			ID: "no-other", Description: "no other StorageVersionMigration of the resource is unfinished (one that is, is waited for)",
			Status: v1alpha1.PreconditionPending,
		}},
		SVM:        b.svmStep(storage, stored),
		Objects:    b.objects(),
		Reversible: true,
	}
	if adopted := b.adopted(); adopted != "" {
		step.SVM.Create, step.SVM.Follow = nil, []string{adopted}
		step.Title = fmt.Sprintf("follow StorageVersionMigration %s, which an earlier run made", adopted)
	} else {
		step.Title = "create a StorageVersionMigration and follow it until it has ended"
		until := "deleted once each object is verified"
		if b.intent.KeepSVM {
			until = "kept"
		}
		step.Changes = append(step.Changes, v1alpha1.Change{
			Path: fmt.Sprintf("storageversionmigrations.%s[%s*]", svmGroup, step.SVM.Create.GenerateName),
			To:   fmt.Sprintf("created for %s, %s", b.state.CRD.Name, until),
		})
	}
	step.Verify = []v1alpha1.Check{{
		ID: "ended", Description: "it has succeeded or failed; what it left behind is rewritten by the verify pass",
	}}
	keepsStored(&step, storage, stored)
	b.add(step)
}

// svmStep returns the migration to make, marked so that a later run knows it,
// and what was listed before it.
func (b *builder) svmStep(storage string, stored []string) *v1alpha1.SVMStep {
	generation := b.state.CRD.Generation
	return &v1alpha1.SVMStep{Create: &v1alpha1.SVMTemplate{
		APIVersion:   b.svmVersion(),
		GenerateName: svmName(b.state.CRD.Spec.Names.Plural),
		Labels:       map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		Annotations: map[string]string{
			v1alpha1.AnnotationCRDUID:         string(b.state.CRD.UID),
			v1alpha1.AnnotationGeneration:     strconv.FormatInt(generation, 10),
			v1alpha1.AnnotationStorageVersion: storage,
			v1alpha1.AnnotationStoredVersions: strings.Join(stored, ","),
		},
		Group:    b.state.CRD.Spec.Group,
		Resource: b.state.CRD.Spec.Names.Plural,
	}}
}

// svmName returns the start of the name of a migration; the server cuts it
// where it is long.
func svmName(plural string) string { return "crdver-" + plural + "-" }

// keepsStored makes a step put status.storedVersions back as often as the server
// trims it to the storage version: that a migration has ended proves nothing (facts
// 1 and 2).
func keepsStored(step *v1alpha1.Step, storage string, stored []string) {
	if len(stored) < 2 {
		return
	}
	step.SVM.PutBack = StoredPatch(stored)
	step.Changes = append(step.Changes, v1alpha1.Change{
		Path: "status.storedVersions", From: fmt.Sprintf("[%s], should the server trim it", storage), To: bracket(stored),
	})
	step.Verify = append(step.Verify, v1alpha1.Check{
		ID:          "put-back",
		Description: fmt.Sprintf("status.storedVersions is %s: the server trims it before anything is verified, and it is put back at once", bracket(stored)),
	})
}

// StoredPatch sets status.storedVersions.
func StoredPatch(stored []string) *v1alpha1.Patch {
	return jsonPatch("status", v1alpha1.PatchOperation{Op: "add", Path: storedPath, Value: value(stored)})
}

// StoredOf returns the list that a patch of [StoredPatch] sets.
func StoredOf(patch *v1alpha1.Patch) ([]string, error) {
	var stored []string
	if patch == nil || len(patch.Body) != 1 || patch.Body[0].Path != storedPath || patch.Body[0].Value == nil {
		return nil, errors.New("the plan has no patch of status.storedVersions")
	}
	if err := json.Unmarshal(patch.Body[0].Value.Raw, &stored); err != nil {
		return nil, fmt.Errorf("the plan's patch of status.storedVersions: %w", err)
	}
	return stored, nil
}

// deleteSVMs plans to delete what this tool made, once the proof is there.
func (b *builder) deleteSVMs() {
	var old []string
	for _, m := range b.state.Observations.Migrations {
		if m.Ours || m.Made {
			old = append(old, m.Name)
		}
	}
	if b.intent.KeepSVM || !b.inTree() && len(old) == 0 {
		return
	}
	step := v1alpha1.Step{
		Action:     v1alpha1.ActionDeleteSVM,
		Title:      "delete the StorageVersionMigrations that this tool made for the CRD",
		Why:        "each object is verified: they have nothing more to say (--keep-svm keeps them)",
		SVM:        &v1alpha1.SVMStep{Delete: old},
		Verify:     []v1alpha1.Check{{ID: "deleted", Description: "they are gone; those of others stay"}},
		Reversible: true,
	}
	for _, name := range old {
		step.Changes = append(step.Changes, v1alpha1.Change{Path: "storageversionmigrations[" + name + "]", From: "finished by then"})
	}
	b.add(step)
}

// prepend puts in front what comes before everything else of a plan that
// rewrites objects: waiting for the migrations of others, and putting back what
// an earlier run's migration trimmed without a proof. They find the list as it is
// now, and take nothing from it: that other steps trim it later says nothing yet.
func (b *builder) prepend() {
	if !b.migrates() {
		return
	}
	var first []v1alpha1.Step
	if step := b.waitForSVMs(); step != nil {
		first = append(first, *step)
	}
	if missing := b.state.PutBack(); len(missing) > 0 {
		first = append(first, b.putBack(missing))
	}
	b.plan.Steps = append(first, b.plan.Steps...)
}

// waitForSVMs plans to wait for the migrations that are not finished, but for the
// one that is followed anyway.
func (b *builder) waitForSVMs() *v1alpha1.Step {
	if !b.waits() {
		return nil
	}
	var names []string
	for _, m := range b.state.Observations.Migrations {
		if m.Running && (!b.inTree() || m.Name != b.adopted()) {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	step := &v1alpha1.Step{
		ID:            string(v1alpha1.ActionWaitForSVM),
		Action:        v1alpha1.ActionWaitForSVM,
		Title:         fmt.Sprintf("wait until StorageVersionMigration %s has ended", join(names)),
		Why:           "it rewrites the objects too, and the server trims status.storedVersions at its end",
		Preconditions: []v1alpha1.Precondition{},
		SVM:           &v1alpha1.SVMStep{Follow: names},
		Verify:        []v1alpha1.Check{{ID: "ended", Description: "it has succeeded or failed, or is gone"}},
		Reversible:    true,
	}
	keepsStored(step, b.state.Storage, b.withPutBack(b.state.Stored))
	return step
}

// putBack plans to list versions again.
func (b *builder) putBack(missing []string) v1alpha1.Step {
	stored := b.withPutBack(b.state.Stored)
	return v1alpha1.Step{
		ID:            string(v1alpha1.ActionPutBack),
		Action:        v1alpha1.ActionPutBack,
		Title:         fmt.Sprintf("put %s back into status.storedVersions", join(missing)),
		Why:           "an in-tree migration of an earlier run trimmed the list, and nothing has verified the objects since",
		Preconditions: []v1alpha1.Precondition{},
		Patch:         StoredPatch(stored),
		Changes:       []v1alpha1.Change{{Path: "status.storedVersions", From: bracket(b.state.Stored), To: bracket(stored)}},
		Verify:        []v1alpha1.Check{{ID: "listed", Description: fmt.Sprintf("status.storedVersions is %s", bracket(stored))}},
		Reversible:    true,
	}
}

// engineGates blocks what the engine cannot do, and says where another engine
// would be faster.
func (b *builder) engineGates() {
	o := b.state.Observations
	if !b.inTree() {
		if o.MigrationsError != "" {
			b.warn("in-tree migrations could not be read, and one that is not finished would trim status.storedVersions behind our back: %s",
				o.MigrationsError)
		}
		b.suggestEngine()
		return
	}
	if b.narrowed() {
		b.block(v1alpha1.Blocker{
			ID:      blockInTreeNarrowed,
			Message: "the engine in-tree rewrites all objects: it knows no namespace, selector or shard",
			Resolve: "leave out --namespace, --selector and --shard, or pass --engine client",
		})
	}
	switch {
	case b.svmVersion() != "":
	case o.MigrationsError != "":
		b.block(v1alpha1.Blocker{
			ID: blockNoInTree, Message: "in-tree migrations could not be read: " + o.MigrationsError,
			Resolve: "put right what the message says, or pass --engine client",
		})
	default:
		b.block(v1alpha1.Blocker{
			ID: blockNoInTree,
			Message: fmt.Sprintf("the server has no StorageVersionMigration (%s/v1, on by default from Kubernetes 1.37, or v1beta1, from 1.35)",
				svmGroup),
			Resolve: "pass --engine client",
		})
	}
}

// suggestEngine warns where many objects are behind a slow link. It is never
// chosen by itself: the server's own migration trims before anything is proven.
func (b *builder) suggestEngine() {
	o := b.state.Observations
	if o.Objects == nil || *o.Objects < ManyObjects || o.RoundTrip <= SlowLink || b.intent.Engine == v1alpha1.EngineClient || b.narrowed() {
		return
	}
	ways := "a Job in the cluster (kubectl crdver migrate --manifest job)"
	if b.svmVersion() != "" {
		ways = "--engine in-tree, or " + ways + ","
	}
	b.warn("a request takes %s from here, and there are %d objects: %s would be faster, and would go on if this connection ended",
		o.RoundTrip.Round(time.Millisecond), *o.Objects, ways)
}

// svmRules adds the permissions that a step needs for StorageVersionMigrations.
func svmRules(rules []Rule, step v1alpha1.Step, crds Rule, need func([]Rule, Rule, string) []Rule) []Rule {
	if step.SVM == nil {
		return rules
	}
	svms := Rule{Group: svmGroup, Resource: "storageversionmigrations"}
	// All are listed: another run's, or somebody else's, may have come meanwhile.
	verbs := []string{"list", "get"}
	switch step.Action {
	case v1alpha1.ActionInTreeMigrate:
		verbs = append(verbs, "create")
	case v1alpha1.ActionDeleteSVM:
		verbs = []string{"list", "delete"}
	default:
	}
	for _, verb := range verbs {
		rules = need(rules, svms, verb)
	}
	if step.SVM.PutBack != nil {
		crds.Subresource = "status"
		rules = need(rules, crds, "patch")
	}
	return rules
}

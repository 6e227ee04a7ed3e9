package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Plan is what a changing command will do to one CRD, and why it may.
// Printing, `-o json`, `--dry-run`, the prompt and the execution read this
// value and nothing else.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Plan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Target Target `json:"target"`
	Intent Intent `json:"intent"`

	// Engine is what rewrites the objects, and why it was chosen; absent for a
	// plan that rewrites none.
	Engine *EngineChoice `json:"engine,omitempty"`

	// Complete says that the steps reach the intent's goal; false with --until,
	// with a namespace or a selector, and where a blocker cuts the way short.
	Complete bool `json:"complete"`
	// Applyable says that nothing blocks the plan.
	Applyable bool `json:"applyable"`
	// Blockers are why the plan may not be executed.
	Blockers []Blocker `json:"blockers"`
	// Warnings are worth reading before saying yes.
	Warnings []string `json:"warnings"`
	// Steps are executed in order. Without steps there is nothing to do.
	Steps []Step `json:"steps"`
	// Hold is the annotation of the CRD that says, while the plan is executed, who
	// executes it and how far that is, so that no second run does the same. It is
	// removed at the end. Absent where no objects are rewritten.
	Hold    string  `json:"hold,omitempty"`
	Summary Summary `json:"summary"`
}

// PlanList is the plans of a command that covers several CRDs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type PlanList struct {
	metav1.TypeMeta `json:",inline"`

	// Items are executed in order, CRD by CRD.
	Items []Plan `json:"items"`
}

// Target is the cluster and the CRD that a plan was made for. A plan is stale
// when the cluster, or the CRD's UID, generation, storage version or stored
// versions are no longer these.
type Target struct {
	Cluster ClusterIdentity `json:"cluster"`
	CRD     CRDIdentity     `json:"crd"`
}

// ClusterIdentity names a cluster.
type ClusterIdentity struct {
	// Server is the URL of the API server.
	Server string `json:"server"`
	// Context is the kubeconfig context.
	Context string `json:"context,omitempty"`
	// KubeSystemUID is the UID of the kube-system namespace: it stays the same
	// when the cluster is reached by another name. Absent if it cannot be read.
	KubeSystemUID string `json:"kubeSystemUID,omitempty"`
}

// CRDIdentity is the state of the CRD that a plan starts from.
type CRDIdentity struct {
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	Generation      int64  `json:"generation"`
	Group           string `json:"group"`
	Kind            string `json:"kind"`
	// Resource is the plural name.
	Resource string `json:"resource"`
	// Scope is Namespaced or Cluster.
	Scope          string   `json:"scope"`
	StorageVersion string   `json:"storageVersion"`
	StoredVersions []string `json:"storedVersions"`
}

// Verb is a changing command.
type Verb string

// The changing commands.
const (
	VerbDeprecate Verb = "deprecate"
	VerbPromote   Verb = "promote"
	VerbMigrate   Verb = "migrate"
	VerbRetire    Verb = "retire"
	VerbRestore   Verb = "restore"
	VerbRescue    Verb = "rescue"
	VerbBrownout  Verb = "brownout"
)

// Intent is what was asked for.
type Intent struct {
	Verb    Verb   `json:"verb"`
	Version string `json:"version,omitempty"`
	// Until is the last step to run.
	Until Action `json:"until,omitempty"`
	// From is the version whose schema an added version copies.
	From string `json:"from,omitempty"`
	// Definition is the spec.versions entry of a version to add, from a manifest.
	Definition *apiextensionsv1.CustomResourceDefinitionVersion `json:"definition,omitempty"`
	// DefinitionSource is the manifest it was read from.
	DefinitionSource string `json:"definitionSource,omitempty"`
	// Definitions are the spec.versions entries of versions that a rescue may add, from
	// the manifest DefinitionSource: they tell which fields may be lost.
	Definitions []apiextensionsv1.CustomResourceDefinitionVersion `json:"definitions,omitempty"`
	// Unserved makes a rescue not serve the versions for the rehearsal: what the
	// rewrite loses cannot be seen then.
	Unserved bool `json:"unserved,omitempty"`
	// Replacement is the version that a deprecation warning points to.
	Replacement string `json:"replacement,omitempty"`
	// Message is the deprecation warning, instead of the one made up.
	Message string `json:"message,omitempty"`
	// Undo takes a deprecation back.
	Undo bool `json:"undo,omitempty"`
	// DeprecateOlder deprecates the lower-priority versions after a promotion.
	DeprecateOlder bool `json:"deprecateOlder,omitempty"`
	// AllowOwnerReferences unserves a version although owner references name it.
	AllowOwnerReferences bool `json:"allowOwnerReferences,omitempty"`
	// UsageWindow is how old evidence of use may be to keep a version served; absent
	// where use is not asked about.
	UsageWindow *metav1.Duration `json:"usageWindow,omitempty"`
	// AllowInUse unserves a version although there is evidence that it is in use.
	AllowInUse bool `json:"allowInUse,omitempty"`
	// Soak is how long a retirement waits between deprecating and unserving, and
	// between unserving and removing; absent for no longer than an earlier run said.
	Soak *metav1.Duration `json:"soak,omitempty"`
	// Brownout says for how long, and how often, a brownout unserves the version.
	Brownout *BrownoutIntent `json:"brownout,omitempty"`
	// AllowLoss are the paths of fields that may be lost, with all below them.
	AllowLoss []string `json:"allowLoss,omitempty"`
	// Accepted are the differences after a conversion that are expected.
	Accepted []AcceptedDifference `json:"accepted,omitempty"`
	// RehearseAll rehearses the rewrite of every object, and the way of every object
	// through a conversion webhook and back, rather than of a sample.
	RehearseAll bool `json:"rehearseAll,omitempty"`
	// Force migrates although storedVersions says that nothing is left.
	Force bool `json:"force,omitempty"`
	// EtcdEndpoints are those of an etcd that is read, too, before
	// status.storedVersions is trimmed and before a version is removed.
	EtcdEndpoints []string `json:"etcdEndpoints,omitempty"`
	// Namespace and Selector narrow a migration; a narrowed one never trims.
	Namespace string `json:"namespace,omitempty"`
	Selector  string `json:"selector,omitempty"`
	// Shard is "I/N": only the I-th of N parts of the objects, from 0. It narrows.
	Shard string `json:"shard,omitempty"`
	// Engine is what rewrites the objects; empty means auto.
	Engine Engine `json:"engine,omitempty"`
	// WaitForSVM waits for the StorageVersionMigrations of the resource that are
	// not finished, rather than refusing; the engine in-tree always does.
	WaitForSVM bool `json:"waitForSVM,omitempty"`
	// KeepSVM keeps the StorageVersionMigration that the engine in-tree made.
	KeepSVM bool `json:"keepSVM,omitempty"`
	// NamespacesFirst are gone over before the rest, which is left alone if an
	// object in them fails.
	NamespacesFirst []string `json:"namespacesFirst,omitempty"`
	// Path is "status" to rewrite objects through their status subresource, or
	// absent.
	Path string `json:"path,omitempty"`
	// RefusedThrough is the served version that objects are rewritten through which
	// the schema of the storage version refuses; absent to leave them alone.
	RefusedThrough string `json:"refusedThrough,omitempty"`
	// Verify says how much is verified: full, which is the default, sample or
	// none. Anything but full never trims.
	Verify VerifyMode `json:"verify,omitempty"`
	// Retry sends only the objects of a failure report again; it never trims.
	Retry *RetryIntent `json:"retry,omitempty"`
}

// VerifyMode says how much of the objects is verified after a rewrite.
type VerifyMode string

// The modes.
const (
	// VerifyFull repeats passes over all objects until one finds each of them
	// current, which is the proof that a trim needs.
	VerifyFull VerifyMode = "full"
	// VerifySample looks at about 500 objects, spread over the whole list.
	VerifySample VerifyMode = "sample"
	// VerifyNone looks at none.
	VerifyNone VerifyMode = "none"
)

// RetryIntent is the objects of a failure report of an earlier run.
type RetryIntent struct {
	// From is the file.
	From string `json:"from"`
	// Objects is the number of objects of the CRD that it names.
	Objects int64 `json:"objects"`
}

// Blocker is why a plan may not be executed.
type Blocker struct {
	// ID is stable: "storage-version", "only-served-version", "owner-references",
	// "rehearsal-refused", "rehearsal-lost-fields", "access", ...
	ID      string `json:"id"`
	Message string `json:"message"`
	// Resolve is the command or flag that would resolve it.
	Resolve string `json:"resolve,omitempty"`
	// Details are the objects, paths or rules concerned.
	Details []string `json:"details,omitempty"`
}

// Action is what a step does.
type Action string

// The actions, in the order of a whole life.
const (
	ActionAdd                Action = "add"
	ActionListStored         Action = "list-stored"
	ActionServe              Action = "serve"
	ActionRehearse           Action = "rehearse"
	ActionDeprecate          Action = "deprecate"
	ActionUndeprecate        Action = "undeprecate"
	ActionUnserve            Action = "unserve"
	ActionSetStorage         Action = "set-storage"
	ActionBarrier            Action = "barrier"
	ActionMigrate            Action = "migrate"
	ActionVerify             Action = "verify"
	ActionRecord             Action = "record"
	ActionTrim               Action = "trim"
	ActionCleanManagedFields Action = "clean-managed-fields"
	ActionRemove             Action = "remove"
	ActionDeprecateOlder     Action = "deprecate-older"
	ActionWaitForSVM         Action = "wait-for-svm"
	ActionPutBack            Action = "put-back"
	ActionInTreeMigrate      Action = "in-tree-migrate"
	ActionDeleteSVM          Action = "delete-svm"
	ActionSoak               Action = "soak"
	ActionBrownout           Action = "brownout"
	ActionClear              Action = "clear"
)

// Step is one thing that a plan does.
type Step struct {
	// ID is unique in the plan; it is the action, with the version where one
	// action comes more than once.
	ID     string `json:"id"`
	Action Action `json:"action"`
	// Version is the version that the step is about.
	Version string `json:"version,omitempty"`
	// Endpoint is the served version that objects are read and written through;
	// absent for steps without objects.
	Endpoint string `json:"endpoint,omitempty"`
	Title    string `json:"title"`
	Why      string `json:"why"`
	// Preconditions are checked again immediately before the step.
	Preconditions []Precondition `json:"preconditions"`
	// Patch is absent for steps that rewrite objects or only check.
	Patch *Patch `json:"patch,omitempty"`
	// Marks is the annotation of the CRD that the step sets, in the same patch if it
	// has one. Its value holds the time of that moment, and who it was. That of a
	// brownout is removed with serving the version again.
	Marks string `json:"marks,omitempty"`
	// Soak is what a step waits for; absent for the other steps.
	Soak *SoakStep `json:"soak,omitempty"`
	// SVM is the StorageVersionMigrations that the step makes, follows or deletes;
	// absent for the other steps.
	SVM *SVMStep `json:"svm,omitempty"`
	// Changes are what the patch changes, for people.
	Changes []Change `json:"changes,omitempty"`
	// Objects is about how many objects the step rewrites or checks; absent if none,
	// or if it is unknown.
	Objects *int64 `json:"objects,omitempty"`
	// HeldWrites says of a step that goes over the objects that a webhook may hold a
	// write, which ends as the CRD was before spec.versions was changed, long after
	// that: persisted at the old storage version, or with a managedFields entry of a
	// version that is not served any more. The pass that counts starts only when every
	// such write has ended.
	HeldWrites bool `json:"heldWrites,omitempty"`
	// Verify is checked after the step; the next step waits for it.
	Verify []Check `json:"verify"`
	// Reversible says whether Undo brings back what was.
	Reversible bool   `json:"reversible"`
	Undo       string `json:"undo,omitempty"`
}

// PreconditionStatus is what is known of a precondition.
type PreconditionStatus string

// The statuses of a precondition.
const (
	// PreconditionMet was seen to hold when the plan was made.
	PreconditionMet PreconditionStatus = "met"
	// PreconditionUnmet does not hold: the plan has a blocker for it.
	PreconditionUnmet PreconditionStatus = "unmet"
	// PreconditionPending can only be checked when earlier steps are done.
	PreconditionPending PreconditionStatus = "pending"
	// PreconditionUnknown could not be checked.
	PreconditionUnknown PreconditionStatus = "unknown"
)

// Precondition must hold before a step.
type Precondition struct {
	ID          string             `json:"id"`
	Description string             `json:"description"`
	Status      PreconditionStatus `json:"status"`
}

// Check is made after a step.
type Check struct {
	ID          string `json:"id"`
	Description string `json:"description"`
}

// Patch is the exact change of the CRD. The executor adds a test of the UID
// and the resourceVersion it has just read, so that a CRD that somebody else
// changed answers 409 Conflict.
type Patch struct {
	// Type is json (RFC 6902).
	Type string `json:"type"`
	// Subresource is empty or "status".
	Subresource string `json:"subresource,omitempty"`
	// Body is the list of operations.
	Body []PatchOperation `json:"body"`
}

// PatchOperation is one RFC 6902 operation.
type PatchOperation struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	// Value is absent for remove.
	Value *apiextensionsv1.JSON `json:"value,omitempty"`
}

// Change is one changed field, for people: "spec.versions[v1].storage" from
// "false" to "true". An empty From is an addition, an empty To a removal.
type Change struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Summary counts what a plan does.
type Summary struct {
	// Steps is the number of steps.
	Steps int `json:"steps"`
	// CRDPatches is how many of them change the CRD.
	CRDPatches int `json:"crdPatches"`
	// Objects is about how many objects are rewritten or checked; absent if it is unknown.
	Objects *int64 `json:"objects,omitempty"`
	// Total is about how many objects the CRD has; absent where Objects are all of
	// them, or it is unknown.
	Total *int64 `json:"total,omitempty"`
	// Irreversible are the steps that cannot be undone.
	Irreversible []string `json:"irreversible"`
	// Rehearsal is what the rehearsal found; absent if there was none.
	Rehearsal *Rehearsal `json:"rehearsal,omitempty"`
}

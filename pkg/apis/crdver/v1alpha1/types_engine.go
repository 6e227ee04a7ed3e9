package v1alpha1

// Engine is what rewrites the objects of a CRD.
type Engine string

// The engines.
const (
	// EngineAuto is the client engine, with the reason in the plan.
	EngineAuto Engine = "auto"
	// EngineClient sends no-op patches from where the command runs.
	EngineClient Engine = "client"
	// EngineInTree has the cluster's own controller do it, by way of a
	// StorageVersionMigration, and verifies with the client engine.
	EngineInTree Engine = "in-tree"
)

// EngineChoice is an engine and the reason for it.
type EngineChoice struct {
	// Name is client or in-tree.
	Name   Engine `json:"name"`
	Reason string `json:"reason"`
}

// Labels and annotations of the StorageVersionMigrations that this tool makes,
// by which a later run knows them.
const (
	// LabelManagedBy is ManagedBy on everything that this tool makes.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "kubectl-crdver"
	// AnnotationCRDUID and AnnotationGeneration are the CRD that it was made for.
	AnnotationCRDUID     = "crdver.dev/crd-uid"
	AnnotationGeneration = "crdver.dev/crd-generation"
	// AnnotationStorageVersion is the version that it rewrites the objects at, and
	// AnnotationStoredVersions the comma-separated status.storedVersions before it.
	AnnotationStorageVersion = "crdver.dev/storage-version"
	AnnotationStoredVersions = "crdver.dev/stored-versions"
)

// AnnotationRetired lists the versions that this tool removed from a CRD, separated by
// commas.
const AnnotationRetired = "crdver.dev/retired"

// SVMStep is what a step does with StorageVersionMigrations
// (storagemigration.k8s.io).
type SVMStep struct {
	// Create is the one that the step makes; absent if it makes none.
	Create *SVMTemplate `json:"create,omitempty"`
	// Follow are those that the step follows until they are finished.
	Follow []string `json:"follow,omitempty"`
	// Delete are those that the step deletes beside those that this run made. Only
	// those that this tool made are ever deleted.
	Delete []string `json:"delete,omitempty"`
	// PutBack is sent as often as the server trims status.storedVersions before
	// the objects are verified; absent where nothing would be put back.
	PutBack *Patch `json:"putBack,omitempty"`
}

// SVMTemplate is a StorageVersionMigration to make.
type SVMTemplate struct {
	APIVersion string `json:"apiVersion"`
	// GenerateName is the name, but for what the server adds to it.
	GenerateName string            `json:"generateName"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	Group        string            `json:"group"`
	Resource     string            `json:"resource"`
}

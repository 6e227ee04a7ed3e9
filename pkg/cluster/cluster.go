// Package cluster is everything the tool asks of an API server: narrow
// interfaces, and their implementation on client-go. No other package builds
// clients.
package cluster

import (
	"context"
	"io"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Interface is one API server, or several behind one address.
type Interface interface {
	CRDs() CRDs
	// Objects returns the objects of a resource as they are read and written
	// through one of its served versions.
	Objects(resource schema.GroupVersionResource) Objects
	Discovery() Discovery
	// Migrations returns the StorageVersionMigrations (storagemigration.k8s.io)
	// of a resource, oldest first, and nothing where the server has no such API.
	Migrations(ctx context.Context, resource schema.GroupResource) ([]Migration, error)
	// SVMs makes, reads and deletes single StorageVersionMigrations.
	SVMs() SVMs
	// MissingRules reviews the caller's own access (SelfSubjectAccessReview) and
	// returns the rules that are denied. It returns ErrNotSupported where the
	// server has no authorization API.
	MissingRules(ctx context.Context, rules []Rule) ([]Rule, error)
	// Identity tells which cluster this is.
	Identity(ctx context.Context) (v1alpha1.ClusterIdentity, error)
	// AdmissionWebhooks returns the admission webhooks that writes of the objects
	// of a resource may pass. It returns ErrNotSupported where the server has no
	// such API.
	AdmissionWebhooks(ctx context.Context, resource schema.GroupVersionResource) ([]AdmissionWebhook, error)
	// Warnings makes one request for a resource at a version and returns the
	// texts of the Warning headers of the answer.
	Warnings(ctx context.Context, resource schema.GroupVersionResource) ([]string, error)
	// NamespaceExists reports whether there is a namespace; ErrNotSupported on a
	// server without core resources.
	NamespaceExists(ctx context.Context, name string) (bool, error)
	// Service returns what there is of a Service; ErrNotSupported on a server
	// without core resources.
	Service(ctx context.Context, namespace, name string) (Service, error)
	// PostToService posts a body to a port of a Service through the API server's
	// proxy, with TLS. An answer of the Service is no error, whatever its status.
	PostToService(ctx context.Context, namespace, name string, port int32, path string, body []byte) (status int, contentType string, answer []byte, err error)
	// Certificates returns what a TLS server presents, the leaf first, in DER.
	Certificates(ctx context.Context, host string, port int) ([][]byte, error)
	// APIServers tells how many API servers there are, as far as they say.
	APIServers(ctx context.Context) (APIServers, error)
	// Metrics has read read the metrics of one API server, over a connection of
	// its own: of the one at an address of APIServers, or of whichever answers if
	// address is empty.
	Metrics(ctx context.Context, address string, read func(io.Reader) error) error
	// Time returns what time it is by the clock of the server.
	Time(ctx context.Context) (time.Time, error)
	// RoundTrip returns how long a request takes that costs the server nothing, over
	// the connection of the other requests.
	RoundTrip(ctx context.Context) (time.Duration, error)
	// Inside reports whether this process runs in a pod, so that the names of
	// Services lead somewhere.
	Inside() bool
}

// CRDs reads and patches CustomResourceDefinitions. What only reads is sent again, a
// few times, when a server that was there gave no answer.
type CRDs interface {
	Get(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error)
	// List calls visit for each CRD, page by page, and keeps none. An expired
	// list is continued. It stops at the first error of visit.
	List(ctx context.Context, options ListOptions, visit func(*apiextensionsv1.CustomResourceDefinition) error) error
	Patch(ctx context.Context, name string, request PatchRequest) (*apiextensionsv1.CustomResourceDefinition, error)
	// DryRunCreate has the server do everything that creating a CRD takes, but
	// store it.
	DryRunCreate(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, fieldManager string) error
}

// ListOptions narrows a list of CRDs.
type ListOptions struct {
	LabelSelector string
	// PageSize is the number of CRDs in a request; 0 means 50.
	PageSize int64
}

// PatchRequest is one patch of an object.
type PatchRequest struct {
	Type types.PatchType
	Body []byte
	// Subresource is empty or "status".
	Subresource string
	// DryRun sends dryRun=All: the server does everything but store.
	DryRun       bool
	FieldManager string
	// FreshConnection asks for a TCP connection of its own, so that a load
	// balancer may choose another server. It costs a TLS handshake.
	FreshConnection bool
}

// Objects reads and patches the objects of a resource at one version. Each
// call is one request, sent once: no retries, no client-side rate limit;
// callers see 429, 503 and lost connections and decide.
type Objects interface {
	// Resource returns the resource and the version that the calls go through.
	Resource() schema.GroupVersionResource
	// ListMetadata returns one page of PartialObjectMetadata (protobuf).
	ListMetadata(ctx context.Context, options PageOptions) (*metav1.PartialObjectMetadataList, error)
	// GetMetadata returns the PartialObjectMetadata of an object (protobuf).
	GetMetadata(ctx context.Context, key types.NamespacedName) (*metav1.PartialObjectMetadata, error)
	// PatchMetadata patches an object and returns only its metadata (protobuf).
	PatchMetadata(ctx context.Context, key types.NamespacedName, request PatchRequest) (*metav1.PartialObjectMetadata, error)
	// List returns one page of whole objects.
	List(ctx context.Context, options PageOptions) (*unstructured.UnstructuredList, error)
	Get(ctx context.Context, key types.NamespacedName) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, key types.NamespacedName, request PatchRequest) (*unstructured.Unstructured, error)
	// Count returns the number of objects with one LIST limit=1
	// (remainingItemCount); exact is false where the server did not say.
	Count(ctx context.Context) (count int64, exact bool, err error)
}

// ObjectID is one object: what has its name later may be another one.
type ObjectID struct {
	types.NamespacedName

	UID types.UID
}

// PageOptions selects one page of a list.
type PageOptions struct {
	// Namespace is empty for all namespaces and for cluster-scoped resources.
	Namespace     string
	LabelSelector string
	Limit         int64
	Continue      string
	// FreshConnection asks for a TCP connection of its own, so that a load
	// balancer may choose another server.
	FreshConnection bool
}

// Discovery is what the server says it serves. A value reads the aggregated
// discovery document and each /apis/GROUP once and remembers them; ask
// [Interface] for another value to see what changed since.
type Discovery interface {
	// GroupVersions returns the versions in /apis/GROUP, in order, and "" as
	// preferred where the group is not there.
	GroupVersions(ctx context.Context, group string) (versions []string, preferred string, err error)
	// AggregatedVersions returns the versions of a resource in the aggregated
	// discovery document, in order; ErrNotSupported on a server without one.
	AggregatedVersions(ctx context.Context, resource schema.GroupResource) ([]string, error)
	// StorageVersionHash returns the hash that /apis/GROUP/VERSION gives for
	// the resource, over a connection of its own: base64 of the first 8 bytes of
	// sha256 of "group/version/Kind" of the storage version. A hint, not proof.
	StorageVersionHash(ctx context.Context, resource schema.GroupVersionResource) (string, error)
	// APIServices returns the APIServices of a group; nothing where there is no aggregator.
	APIServices(ctx context.Context, group string) ([]APIService, error)
	// ListableResources returns every resource that can be listed, at the
	// version that is preferred, and an error that names the groups which could
	// not be read beside those that could.
	ListableResources(ctx context.Context) ([]Resource, error)
}

// Resource is a resource that discovery names.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
}

// APIService is what matters of an APIService.
type APIService struct {
	Name    string
	Version string
	// Automanaged says that the server keeps it in step with the CRD.
	Automanaged bool
	// Service is namespace/name where the version is not served by the CRD.
	Service         string
	VersionPriority int32
}

// MigrationPhase is how far a StorageVersionMigration is.
type MigrationPhase string

// The phases.
const (
	MigrationPending   MigrationPhase = "pending"
	MigrationRunning   MigrationPhase = "running"
	MigrationSucceeded MigrationPhase = "succeeded"
	MigrationFailed    MigrationPhase = "failed"
)

// Migration is what matters of an in-tree StorageVersionMigration.
type Migration struct {
	Name    string
	UID     types.UID
	Phase   MigrationPhase
	Message string
	Created time.Time
	// Active is the condition Running. It stays true after the migration has
	// succeeded or failed, until the controller has trimmed status.storedVersions.
	Active      bool
	Labels      map[string]string
	Annotations map[string]string
}

// Finished tells whether it has succeeded or failed.
func (m Migration) Finished() bool {
	return m.Phase == MigrationSucceeded || m.Phase == MigrationFailed
}

// SVMs makes, reads and deletes StorageVersionMigrations. Each call is one
// request, sent once.
type SVMs interface {
	Create(ctx context.Context, template v1alpha1.SVMTemplate, fieldManager string) (Migration, error)
	// Get reads one at a version of the API, such as "storagemigration.k8s.io/v1".
	Get(ctx context.Context, apiVersion, name string) (Migration, error)
	// Delete deletes one if it still has the UID.
	Delete(ctx context.Context, apiVersion, name string, uid types.UID) error
}

// Rule is one permission.
type Rule struct {
	Verb        string
	Group       string
	Resource    string
	Subresource string
	Name        string
	// Namespace is empty for all namespaces and for cluster-scoped resources.
	Namespace string
}

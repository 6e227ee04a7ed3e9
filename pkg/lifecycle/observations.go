package lifecycle

import (
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Observations is what was seen on the cluster around a CRD. The zero value
// says that nothing was looked at; every field that could not be read says so
// itself: "could not read" is never "there is none" (server fact 14, and every
// tool that took a failed list for an empty one).
type Observations struct {
	// Objects is the number of objects; nil if unknown, then ObjectsError says why.
	Objects      *int64
	ObjectsError string
	// Selected is the number of objects that a narrowed migration is about; nil if
	// unknown, then SelectedError says why, or if it was not counted.
	Selected      *int64
	SelectedError string
	// MissingNamespaces are those that were named and are not there;
	// NamespacesError says why that could not be found out.
	MissingNamespaces []string
	NamespacesError   string
	// LostVersion is a version that objects are persisted at and that spec.versions
	// does not have: they cannot be read until it is added again. Empty if none was
	// met, which proves nothing.
	LostVersion string
	// Stored is what etcd holds; nil if it was not read.
	Stored *Stored
	// LostVersions are all such versions that a whole list named, one or more, and
	// Corrupt the objects that cannot be read for any other reason.
	LostVersions []string
	Corrupt      []UnreadableObject
	// LostConversion is what the conversion webhook said to a made-up object at one
	// of them, where it did not convert it.
	LostConversion string
	// LostObjects is how many objects the list named as stored at LostVersions;
	// the server names a hundred at most, and ends the list there.
	LostObjects int64
	// Discovery is what the server says of the group; nil if it was not asked.
	Discovery *Discovery
	// Migrations are the in-tree StorageVersionMigrations of the resource, oldest first.
	Migrations []Migration
	// MigrationsError says why they could not be read.
	MigrationsError string
	// MigrationVersions are the versions of storagemigration.k8s.io that the
	// server has; none where it has no such API, or was not asked.
	MigrationVersions []string
	// RoundTrip is how long a small request takes; 0 where it was not measured,
	// because it would make no difference.
	RoundTrip time.Duration
	// References are what names a version elsewhere; nil if it was not looked for.
	References *References
	// Rehearsal is nil if there was none. RehearsalError says why one failed.
	Rehearsal      *v1alpha1.Rehearsal
	RehearsalError string
	// Conversion is what became of live objects on the way through the conversion
	// webhook to the new storage version and back; nil if none was sent.
	// ConversionError says what could not be found out, and why.
	Conversion      *v1alpha1.RehearsedConversion
	ConversionError string
	// ConverterProblem is why the conversion webhook will not last: it fails, or its
	// certificate ends before the migration does.
	ConverterProblem string
	// Webhooks are the admission webhooks that writes of the objects pass, as
	// "CONFIGURATION/WEBHOOK (validating, timeout 10s)". WebhooksError says why
	// they could not be listed.
	Webhooks      []string
	WebhooksError string
	// StatusWebhooks are those of them that are called for the status subresource.
	StatusWebhooks []string
	// MissingRules are permissions that the caller lacks, as "patch
	// customresourcedefinitions/status.apiextensions.k8s.io".
	MissingRules []string
	// AccessError says why permissions could not be reviewed.
	AccessError string
	// Denied are the writes of the plan that a server dry run refused.
	Denied []Denial
	// Held says who rewrites the objects of the CRD at this moment, by the annotation
	// HoldAnnotation; empty if nobody does.
	Held string
	// Now is the time of the API server, or of this machine where that is not known.
	Now time.Time
	// BrownoutGone says that the process which began a brownout is known to be gone.
	BrownoutGone bool
	// HoldGone says that the process of the run which holds the CRD is known to be gone.
	HoldGone bool
	// Usage is who uses the version of the intent; nil if it was not looked at.
	Usage *v1alpha1.VersionUsage
	// Terminating says that the CRD is being deleted.
	Terminating bool
	// Converter is the conversion webhook as the cluster has it; nil if it was not
	// looked at, or there is none.
	Converter *Converter
	// Clients are the warnings that the server sends at each deprecated version,
	// as clients see them; ClientsError says why one could not be asked, by version.
	Clients      map[string][]string
	ClientsError map[string]string
}

// UnreadableObject is an object that the server cannot decode.
type UnreadableObject struct {
	// Name is namespace/name.
	Name    string
	Message string
}

// Converter is what was found at the place that spec.conversion.webhook names.
type Converter struct {
	// Error says why the service, its namespace or its endpoints could not be
	// read: then what follows says nothing.
	Error string
	// NamespaceMissing, NamespaceTerminating and ServiceMissing are about
	// clientConfig.service.
	NamespaceMissing     bool
	NamespaceTerminating bool
	ServiceMissing       bool
	// ElsewhereIn are namespaces that have a service of that name.
	ElsewhereIn []string
	// PortMissing says that the service does not have the port; Ports are those it has.
	PortMissing bool
	Ports       []int32
	// Endpoints is the number of ready endpoints of the service; nil if unknown.
	Endpoints *int
	// Certificates are what the webhook presented, DER, the leaf first; none if it
	// could not be reached from here. TLSError is why the caBundle does not accept them.
	Certificates [][]byte
	TLSError     string
	// Failures are the errors of the server's own conversion, by the version that
	// objects were read at.
	Failures map[string]string
}

// Discovery is the server's own order of the versions of one resource.
type Discovery struct {
	// Group is the order in /apis/GROUP, and Preferred its preferred version.
	Group     []string
	Preferred string
	// Aggregated is the order in the aggregated document; nil on a server without one.
	Aggregated []string
	// Error says why discovery could not be read.
	Error string
	// APIServices of the group that are not the server's own.
	APIServices []APIService
	// APIServicesError says why they could not be listed, which takes a right
	// that most readers of CRDs lack.
	APIServicesError string
}

// APIService is one that a person or an aggregated server made for a version.
type APIService struct {
	Name            string
	Version         string
	Service         string
	VersionPriority int32
}

// Migration is an in-tree StorageVersionMigration.
type Migration struct {
	Name    string
	Running bool
	Failed  bool
	Message string
	// Ours says that this tool made it for this CRD and its storage version of now.
	Ours bool
	// Made says that this tool made it for this CRD, whatever its storage version
	// was then.
	Made bool
	// Stored is status.storedVersions as it was before, if this tool made it.
	Stored []string
}

// References are objects that name one version of the CRD.
type References struct {
	Version string
	// Owners are children whose ownerReferences name the version (fact 16).
	Owners []OwnerReferences
	// Unknown are resources that could not be listed, with the reason.
	Unknown []string
	// Unreadable are resources with objects at a version that is gone, which the
	// garbage collector cannot list either. Only a rescue takes them for less than
	// unknown: otherwise several of them could not be rescued one after the other.
	Unreadable []string
}

// OwnerReferences are the children of one resource.
type OwnerReferences struct {
	// Resource is "configmaps" or "deployments.apps".
	Resource string
	Count    int64
	Examples []string
}

// Denial is a write that a server dry run refused.
type Denial struct {
	Step    string
	Message string
}

// Package etcd reads from etcd at which version custom resources are persisted:
// from a snapshot, or from a running etcd. It is the only way to know it
// without rewriting the objects (design, section 5, rule 3, and section 6).
//
// Custom resources are at PREFIX/GROUP/PLURAL/[NAMESPACE/]NAME, and namespaces at
// PREFIX/namespaces/NAME. The values are untrusted and secret: but for apiVersion and
// kind only their syntax is looked at, and nothing of them is kept or returned.
package etcd

import (
	"bytes"
	"context"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// DefaultPrefix is where kube-apiserver keeps its objects unless --etcd-prefix
// says otherwise.
const DefaultPrefix = "/registry"

// Source is an etcd to read.
type Source interface {
	// Scan hands the objects of resources, each as it is at one revision, to a
	// visitor. Their order means nothing.
	Scan(ctx context.Context, resources []schema.GroupResource, visitor Visitor) error
	// Describe says what is read. It knows the revision after a Scan.
	Describe() v1alpha1.EtcdSource
	// Close lets go of the file or the connection.
	Close() error
}

// Visitor takes what a Scan finds.
type Visitor interface {
	// Begin says that the objects of a resource follow, all of the same revision.
	// Another Begin for it takes back everything since the first: the Scan had to
	// start over.
	Begin(resource schema.GroupResource, revision int64)
	// Visit takes one object. Its bytes are valid during the call only.
	Visit(object Object)
}

// Object is one object as it lies in etcd.
type Object struct {
	Resource schema.GroupResource
	// Path is the rest of the key: NAME, or NAMESPACE/NAME.
	Path []byte
	// Value is what is persisted.
	Value []byte
}

// Namespace returns the namespace, "" for a cluster-scoped object.
func (o Object) Namespace() string {
	if namespace, _, found := bytes.Cut(o.Path, []byte("/")); found {
		return string(namespace)
	}
	return ""
}

// Name returns the name.
func (o Object) Name() string { return string(o.Path[bytes.LastIndexByte(o.Path, '/')+1:]) }

// cleanPrefix returns the prefix of keys as kube-apiserver reads --etcd-prefix.
func cleanPrefix(prefix string) string {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return strings.TrimSuffix(path.Join("/", prefix), "/")
}

// resourcePrefix returns what the keys of a resource begin with. Those of the core
// group have none for the group, and no group of a CRD is called like one of its
// resources: it has a dot.
func resourcePrefix(prefix string, resource schema.GroupResource) string {
	if resource.Group == "" {
		return prefix + "/" + resource.Resource + "/"
	}
	return prefix + "/" + resource.Group + "/" + resource.Resource + "/"
}

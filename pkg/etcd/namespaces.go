package etcd

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// HasNamespace reports whether there is a namespace in etcd.
func HasNamespace(ctx context.Context, source Source, name string) (bool, error) {
	finder := &namespaceFinder{name: name}
	if err := source.Scan(ctx, []schema.GroupResource{{Resource: "namespaces"}}, finder); err != nil {
		return false, err
	}
	return finder.found, nil
}

// namespaceFinder looks for one namespace.
type namespaceFinder struct {
	name  string
	found bool
}

func (f *namespaceFinder) Begin(schema.GroupResource, int64) { f.found = false }

func (f *namespaceFinder) Visit(object Object) {
	f.found = f.found || string(object.Path) == f.name
}

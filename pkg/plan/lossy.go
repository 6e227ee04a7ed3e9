package plan

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// lossy looks at the schema of a version that is about to be served. With
// strategy None, every write through it drops what its schema lacks (fact 6),
// and clients may write as soon as it is served: before the objects themselves
// can be rehearsed.
func (b *builder) lossy(version string) {
	if b.after.ConversionStrategy() != apiextensionsv1.NoneConverter {
		return
	}
	fields := b.missingFields(b.after.StorageVersion(), version)
	if len(fields) == 0 {
		return
	}
	message := fmt.Sprintf("the schema of %s lacks %d of the fields of %s: every write through %s drops them for good",
		version, len(fields), b.after.StorageVersion(), version)
	if b.intent.Verb != v1alpha1.VerbPromote {
		b.warn("%s: %s", message, join(fields))
		return
	}
	b.block(v1alpha1.Blocker{
		ID:      blockSchema,
		Message: message,
		Resolve: fmt.Sprintf("add the fields to the schema of %[1]s; or, if no object has them, serve %[1]s first "+
			"(kubectl crdver restore %[1]s %[2]s) and promote it then: the rehearsal looks at the objects", version, b.state.CRD.Name),
		Details: fields,
	})
}

// warnWriters tells what clients lose once a version is the storage version: the
// rehearsal looks at the objects that are there, not at those that will be written.
func (b *builder) warnWriters(storage string) {
	if b.after.ConversionStrategy() != apiextensionsv1.NoneConverter {
		return
	}
	for _, v := range b.state.CRD.Spec.Versions {
		if fields := b.missingFields(v.Name, storage); v.Served && v.Name != storage && len(fields) > 0 {
			b.warn("once %s is the storage version, the server drops %s from what clients write at %s", storage, join(fields), v.Name)
		}
	}
}

// missingFields returns the fields of one version that another one's schema
// lacks; schemas that upstream's code cannot read are the server's to refuse.
func (b *builder) missingFields(from, to string) []string {
	have, err := schema.ForVersion(b.after.CustomResourceDefinition, from)
	if err != nil {
		return nil
	}
	want, err := schema.ForVersion(b.after.CustomResourceDefinition, to)
	if err != nil {
		return nil
	}
	return want.Missing(have)
}

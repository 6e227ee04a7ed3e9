package plan

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// lossy looks at the schema of a version that is about to be served. With
// strategy None, every write through it drops what its schema lacks (fact 6),
// and clients may write as soon as it is served: before the objects themselves
// can be rehearsed. What it only may drop or change, depending on what the objects
// hold, is found by that rehearsal, which comes before the storage version changes.
func (b *builder) lossy(version string) {
	if b.after.ConversionStrategy() != apiextensionsv1.NoneConverter {
		return
	}
	storage := b.after.StorageVersion()
	fields := b.missingFields(storage, version)
	if b.intent.Verb != v1alpha1.VerbPromote {
		if len(fields) > 0 {
			b.warn("%s: %s", lacking(version, storage, fields), join(fields))
		}
		return
	}
	refused, allowed := b.lossyPaths(fields)
	if len(allowed) > 0 {
		b.warn("every write through %s drops %s: --allow-loss or --accept allows it", version, join(allowed))
	}
	if len(refused) > 0 {
		b.block(v1alpha1.Blocker{
			ID:      blockSchema,
			Message: lacking(version, storage, refused),
			Resolve: fmt.Sprintf("add the fields to the schema of %[1]s; or, if no object has them, serve %[1]s first "+
				"(%[2]s) and promote it then: the rehearsal looks at the objects; or pass --allow-loss PATH", version, b.serveFirst(version)),
			Details: refused,
		})
	}
	if maybe := b.maybeLost(storage, version, fields); len(maybe) > 0 {
		b.warn("the schema of %[1]s may drop or change %[2]s of what %[3]s keeps: once %[1]s is served, each object is looked at before %[1]s becomes "+
			"the storage version; what clients write through %[1]s until then is not", version, join(maybe), storage)
	}
}

// serveFirst returns the commands after which a version is served.
func (b *builder) serveFirst(version string) string {
	serve := b.command("restore", version)
	switch {
	case b.state.Version(version) != nil:
		return serve
	case b.intent.Definition != nil:
		return serve + " -f MANIFEST, then " + serve
	default:
		return serve + " --from " + b.intent.From + ", then " + serve
	}
}

func lacking(version, storage string, fields []string) string {
	return fmt.Sprintf("the schema of %s lacks %d of the fields of %s: every write through %s drops them for good", version, len(fields), storage, version)
}

// maybeLost returns what a version may drop or change of another one beside the
// fields that it lacks, and what is allowed to be lost.
func (b *builder) maybeLost(from, to string, lacking []string) []string {
	var maybe []string
	for _, loss := range schema.LostThrough(b.after.CustomResourceDefinition, to) {
		if loss.Version != from {
			continue
		}
		refused, _ := b.lossyPaths(loss.Fields)
		for _, path := range refused {
			if !slices.ContainsFunc(lacking, func(field string) bool { return below(path, field) || below(field, path) }) {
				maybe = append(maybe, path)
			}
		}
	}
	return maybe
}

// lossyPaths splits paths into those that may be lost and the others.
func (b *builder) lossyPaths(paths []string) (refused, allowed []string) {
	r, a := Lossy(b.intent, b.state.CRD.Name, differencesOf(schema.VersionLoss{Fields: paths}))
	for _, d := range r {
		refused = append(refused, d.Path)
	}
	for _, d := range a {
		allowed = append(allowed, d.Path)
	}
	return refused, allowed
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

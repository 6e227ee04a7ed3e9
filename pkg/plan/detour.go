package plan

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// checkDetour refuses a detour for objects that the schema refuses where it leads
// nowhere, or where nobody could see what it loses.
func (b *builder) checkDetour() error {
	version := b.intent.RefusedThrough
	if version == "" {
		return nil
	}
	entry, endpoint := b.state.CRD.Version(version), b.endpoint()
	if b.intent.Verb == v1alpha1.VerbPromote {
		endpoint = b.intent.Version // It may have to be served first.
	}
	switch {
	case b.intent.Verb != v1alpha1.VerbMigrate && b.intent.Verb != v1alpha1.VerbPromote:
		return inputErrorf("--refused-through fits migrate and promote only: %s leaves objects behind that nothing but %s could change", b.intent.Verb, version)
	case entry == nil:
		return b.unknownVersion(version)
	case !entry.Served:
		return inputErrorf("%s is not served: objects cannot be rewritten through it", version)
	case version == endpoint:
		return inputErrorf("objects are rewritten through %s in any case: --refused-through needs another version", version)
	case b.state.CRD.ConversionStrategy() != apiextensionsv1.NoneConverter:
		return inputErrorf("the objects of %s are converted by a webhook: what a rewrite through %s loses cannot be seen beforehand; change the objects that the schema refuses",
			b.state.CRD.Name, version)
	case b.intent.Path != "":
		return inputErrorf("--refused-through does not fit --path %s", b.intent.Path)
	case b.inTree():
		return inputErrorf("the cluster's own controller does not know --refused-through: leave it out, or --engine %s", b.intent.Engine)
	}
	return nil
}

// by says through what objects are rewritten, for people.
func (b *builder) by(endpoint string) string {
	through := b.path(endpoint)
	if b.intent.RefusedThrough != "" {
		through += fmt.Sprintf(", those that its schema refuses through %s", b.intent.RefusedThrough)
	}
	return through
}

// detoured returns how many objects of the rehearsal take the detour.
func (b *builder) detoured() int64 {
	for _, detour := range b.state.Observations.Rehearsal.Detours {
		if detour.Version == b.intent.RefusedThrough {
			return detour.Objects
		}
	}
	return 0
}

// detourWarning says what the detour leaves behind.
func (b *builder) detourWarning() {
	n := b.detoured()
	if n == 0 {
		return
	}
	storage, through := b.after.StorageVersion(), b.intent.RefusedThrough
	b.warn("the schema of %[1]s refuses %[2]s, which %[3]s takes without a loss: they are stored at %[1]s as they are. "+
		"Nothing can change them through %[1]s, not even to remove a finalizer, until they fit its schema: see to that while %[3]s is served",
		storage, english.Plural(n, "object"), through)
}

// offerDetour returns the command that rewrites all refused objects through
// another version, after what else may be done; or only that.
func (b *builder) offerDetour(resolve string) string {
	r := b.state.Observations.Rehearsal
	for _, detour := range r.Detours {
		if detour.Objects != r.RefusedCount || b.intent.RefusedThrough != "" {
			continue
		}
		command := b.migrateCommand()
		if b.intent.Verb == v1alpha1.VerbPromote {
			command = b.command("promote", b.intent.Version)
		}
		return fmt.Sprintf("%s; or, as %s takes them as they are and loses nothing: %s --refused-through %s", resolve, detour.Version, command, detour.Version)
	}
	return resolve
}

package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/crdver/kubectl-crdver/pkg/compat"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// maxDifferences is how many differences of a schema are told one by one.
const maxDifferences = 10

// schemas looks at the schemas that objects have to pass: with the live objects,
// where they were looked at, and otherwise at the schemas alone.
func (c *comparison) schemas() {
	if c.Objects != nil {
		c.objects()
	}
	for _, version := range c.oldCRD().VersionNames() {
		next := c.newVersions[version]
		if next == nil || !next.Served && !next.Storage || sameSchema(c.oldVersions[version], next) && c.oldCRD().Spec.PreserveUnknownFields == c.newCRD().Spec.PreserveUnknownFields {
			continue
		}
		old, changed := c.Old.Schema(version), c.New.Schema(version)
		if old == nil || changed == nil {
			continue
		}
		var texts []string
		for _, path := range changed.Missing(old) {
			texts = append(texts, path+" is gone: it is pruned from objects")
		}
		for _, difference := range compat.Narrowed(old, changed) {
			texts = append(texts, describe(difference))
		}
		if more := len(texts) - maxDifferences; more > 0 {
			texts = append(texts[:maxDifferences], fmt.Sprintf("and %d more", more))
		}
		if len(texts) == 0 {
			continue
		}
		c.add(ruleSchemaNarrowed, validate.Problem{
			Version: version, Path: c.New.VersionPath(version, "schema"),
			Message: fmt.Sprintf("the schema of %s takes less than before: %s%s", version, strings.Join(texts, "; "), c.evidenceNote()),
		})
	}
}

// describe says what a schema asks for that it did not before.
func describe(d compat.Difference) string {
	at := d.Path
	if at == "" {
		at = "the object"
	}
	switch {
	case d.Kind == compat.KindRequired:
		return at + " is required"
	case d.From == "":
		return fmt.Sprintf("%s: new %s %s", at, d.Kind, d.To)
	case d.To == "":
		return fmt.Sprintf("%s: no %s %s any more", at, d.Kind, d.From)
	default:
		return fmt.Sprintf("%s: %s %s instead of %s", at, d.Kind, d.To, d.From)
	}
}

// evidenceNote says what live objects say about a narrower schema.
func (c *comparison) evidenceNote() string {
	switch {
	case c.Objects == nil || c.Objects.Error != "":
		return ""
	case c.Objects.Complete && c.Objects.InvalidObjects == 0 && c.Objects.PrunedObjects == 0:
		return fmt.Sprintf("; no live object is affected (%d looked at)", c.Objects.Checked)
	case c.Objects.InvalidObjects == 0 && c.Objects.PrunedObjects == 0:
		return fmt.Sprintf("; no live object of those looked at is affected (%d)", c.Objects.Checked)
	default:
		return ""
	}
}

func sameSchema(old, next *apiextensionsv1.CustomResourceDefinitionVersion) bool {
	return old != nil && next != nil && apiequality.Semantic.DeepEqual(old.Schema, next.Schema)
}

// objects reports what the live objects say.
func (c *comparison) objects() {
	e := c.Objects
	if e.Error != "" {
		c.add(ruleObjectsUnknown, validate.Problem{
			Message: e.unread() + ": " + e.Error,
		})
	}
	for _, version := range slices.Sorted(maps.Keys(e.Invalid)) {
		message := fmt.Sprintf("not valid under the new schema of %s: %s: %s", version, e.share(e.InvalidAt[version]), strings.Join(worst(e.Invalid[version]), "; "))
		if e.CriticalObjects > 0 {
			message += fmt.Sprintf("; not even an unchanged write is taken any more of %s", english.Plural(e.CriticalObjects, "object"))
		}
		c.add(ruleObjectsInvalid, validate.Problem{Version: version, Path: c.New.VersionPath(version, "schema"), Message: message})
	}
	for _, version := range slices.Sorted(maps.Keys(e.Pruned)) {
		c.add(ruleObjectsLoseFields, validate.Problem{
			Version: version, Path: c.New.VersionPath(version, "schema"),
			Message: fmt.Sprintf("fields are lost at %s: in %s: %s", version, e.share(e.PrunedAt[version]), strings.Join(worst(e.Pruned[version]), "; ")),
		})
	}
}

// share says how many of the objects that were looked at: "2 of 3 objects".
func (e *Evidence) share(n int64) string {
	text := fmt.Sprintf("%d of %s", n, english.Plural(e.Checked, "object"))
	if !e.Complete && e.Total != nil {
		text += fmt.Sprintf(" (of %d in all)", *e.Total)
	}
	return text
}

// unread says that reading the objects failed.
func (e *Evidence) unread() string {
	if e.Checked == 0 {
		return "the objects could not be read"
	}
	return fmt.Sprintf("after %s, the others could not be read", english.Plural(e.Checked, "object"))
}

package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// bridge is for a manifest whose storage version the cluster does not have and
// that lacks the cluster's: there is no version to promote yet, and a manifest
// with both has to come first (cases 3 and 7). It adds the steps, and says why.
func (c *comparison) bridge(problem *validate.Problem, gone []string, storage, target string) {
	common := slices.ContainsFunc(c.oldCRD().VersionNames(), func(name string) bool { return c.newVersions[name] != nil })
	if bogus := c.oldState().BogusStored(); len(bogus) > 0 {
		c.step(c.command("migrate", ""))
		gone = slices.DeleteFunc(slices.Clone(gone), func(version string) bool { return slices.Contains(bogus, version) })
	}
	names := strings.Join(gone, ", ")
	c.step(fmt.Sprintf("apply a manifest that has %s as well as %s, the new storage version: the release in between, or this one with %s added "+
		"(served: false, storage: false, the rest as it is now)", names, target, names))
	for _, version := range gone {
		c.step(c.command("retire", version))
	}
	if !common {
		problem.Message += fmt.Sprintf("; the two have no version in common (%s; %s)",
			strings.Join(c.oldCRD().VersionNames(), ", "), strings.Join(c.newCRD().VersionNames(), ", "))
	}
	problem.Message += fmt.Sprintf("; %s is not there yet, so an intermediate manifest has to come first", target)
	problem.Fix = fmt.Sprintf("Follow the steps: objects are rewritten from %s to %s while the CRD has both, and a rewrite without a webhook only relabels them. "+
		"Run preflight on the intermediate manifest, too. ", storage, target)
	if count := c.oldState().Observations.Objects; count != nil && *count == 0 {
		problem.Fix += "There is no object now: deleting the CRD and creating it again is the other way."
	} else {
		problem.Fix += "Deleting the CRD deletes its objects; it is a way only where a complete list at every served version shows none."
	}
}

// unreadable is about objects that are stored at a version which the live CRD does
// not have: a manifest can bring it back (case 21).
func (c *comparison) unreadable() {
	lost := c.oldState().Observations.LostVersion
	switch {
	case !c.live() || lost == "":
	case c.newVersions[lost] != nil:
		c.afterwards(c.command("migrate", ""))
	default:
		c.add(ruleObjectsUnknown, validate.Problem{
			Version: lost, Path: "spec.versions", Message: lifecycle.Lost(c.oldCRD(), lost) + "; the manifest does not have it either",
			Fix: fmt.Sprintf("Add %s to the manifest with served: false and storage: false, then run %s; or run %s now. Do not delete the objects.",
				lost, c.command("migrate", ""), c.command("rescue", "")),
		})
	}
}

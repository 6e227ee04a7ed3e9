package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apiversion"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// refusals validates the update with the API server's own code.
func (c *comparison) refusals() {
	var err error
	if c.oldInternal, err = validate.Internal(c.oldCRD()); err == nil {
		c.newInternal, err = validate.Internal(c.newCRD())
	}
	if err != nil {
		c.blocked = true
		c.add(ruleUpdateRefused, validate.Problem{Message: err.Error()}, refused)
		return
	}
	if !c.live() {
		installed(c.oldInternal)
	}
	validate.PrepareForUpdate(c.newInternal, c.oldInternal)
	// Whoever applies the manifest sends those of the CRD that is there.
	c.oldInternal.ResourceVersion = cmp.Or(c.oldInternal.ResourceVersion, "1")
	keepServers(&c.newInternal.ObjectMeta, c.oldInternal.ObjectMeta)
	removed := false
	for _, refusal := range validate.NewRefusals(c.newCRD(), validation.ValidateCustomResourceDefinitionUpdate(c.New.Context(), c.newInternal, c.oldInternal)) {
		if strings.HasPrefix(refusal.Path, "status.storedVersions[") {
			removed = true
			continue
		}
		c.blocked = true
		c.add(ruleUpdateRefused, validate.Problem{
			Version: c.New.VersionAt(refusal.Path), Path: refusal.Path, Message: refusal.Message(), Fix: c.fixOf(refusal),
		}, refused)
	}
	if removed {
		c.storedRemoved()
	}
}

// keepServers gives an update the metadata that are the server's own
// (BeforeUpdate in apiserver's registry/rest).
func keepServers(to *metav1.ObjectMeta, from metav1.ObjectMeta) {
	to.UID, to.ResourceVersion, to.Generation = from.UID, from.ResourceVersion, from.Generation
	to.CreationTimestamp, to.DeletionTimestamp = from.CreationTimestamp, from.DeletionTimestamp
	to.DeletionGracePeriodSeconds = from.DeletionGracePeriodSeconds
	to.SelfLink, to.GenerateName = from.SelfLink, from.GenerateName
}

// installed gives a CRD of a manifest the status of one that a server serves: its
// names are then immutable. More than that about its stored versions is not
// known, and never taken from a file (case 19).
func installed(internal *apiextensions.CustomResourceDefinition) {
	validate.PrepareForCreate(internal)
	internal.Status.AcceptedNames = internal.Spec.Names
	internal.Status.Conditions = []apiextensions.CustomResourceDefinitionCondition{
		{Type: apiextensions.Established, Status: apiextensions.ConditionTrue},
		{Type: apiextensions.NamesAccepted, Status: apiextensions.ConditionTrue},
	}
}

// fixOf returns how to get past a refusal, where more can be said than the rule
// does.
func (c *comparison) fixOf(refusal validate.Refusal) string {
	switch refusal.Path {
	case "spec.scope", "spec.names.kind", "spec.names.plural", "spec.group":
		return "The field cannot change while the CRD exists: name the new CRD differently, or keep the field as it is."
	}
	if rule, ok := validate.Claimed(refusal); ok {
		return rule.Fix
	}
	return ""
}

// storedRemoved explains the commonest refusal, and what clears the way.
func (c *comparison) storedRemoved() {
	old, next := c.oldCRD(), c.newCRD()
	var gone []string
	for _, version := range c.oldInternal.Status.StoredVersions {
		if next.Version(version) == nil && !slices.Contains(gone, version) {
			gone = append(gone, version)
		}
	}
	c.gone = gone
	storage := old.StorageVersion()
	target := next.StorageVersion()
	lacking := missingFrom(old, next)
	if next.Version(storage) == nil && len(lacking) == 0 && c.live() && newerThanAll(storage, next) {
		// Everything that the manifest has, the cluster has, and more (case 13).
		c.blocked = true
		c.add(ruleOlderThanCluster, validate.Problem{
			Version: storage, Path: "spec.versions",
			Message: fmt.Sprintf("the cluster is newer than this manifest: it stores %s at %s, which the manifest does not have%s",
				next.Name, storage, c.writers()),
		}, refused)
		return
	}
	// Every stored version that leaves has to be migrated away from first.
	bogus := c.oldState().BogusStored()
	message := fmt.Sprintf("the API server refuses it: %s in status.storedVersions, and the manifest does not have %s",
		isAre(gone), itThem(gone))
	if !c.live() {
		message = fmt.Sprintf("the API server refuses it: objects are stored at %s, and the manifest does not have %s",
			strings.Join(gone, ", "), itThem(gone))
	}
	problem := validate.Problem{Version: gone[0], Path: "spec.versions", Message: message}
	switch {
	case !c.live():
		problem.Fix = "On each cluster, " + c.way(gone, storage, target, bogus) + " before applying the manifest."
	case next.Version(storage) == nil && old.Version(target) == nil:
		c.bridge(&problem, gone, storage, target)
		return
	default:
		problem.Fix = "Before applying the manifest, " + c.way(gone, storage, target, bogus) + "."
	}
	c.refusedWithSteps = true
	c.addSteps(gone, storage, target, bogus)
	c.add(ruleStoredRemoved, problem, refused)
}

// newerThanAll reports whether a version is newer than those that a CRD has. For
// names that do not conform the priority says nothing: dated names go up.
func newerThanAll(version string, c crd.CRD) bool {
	for _, name := range c.VersionNames() {
		if apiversion.Parse(version).Stability == apiversion.NonConforming {
			if strings.Compare(version, name) < 0 {
				return false
			}
			continue
		}
		if apiversion.Compare(version, name) < 0 {
			return false
		}
	}
	return true
}

// addSteps adds the commands that take stored versions out.
func (c *comparison) addSteps(gone []string, storage, target string, bogus []string) {
	for _, command := range c.commands(gone, storage, target, bogus) {
		c.step(command)
	}
}

// commands returns the commands that take stored versions out of a live CRD, in
// order.
func (c *comparison) commands(gone []string, storage, target string, bogus []string) []string {
	var commands []string
	if len(bogus) > 0 {
		// While it is there, the server refuses every change of the spec (fact 13).
		commands = append(commands, c.command("migrate", ""))
	}
	if slices.Contains(gone, storage) {
		commands = append(commands, c.command("promote", target))
	}
	for _, version := range gone {
		if !slices.Contains(bogus, version) {
			commands = append(commands, c.command("retire", version))
		}
	}
	return commands
}

func (c *comparison) way(gone []string, storage, target string, bogus []string) string {
	return "run " + strings.Join(c.commands(gone, storage, target, bogus), ", then ")
}

// bridge is for a manifest whose storage version the cluster does not have and
// that lacks the cluster's: there is no version to promote yet (cases 3 and 7).
func (c *comparison) bridge(problem *validate.Problem, gone []string, storage, target string) {
	old, next := c.oldCRD(), c.newCRD()
	common := false
	for _, version := range old.Spec.Versions {
		common = common || next.Version(version.Name) != nil
	}
	c.step(fmt.Sprintf("apply a manifest that has %s as well as %s: this one with %s added as they are now, served: false and storage: false",
		strings.Join(gone, ", "), strings.Join(next.VersionNames(), ", "), strings.Join(gone, ", ")))
	for _, version := range gone {
		c.step(c.command("retire", version))
	}
	c.refusedWithSteps = true
	if !common {
		problem.Message += fmt.Sprintf("; the two have no version in common (%s; %s)",
			strings.Join(old.VersionNames(), ", "), strings.Join(next.VersionNames(), ", "))
	}
	problem.Message += fmt.Sprintf("; %s is not on the cluster yet, so an intermediate manifest has to come first", target)
	problem.Fix = fmt.Sprintf("First apply a manifest that has both %s and %s: usually the release in between. Then migrate the objects from %s "+
		"with the retire commands, then apply this one. Only if a complete list at every served version is empty, deleting the CRD and creating it "+
		"again is the other way.", storage, target, storage)
	c.add(ruleStoredRemoved, *problem, refused)
}

// missingFrom returns the versions of one CRD that another lacks.
func missingFrom(lacking, having crd.CRD) []string {
	var missing []string
	for _, name := range having.VersionNames() {
		if lacking.Version(name) == nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// writers says who wrote spec.versions of the live CRD.
func (c *comparison) writers() string {
	var who []string
	for _, manager := range c.oldState().Managers {
		who = append(who, manager.Name+" ("+manager.Evidence+")")
	}
	if len(who) == 0 {
		return ""
	}
	return "; it was written by " + strings.Join(who, ", ")
}

func isAre(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, ", ") + " are"
}

func itThem(names []string) string {
	if len(names) == 1 {
		return "it"
	}
	return "them"
}

// admission reports what the server's own dry run said, beyond validation.
func (c *comparison) admission() {
	if c.Admission == nil || c.Admission.Denied == "" || c.blocked || c.refusedWithSteps {
		return
	}
	c.blocked = true
	if c.Admission.Validation {
		c.add(ruleUpdateRefused, validate.Problem{Message: "the API server refuses it: " + c.Admission.Denied}, refused)
		return
	}
	by := ""
	if c.Admission.By != "" {
		by = c.Admission.By + ": "
	}
	c.add(ruleAdmissionDenied, validate.Problem{Message: by + c.Admission.Denied}, refused)
}

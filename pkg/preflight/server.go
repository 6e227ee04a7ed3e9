package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
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
	type said struct{ path, message string }
	known := map[said]bool{}
	for _, refusal := range validate.NewRefusals(c.newCRD(), validation.ValidateCustomResourceDefinitionUpdate(c.New.Context(), c.newInternal, c.oldInternal)) {
		if strings.HasPrefix(refusal.Path, "status.storedVersions[") {
			removed = true
			continue
		}
		c.blocked = true
		// Upstream reports one mistake at several fields.
		problem := c.explained(refusal)
		if one := (said{problem.Path, problem.Message}); !known[one] {
			known[one] = true
			c.add(ruleUpdateRefused, problem, refused)
		}
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
	to.GenerateName = from.GenerateName
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

// explained returns a refusal as a problem, in the words of the rule of validate
// that claims it.
func (c *comparison) explained(refusal validate.Refusal) validate.Problem {
	problem := validate.Problem{}
	if rule, ok := validate.Claimed(refusal); ok {
		if rule.Explain != nil {
			problem = rule.Explain(c.New, refusal)
		}
		problem.Fix = cmp.Or(problem.Fix, rule.Fix)
	}
	switch refusal.Path {
	case "spec.scope", "spec.names.kind", "spec.names.plural", "spec.group":
		problem.Fix = "The field cannot change while the CRD exists: name the new CRD differently, or keep the field as it is."
	case "metadata.ownerReferences":
		problem.Fix = "Only one owner can have controller: true: let the present one give it up first, or leave ownerReferences as they are."
	}
	return validate.Problem{
		Version: cmp.Or(problem.Version, c.New.VersionAt(refusal.Path)), Path: cmp.Or(problem.Path, refusal.Path),
		Message: cmp.Or(problem.Message, refusal.Message()), Fix: problem.Fix, Severity: v1alpha1.SeverityError,
	}
}

// storedRemoved explains the commonest refusal, and what clears the way.
func (c *comparison) storedRemoved() {
	old, next := c.oldCRD(), c.newCRD()
	var gone []string
	for _, version := range c.oldInternal.Status.StoredVersions {
		if c.newVersions[version] == nil && !c.gone[version] {
			c.gone[version] = true
			gone = append(gone, version)
		}
	}
	storage := old.StorageVersion()
	target := next.StorageVersion()
	lacking := missingFrom(c.oldVersions, next)
	if c.newVersions[storage] == nil && len(lacking) == 0 && c.live() && newerThanAll(storage, next) {
		// Everything that the manifest has, the cluster has, and more (case 13).
		c.blocked, c.older = true, true
		problem := validate.Problem{
			Version: storage, Path: "spec.versions",
			Message: fmt.Sprintf("the cluster is newer than this manifest: it stores %s at %s, which the manifest does not have%s",
				next.Name, storage, c.writers()),
		}
		if target != "" {
			// A release may also have been a mistake (case 11).
			problem.Fix = fmt.Sprintf("Find who applies the older manifest, and leave status.storedVersions as it is. Only if %s is withdrawn for good: "+
				"run %s, which first rehearses the conversion down to it, then %s.", storage, c.command("promote", target), c.command("retire", storage))
		}
		c.add(ruleOlderThanCluster, problem, refused)
		return
	}
	// Every stored version that leaves has to be migrated away from first.
	bogus := c.oldState().BogusStored()
	message := fmt.Sprintf("the API server refuses it: %s in status.storedVersions, and the manifest does not have %s",
		isAre(gone), itThem(gone))
	if !c.live() {
		message = fmt.Sprintf("the API server refuses it where objects are stored at %s: the manifest does not have %s",
			strings.Join(gone, ", "), itThem(gone))
	}
	if len(bogus) > 0 {
		message += fmt.Sprintf("; nor has the cluster's spec.versions %s, so every update is refused", strings.Join(bogus, ", "))
	}
	problem := validate.Problem{Version: gone[0], Path: "spec.versions", Message: message}
	switch {
	case target == "":
		// The lack of a storage version is refused, too.
		problem.Fix = "Say in the manifest which version is the storage version, and run preflight again."
		c.add(ruleStoredRemoved, problem, refused)
		return
	case c.newVersions[storage] == nil && c.oldVersions[target] == nil:
		c.bridge(&problem, gone, storage, target)
		c.refusedWithSteps = true
		c.add(ruleStoredRemoved, problem, refused)
		return
	case !c.live():
		problem.Fix = "On each cluster, " + c.way(gone, storage, target, bogus) + " before applying the manifest."
	default:
		problem.Fix = "Before applying the manifest, " + c.way(gone, storage, target, bogus) + "."
		if c.leavesSpec(gone, storage) {
			problem.Fix += fmt.Sprintf(" That leaves the spec to %s, which owns the CRD and does not trim status.storedVersions.", c.oldState().Reverter().Name)
		}
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
		// The alpha of the next major version is newer than a beta.
		if apiversion.Compare(version, name) < 0 || apiversion.Parse(name).Major > apiversion.Parse(version).Major {
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
	if c.leavesSpec(gone, storage) {
		return []string{c.command("migrate", "")}
	}
	var commands []string
	if len(bogus) > 0 {
		// While it is there, the server refuses every change of the spec (fact 13).
		commands = append(commands, c.command("migrate", ""))
	}
	if slices.Contains(gone, storage) {
		if v := c.oldVersions[target]; v != nil && !v.Served {
			// Only a served version can be promoted.
			commands = append(commands, c.command("restore", target))
		}
		commands = append(commands, c.command("promote", target))
	}
	for _, version := range gone {
		if !slices.Contains(bogus, version) {
			commands = append(commands, c.command("retire", version))
		}
	}
	return commands
}

// leavesSpec reports whether migrating is all that there is to do first: the owner
// of the CRD would put back what else is changed of it, and takes the versions out
// itself (case 9). managedFields that name them still have to be moved.
func (c *comparison) leavesSpec(gone []string, storage string) bool {
	return c.live() && c.oldState().Reverter() != nil && !slices.Contains(gone, storage) &&
		!slices.ContainsFunc(gone, func(version string) bool { return c.Users[version].Objects > 0 })
}

func (c *comparison) way(gone []string, storage, target string, bogus []string) string {
	return "run " + strings.Join(c.commands(gone, storage, target, bogus), ", then ")
}

// missingFrom returns the versions of a CRD that another lacks.
func missingFrom(lacking map[string]*apiextensionsv1.CustomResourceDefinitionVersion, having crd.CRD) []string {
	var missing []string
	for _, name := range having.VersionNames() {
		if lacking[name] == nil {
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

// outcome returns in one word what a dry run said.
func (a *Admission) outcome() string {
	switch {
	case a == nil:
		return ""
	case a.Denied != "":
		return "denied"
	case a.Unknown != "":
		return "unknown: " + a.Unknown
	default:
		return "taken"
	}
}

// admission reports what the server's own dry run said, beyond validation.
func (c *comparison) admission() {
	switch {
	case c.Admission == nil, c.Admission.Denied == "":
		return
	case c.Admission.Validation && (c.blocked || c.refusedWithSteps):
		return
	}
	c.blocked = true
	if c.Admission.Validation {
		c.add(ruleUpdateRefused, validate.Problem{Message: "the API server refuses it: " + c.Admission.Denied}, refused)
		return
	}
	by := ""
	if !strings.Contains(c.Admission.Denied, c.Admission.By) {
		by = c.Admission.By + ": "
	}
	c.add(ruleAdmissionDenied, validate.Problem{Message: by + c.Admission.Denied}, refused)
}

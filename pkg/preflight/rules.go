package preflight

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// The rules that findings of preflight refer to.
const (
	ruleUpdateRefused       = "update-refused"
	ruleStoredRemoved       = "stored-version-removed"
	ruleOlderThanCluster    = "manifest-older-than-cluster"
	ruleAdmissionDenied     = "admission-denied"
	ruleServedRemoved       = "served-version-removed"
	ruleServedUnserved      = "served-version-unserved"
	ruleManagedFieldsName   = "managed-fields-name-version"
	ruleStorageChanged      = "storage-version-changed"
	ruleStorageChangedBack  = "storage-version-changed-back"
	ruleDefaultChanged      = "default-version-changed"
	ruleDeprecationChanged  = "deprecation-changed"
	ruleConversionChanged   = "conversion-changed"
	ruleConversionUnset     = "conversion-unset-by-apply"
	ruleCABundleDropped     = "ca-bundle-dropped"
	ruleSchemaNarrowed      = "schema-narrowed"
	ruleObjectsInvalid      = "objects-invalid"
	ruleObjectsLoseFields   = "objects-lose-fields"
	ruleObjectsUnknown      = "objects-unknown"
	ruleMigrationUnfinished = "migration-unfinished"
	ruleOwner               = "crd-has-owner"
)

// Rules returns the rules of preflight. They have no Check: they compare two
// CRDs, which [Compare] does.
func Rules() []validate.Rule {
	rules := []validate.Rule{
		{
			ID: ruleUpdateRefused, Severity: v1alpha1.SeverityError,
			Summary: "the API server refuses the update",
			Why: "The server validates the manifest against the CRD that is there. One error refuses the whole manifest, " +
				"and with Helm and GitOps tools everything that comes after it.",
			Fix: "Change the field that the path names, or what the message says of the live CRD.",
		},
		{
			ID: ruleStoredRemoved, Severity: v1alpha1.SeverityError,
			Summary: "the manifest removes a version that objects may be stored at",
			Why: "The server refuses to remove a version that is in status.storedVersions: objects that are persisted at it could not be " +
				"read any more. Taking the entry out by hand does not change the objects; they become unreadable, and so they do where " +
				"the list claims less than the truth, and the server lets the version go.",
			Fix: "Run the commands of the finding before applying the manifest: they rewrite the objects, prove it, and take the version out.",
		},
		{
			ID: ruleOlderThanCluster, Severity: v1alpha1.SeverityError,
			Summary: "the cluster has a newer CRD than the manifest",
			Why: "The manifest lacks the version that objects are stored at now, and has none that the cluster lacks. An older release, " +
				"or a second installation with one, is about to put its own CRD back.",
			Fix: "Find who applies the older manifest. Leave status.storedVersions as it is.",
		},
		{
			ID: ruleAdmissionDenied, Severity: v1alpha1.SeverityError,
			Summary: "an admission policy or webhook denies the update",
			Why:     "Validation and RBAC let the update pass, and a policy of the cluster does not. Bundles install such policies to guard their CRDs.",
			Fix:     "Apply what the policy allows, or have its owner change it. This tool never touches admission configuration.",
		},
		{
			ID: ruleServedRemoved, Severity: v1alpha1.SeverityWarning,
			Summary: "the manifest removes a version that is served",
			Why: "Clients that ask for the version get 404 at once: manifests in Git, controllers, SDKs. managedFields that name it break " +
				"server-side apply for every manager of the object.",
			Fix: "Deprecate it, wait until nobody uses it, and retire it: that also moves the managedFields.",
		},
		{
			ID: ruleServedUnserved, Severity: v1alpha1.SeverityWarning,
			Summary: "the manifest stops serving a version",
			Why: "Clients that ask for the version get 404. The garbage collector may delete children of a live owner whose ownerReferences " +
				"name the version.",
			Fix: "Deprecate it, wait until nobody uses it, and let kubectl crdver retire unserve it: that looks for ownerReferences.",
		},
		{
			ID: ruleManagedFieldsName, Severity: v1alpha1.SeverityError,
			Summary: "the manifest removes a version that managedFields of live objects name",
			Why: "Each entry of managedFields names the version that its manager last wrote at, also long after that was unserved. Once the version is gone, every " +
				"server-side apply to such an object fails, for every manager: request to convert CR to an invalid group/version.",
			Fix: "Retire the version before applying the manifest: that moves the managedFields to another version.",
		},
		{
			ID: ruleStorageChanged, Severity: v1alpha1.SeverityInfo,
			Summary: "the manifest changes the storage version",
			Why: "Objects that are there stay persisted at the old version until something writes them, and the old version stays in " +
				"status.storedVersions until they were all rewritten.",
			Fix: "Migrate the objects after applying the manifest.",
		},
		{
			ID: ruleStorageChangedBack, Severity: v1alpha1.SeverityWarning,
			Summary: "the manifest sets the storage version back to a lower one",
			Why: "Objects that were written at the higher version are converted down on their next write, and lose what the lower version " +
				"cannot hold. Usually an older release is being applied by mistake.",
			Fix: "Make sure that it is meant. Then migrate, so that the higher version can be taken out.",
		},
		{
			ID: ruleDefaultChanged, Severity: v1alpha1.SeverityInfo,
			Summary: "the version that kubectl uses changes",
			Why:     "Scripts that name no version read another one from now on, with other fields.",
			Fix:     "Name the version in scripts: kubectl get PLURAL.VERSION.GROUP.",
		},
		{
			ID: ruleDeprecationChanged, Severity: v1alpha1.SeverityInfo,
			Summary: "the manifest deprecates a version, or takes a deprecation back",
			Why:     "Each request at a deprecated version is answered with a warning, and counted in apiserver_requested_deprecated_apis.",
			Fix:     "Nothing has to be done. Clients that treat warnings as errors fail.",
		},
		{
			ID: ruleConversionChanged, Severity: v1alpha1.SeverityWarning,
			Summary: "the manifest changes how objects are converted",
			Why: "With a new webhook nothing can be read before it answers: neither by clients nor by the garbage collector. Without the webhook, " +
				"objects that are persisted at another version are relabelled instead of converted.",
			Fix: "Roll the webhook out first. Before taking one away, migrate all objects to the storage version.",
		},
		{
			ID: ruleConversionUnset, Severity: v1alpha1.SeverityError,
			Summary: "the manifest has no spec.conversion, which turns the webhook off",
			Why: "The server defaults an absent spec.conversion to the strategy None, without a word. Objects that are persisted at another version " +
				"are then only relabelled, and the next write loses what the other schema does not know.",
			Fix: "Put spec.conversion into the manifest, or have the tool that injects it do so before.",
		},
		{
			ID: ruleCABundleDropped, Severity: v1alpha1.SeverityWarning,
			Summary: "the manifest drops the caBundle of the conversion webhook",
			Why: "Whoever replaces the CRD by this manifest takes the certificate away, and conversion fails until an injector puts it back: " +
				"nothing can be read meanwhile.",
			Fix: "Have the GitOps tool ignore spec.conversion.webhook.clientConfig.caBundle, or apply with server-side apply.",
		},
		{
			ID: ruleSchemaNarrowed, Severity: v1alpha1.SeverityWarning,
			Summary: "the schema of a version takes less than before",
			Why: "Objects that were valid may be refused when they are created again, from Git or a backup; an update that leaves the field as it is " +
				"is let through.",
			Fix: "Widen the schema again, or add a version for the stricter one.",
		},
		{
			ID: ruleObjectsInvalid, Severity: v1alpha1.SeverityError,
			Summary: "live objects are not valid under the new schema",
			Why: "They stay readable, but creating them again is refused, and so is an update where the fault is at the root of the object or in " +
				"the key of a list item: their controllers get stuck, and so does a migration.",
			Fix: "Correct the objects at the paths before applying the manifest, or keep the schema wide enough for them.",
		},
		{
			ID: ruleObjectsLoseFields, Severity: v1alpha1.SeverityError,
			Summary: "live objects lose fields under the new schema",
			Why: "The server prunes what the schema does not know whenever it reads or writes an object. The first write makes the loss permanent, " +
				"and metadata.generation does not change.",
			Fix: "Keep the fields in the schema, or move their values elsewhere first.",
		},
		{
			ID: ruleObjectsUnknown, Severity: v1alpha1.SeverityWarning,
			Summary: "live objects could not be looked at",
			Why:     "What could not be read may be invalid, or lose fields. It is not the same as having no objects.",
			Fix:     "Run again with an account that may list the objects, or once the server can read them.",
		},
		{
			ID: ruleMigrationUnfinished, Severity: v1alpha1.SeverityWarning,
			Summary: "objects may still be stored at another version than the storage version",
			Why:     "The next release usually removes it, and is then refused. Between two upgrades is the time to migrate.",
			Fix:     "Migrate before applying the manifest.",
		},
		{
			ID: ruleOwner, Severity: v1alpha1.SeverityInfo,
			Summary: "somebody else owns the CRD",
			Why:     "A package manager or a controller puts its own manifest back, or is the one that should apply this one.",
			Fix:     "Change the CRD where its owner keeps it.",
		},
	}
	for i := range rules {
		rules[i].Command = "preflight"
	}
	return rules
}

package validate

// versionRules are the rules about the names of versions and the manifest as a whole.
func versionRules() []Rule {
	return []Rule{
		versionNameInvalid(),
		versionNamesNotUnique(),
		versionNameNonconforming(),
		versionNameLookalike(),
		versionPriorityTie(),
		versionCouldBeRemoved(),
		versionCouldBeUnserved(),
		removedCRDAPI(),
		statusInManifest(),
		preserveUnknownFields(),
		apiApproval(),
		crdName(),
	}
}

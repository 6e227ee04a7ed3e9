package validate

// deprecationRules are the rules about deprecated versions and what clients are told.
func deprecationRules() []Rule {
	return []Rule{
		deprecationWarningInvalid(),
		deprecatedWithoutMessage(),
		deprecationMessageIncomplete(),
		deprecationMessageNamesUnusableVersion(),
		allServedVersionsDeprecated(),
		defaultVersionDeprecated(),
		deprecationSeenByClients(),
	}
}

package validate

import "slices"

// Rules returns all rules. Those that claim refusals come before
// "server-validation", which takes what is left.
func Rules() []Rule {
	return slices.Concat(
		storageRules(),
		deprecationRules(),
		versionRules(),
		conversionRules(),
		schemaRules(),
		clusterRules(),
		[]Rule{serverValidation()},
	)
}

// Find returns the rule with an id.
func Find(rules []Rule, id string) (Rule, bool) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}

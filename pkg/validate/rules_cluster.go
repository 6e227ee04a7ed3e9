package validate

// clusterRules are the rules about what only a cluster knows: conditions and discovery.
func clusterRules() []Rule {
	return []Rule{
		notEstablished(),
		namesNotAccepted(),
		nonStructuralSchema(),
		storageMigrating(),
		terminating(),
		discoveryDisagrees(),
	}
}

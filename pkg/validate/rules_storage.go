package validate

// storageRules are the rules about which versions are served and stored.
func storageRules() []Rule {
	return []Rule{
		singleStorageVersion(),
		noServedVersion(),
		storageVersionNotServed(),
		storageVersionDeprecated(),
		storageVersionNotPreferred(),
		storedVersionMissing(),
		storedVersionUnclaimed(),
		lowerPriorityVersionStored(),
		migrationPending(),
		storedVersionsUntrusted(),
	}
}

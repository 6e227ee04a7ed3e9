package validate

// schemaRules are the rules about the schemas, subresources and columns of the versions.
func schemaRules() []Rule {
	return []Rule{
		schemaMissing(),
		schemaNotStructural(),
		schemaStub(),
		noneStrategyLosesFields(),
		lowerVersionCannotExpress(),
		defaultDiffers(),
		statusSubresourceDiffers(),
		scaleSubresourceDiffers(),
		printerColumnsDiffer(),
	}
}

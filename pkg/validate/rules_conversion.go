package validate

// conversionRules are the rules about the conversion strategy and its webhook.
func conversionRules() []Rule {
	return []Rule{
		conversionWithoutWebhookConfig(),
		webhookConfigWithoutWebhook(),
		webhookClientConfig(),
		webhookURL(),
		webhookOnLocalhost(),
		webhookService(),
		webhookForOneVersion(),
		conversionReviewVersions(),
		caBundleMissing(),
		caBundleInvalid(),
		caBundleExpired(),
		caBundleExpiresSoon(),
		caBundleMismatch(),
		caInjectorDeadlock(),
		conversionServiceMissing(),
		conversionServiceWithoutEndpoints(),
		conversionNamespaceTerminating(),
		conversionFails(),
	}
}

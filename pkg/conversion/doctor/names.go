package doctor

import "slices"

// The names of the checks.
const (
	checkCABundle = "ca-bundle"
	checkChain    = "certificate-chain"
	checkHost     = "certificate-name"
	checkExpiry   = "certificate-expiry"

	checkReachable   = "reachable"
	checkLatency     = "latency"
	checkReliability = "reliability"

	checkHTTPStatus    = "http-status"
	checkContentType   = "content-type"
	checkJSON          = "json"
	checkReviewVersion = "review-version"
	checkResponse      = "response"
	checkUID           = "uid"
	checkStatusSuccess = "result"
	checkCount         = "object-count"
	checkOrder         = "object-order"
	checkVersion       = "desired-version"
	checkKind          = "object-kind"
	checkName          = "object-name"
	checkNamespace     = "object-namespace"
	checkObjectUID     = "object-uid"
	checkMetadata      = "metadata"
	checkOtherMetadata = "other-metadata"
	checkLabels        = "labels-and-annotations"
	checkMetadataValid = "metadata-valid"
	checkAnnotations   = "annotation-size"

	checkV1beta1        = "review-v1beta1"
	checkUnknownVersion = "unknown-version"
	checkFailedMessage  = "failed-message"
	checkFailedObjects  = "failed-objects"
	checkEmptyList      = "empty-list"
	checkMany           = "many-objects"
	checkLarge          = "large-object"
	checkMixed          = "mixed-versions"
	checkUnknownFields  = "unknown-fields"
	checkStatus         = "object-status"
	checkPartial        = "partial-objects"
	checkPartialAdds    = "partial-objects-additions"
	checkNoState        = "no-state"
	checkConcurrent     = "concurrent-calls"

	checkObjects   = "live-objects"
	checkRoundTrip = "round-trip"
	checkKnown     = "known-fields"
)

// regular are the checks of every answer to a request that is as the API server
// sends them, in order.
func regular() []string {
	return []string{
		checkHTTPStatus, checkContentType, checkJSON, checkReviewVersion, checkResponse, checkUID, checkStatusSuccess, checkCount, checkOrder,
		checkVersion, checkKind, checkName, checkNamespace, checkObjectUID, checkMetadata, checkOtherMetadata, checkLabels, checkMetadataValid,
	}
}

// refusing reports whether the API server takes nothing of an answer that fails
// a check.
func refusing(name string) bool {
	return !slices.Contains([]string{checkContentType, checkOtherMetadata, checkLabels}, name)
}

// envelope reports whether a check is about the answer, and not about its objects.
func envelope(name string) bool {
	return slices.Contains(regular()[:slices.Index(regular(), checkCount)+1], name)
}

// Names returns the names of all checks that talk to the webhook, for --skip.
func Names() []string {
	names := append([]string{checkCABundle, checkChain, checkHost, checkExpiry, checkReachable, checkLatency, checkReliability}, regular()...)
	return append(names, checkAnnotations, checkV1beta1, checkUnknownVersion, checkFailedMessage, checkFailedObjects, checkEmptyList, checkMany,
		checkLarge, checkMixed, checkUnknownFields, checkStatus, checkPartial, checkPartialAdds, checkNoState, checkConcurrent, checkObjects, checkRoundTrip, checkKnown)
}

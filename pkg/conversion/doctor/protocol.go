package doctor

// protocol returns what the API server demands where a check looks, by the name
// of the check. Each is how its webhook converter behaves, observed.
func protocol(name string) string {
	switch name {
	case checkCABundle:
		return "the API server trusts what the certificates in caBundle signed; without any, the roots of its machine"
	case checkChain:
		return "the certificate is signed, directly or through certificates that come with it, by one of caBundle"
	case checkHost:
		return "the certificate is for the host of the url, or for NAME.NAMESPACE.svc of a service; its subject does not count"
	case checkExpiry:
		return "the certificate and its chain are valid at the time of each call"
	case checkReachable:
		return "the webhook answers a POST over TLS"
	case checkLatency:
		return "the API server gives up on a call after 30s; a list converts its objects with one call each"
	case checkReliability:
		return "one call that fails makes a read or a write fail, a list as a whole"
	}
	if text := protocolOfAnswer(name); text != "" {
		return text
	}
	if text := protocolOfObjects(name); text != "" {
		return text
	}
	return protocolOfProbes(name)
}

func protocolOfAnswer(name string) string {
	switch name {
	case checkHTTPStatus:
		return "HTTP 200, also for a conversion that failed"
	case checkContentType:
		return "Content-Type: application/json"
	case checkJSON:
		return "the body is a ConversionReview in JSON"
	case checkReviewVersion:
		return "apiVersion and kind are those of the request"
	case checkResponse:
		return "the answer has a response"
	case checkUID:
		return "response.uid is request.uid"
	case checkStatusSuccess:
		return `response.result.status is "Success"`
	case checkCount:
		return "as many convertedObjects as were sent"
	case checkOrder:
		return "convertedObjects are in the order of the request"
	case checkV1beta1:
		return "each version in conversionReviewVersions is answered in that version"
	case checkFailedMessage:
		return `a conversion that failed has result.status "Failed" and a message, which is all that users see`
	case checkFailedObjects:
		return "a conversion that failed has no convertedObjects"
	default:
		return ""
	}
}

func protocolOfObjects(name string) string {
	switch name {
	case checkVersion:
		return "apiVersion of each object is request.desiredAPIVersion"
	case checkKind:
		return "kind does not change"
	case checkName:
		return "metadata.name does not change"
	case checkNamespace:
		return "metadata.namespace does not change"
	case checkObjectUID:
		return "metadata.uid does not change"
	case checkMetadata:
		return "objects keep their metadata"
	case checkOtherMetadata:
		return "of metadata, only labels and annotations may change; the API server ignores every other change"
	case checkLabels:
		return "labels and annotations that the answer leaves out are removed from the object"
	case checkMetadataValid:
		return "labels and annotations are valid"
	case checkAnnotations:
		return "annotations have at most 262144 bytes in total, or the object can be neither read nor written at the version"
	case checkStatus:
		return "status is converted, too: every write passes it through the webhook"
	case checkObjects:
		return "objects can be read at each served version"
	case checkRoundTrip:
		return "an object that is written at one version, stored at another and read again is the same"
	case checkKnown:
		return "the API server drops fields that the schema of the version does not have"
	default:
		return ""
	}
}

func protocolOfProbes(name string) string {
	switch name {
	case checkUnknownVersion:
		return `a version that it cannot convert to is answered with HTTP 200, "Failed" and a message`
	case checkEmptyList:
		return "no objects are answered with none"
	case checkMany:
		return "a request can hold any number of objects"
	case checkLarge:
		return "an object has up to 1.5 MB in etcd, and a request is larger than that"
	case checkMixed:
		return "the objects of one request can be at different versions"
	case checkUnknownFields:
		return "objects can hold fields that the schema does not have: they were stored before it changed"
	case checkPartial:
		return "server-side apply converts what each manager owns: objects without spec, required fields, or metadata"
	case checkPartialAdds:
		return "a field that conversion adds to the part of an object that a manager owns becomes that manager's"
	case checkNoState:
		return "the same objects are converted in the same way each time"
	case checkConcurrent:
		return "calls come at the same time and do not affect each other"
	default:
		return ""
	}
}

package v1alpha1

// UsageRequests is what is known of the requests that a piece of evidence counts.
// All lists are bounded: what is there is the first few.
type UsageRequests struct {
	// UserAgent is what the client calls itself.
	UserAgent string `json:"userAgent,omitempty"`
	// ImpersonatedBy is the user who acted as the one named.
	ImpersonatedBy string `json:"impersonatedBy,omitempty"`
	// Groups are those of the user, without system:authenticated.
	Groups []string `json:"groups,omitempty"`
	// Addresses are where the requests came from, "CLAIMED via PEER" where a proxy
	// says so: all but the peer can be set by the client.
	Addresses []string `json:"addresses,omitempty"`
	// Verbs are the requests by verb, and by the status of the answer if it is
	// known.
	Verbs []UsageVerb `json:"verbs,omitempty"`
	// DryRun is how many of them were dry runs.
	DryRun int64 `json:"dryRun,omitempty"`
	// Open is how many of them are watches that were open at the end.
	Open int64 `json:"open,omitempty"`
}

// UsageVerb counts requests with one verb.
type UsageVerb struct {
	// Verb is one of the API: get, list, watch, create, update, patch, apply,
	// delete, deletecollection; "other" for anything else.
	Verb string `json:"verb"`
	// Code is the HTTP status of the answers; 0 if it is unknown.
	Code int32 `json:"code,omitempty"`
	// Missing says that the server served the version, and had no such object.
	Missing bool  `json:"missing,omitempty"`
	Count   int64 `json:"count"`
}

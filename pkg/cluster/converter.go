package cluster

import "strings"

// ConverterDown tells whether a request failed because the conversion webhook
// could not be reached, or gave no answer that the server could read: nothing
// that depends on the object, as a rule, and likely to be over soon, when its
// pod is restarted or its certificate is rotated. What the webhook itself says
// about an object does not count.
func ConverterDown(err error) bool {
	status, isStatus := statusOf(err)
	if !isStatus {
		return false
	}
	_, text, found := strings.Cut(status.Message, textConversionHook)
	if !found {
		return false
	}
	// "conversion webhook for GROUP/VERSION, Kind=KIND failed: CAUSE". The causes
	// are those of client-go and of the resolver of services in the API server.
	_, cause, found := strings.Cut(text, " failed: ")
	if !found {
		return false
	}
	for _, start := range []string{
		`Post "https://`, "an error on the server", "the server could not find the requested resource",
		"the server is currently unable to handle the request", "the server was unable to return a response in the time allotted",
		"the server rejected our request for an unknown reason", `service "`, "no endpoints available for service", "no service port ",
		"unable to load root certificates", "the server has asked for the client to provide credentials",
	} {
		if strings.HasPrefix(cause, start) {
			return true
		}
	}
	return false
}

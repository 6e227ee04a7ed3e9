package cluster

import (
	"regexp"
	"strings"
)

// UnreadableObject is an object that the server could not decode.
type UnreadableObject struct {
	// Key is its key in etcd, as the server gives it.
	Key string
	// GroupVersion is what the object is persisted at, where the CRD does not have
	// that version ("example.com/v1alpha1"); empty for any other cause.
	GroupVersion string
	// Conversion says that the object was read and could not be converted: it is
	// intact.
	Conversion bool
	// Message is the cause.
	Message string
}

// Unreadable returns the objects that an error of a LIST or a GET names as
// unreadable. A LIST with a limit tells each with its own cause, a hundred at
// most; one without tells nothing (fact 14).
func Unreadable(err error) []UnreadableObject {
	status, isStatus := statusOf(err)
	if !isStatus {
		return nil
	}
	var found []UnreadableObject
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if strings.Contains(cause.Message, textCorrupt) {
				found = append(found, unreadable(cause.Message))
			}
		}
	}
	if len(found) == 0 && strings.Contains(status.Message, textCorrupt) {
		found = append(found, unreadable(status.Message))
	}
	return found
}

func unreadable(message string) UnreadableObject {
	object := UnreadableObject{Message: clean(corruptCause(message))}
	if key := regexp.MustCompile(`Key: ([^,]+), `).FindStringSubmatch(message); key != nil {
		object.Key = key[1]
	}
	if from := regexp.MustCompile(regexp.QuoteMeta(textConversionFrom) + `: (\S+/[a-z0-9.-]+)`).FindStringSubmatch(message); from != nil {
		object.GroupVersion = from[1]
	}
	for _, text := range []string{textConversionHook, textConversionFrom, textConversionTo} {
		object.Conversion = object.Conversion || strings.Contains(message, text)
	}
	if _, cause, found := strings.Cut(message, "object not decodable "); found && !object.Conversion {
		object.Message = clean(cause)
	}
	return object
}

package testbed

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// object converts one object in place. It keeps what it does not know, and takes
// objects that are not whole: the API server converts those of the managers of a
// server-side apply, too (case 59 of what people report).
func (c conversion) object(object map[string]any, from, to string) error {
	_, hasSpec := object["spec"].(map[string]any)
	metadata, hasMetadata := object["metadata"].(map[string]any)
	switch partial := !hasSpec || !hasMetadata; {
	case partial && c.fault == FaultOnlyFull:
		panic(http.ErrAbortHandler)
	case partial && c.fault == FaultRefusesPartial:
		return errors.New("spec and metadata are required")
	}
	if spec, ok := object["spec"].(map[string]any); ok {
		if c.fault == FaultStrict && unknownField(spec) {
			return errors.New("json: unknown field")
		}
		if from != to {
			convertHostPort(spec, to, c.fault == FaultUnknownToSchema)
		}
		c.spoilSpec(spec, to)
	}
	object["apiVersion"] = to
	c.spoil(object, metadata, to)
	return nil
}

// convertHostPort moves the address to where the version has it. An address
// without a colon is a host, one that starts with it a port, so that no part of
// an object is lost on the way back.
func convertHostPort(spec map[string]any, to string, leave bool) {
	if strings.HasSuffix(to, "/v1") {
		address, ok := spec["hostPort"].(string)
		if !ok {
			return
		}
		if !leave {
			delete(spec, "hostPort")
		}
		colon := strings.LastIndexByte(address, ':')
		if colon < 0 {
			spec["host"] = address
			return
		}
		if colon > 0 {
			spec["host"] = address[:colon]
		}
		spec["port"] = address[colon+1:]
		return
	}
	host, hasHost := spec["host"].(string)
	port, hasPort := spec["port"].(string)
	delete(spec, "host")
	delete(spec, "port")
	switch {
	case hasPort:
		spec["hostPort"] = host + ":" + port
	case hasHost:
		spec["hostPort"] = host
	}
}

func unknownField(spec map[string]any) bool {
	for name := range spec {
		if !slices.Contains([]string{"hostPort", "host", "port", "image", "size", "settings"}, name) {
			return true
		}
	}
	return false
}

// spoilSpec does what is wrong with the spec.
func (c conversion) spoilSpec(spec map[string]any, to string) {
	image, hasImage := spec["image"]
	switch {
	case c.fault == FaultDropsField && strings.HasSuffix(to, "/v1"):
		delete(spec, "image")
	case c.fault == FaultAddsField && !hasImage:
		spec["image"] = "example.com/default"
	case hasImage && (c.fault == FaultStateful && c.call%2 == 0 || c.fault == FaultNotConcurrent && c.concurrent):
		if text, ok := image.(string); ok {
			spec["image"] = text + "-again"
		}
	}
}

// spoil does what is wrong with the rest of an object.
func (c conversion) spoil(object, metadata map[string]any, to string) {
	group, _, _ := strings.Cut(to, "/")
	switch c.fault {
	case FaultForgetsStatus:
		delete(object, "status")
	case FaultWrongVersion:
		object["apiVersion"] = group + "/v2"
	case FaultChangesKind:
		object["kind"] = "Other"
	case FaultOmitsMetadata:
		delete(object, "metadata")
	default:
	}
	if metadata == nil {
		return
	}
	switch c.fault {
	case FaultChangesName:
		metadata["name"] = "another"
	case FaultChangesSpace:
		metadata["namespace"] = "another"
	case FaultChangesUID:
		metadata["uid"] = "another"
	case FaultFinalizers:
		metadata["finalizers"] = []any{"example.com/converted"}
	case FaultOmitsLabels:
		delete(metadata, "labels")
		delete(metadata, "annotations")
	case FaultHugeAnnotation:
		annotations, _ := metadata["annotations"].(map[string]any)
		if annotations == nil {
			annotations = map[string]any{}
			metadata["annotations"] = annotations
		}
		// Of what was decoded from JSON, nothing fails to be encoded.
		text, _ := json.Marshal(object["spec"])
		annotations["example.com/kept"] = string(text)
	default:
	}
}

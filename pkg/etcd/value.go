package etcd

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// Head is what a value tells of the object that it persists.
type Head struct {
	// APIVersion and Kind are empty for values that are encrypted or cannot be decoded.
	APIVersion string
	Kind       string
	// Provider is the encryption provider of an encrypted value: "aescbc", "kms".
	Provider string
}

// Decoded reports whether the value said what it is.
func (h Head) Decoded() bool { return h.APIVersion != "" && h.Kind != "" }

// What values begin with. Everything else that the API server writes is JSON.
const (
	encryptedPrefix = "k8s:enc:"          // k8s.io/apiserver/pkg/storage/value: k8s:enc:PROVIDER:...
	protobufPrefix  = "k8s\x00"           // k8s.io/apimachinery/pkg/runtime/serializer/protobuf
	cborPrefix      = "\xd9\xd9\xf7"      // RFC 8949, tag 55799: self-described CBOR
	maxName         = 4096                // of an apiVersion or kind, in bytes; real ones have 380 at most
	unknownTypeMeta = protowire.Number(1) // runtime.Unknown.typeMeta, and in it TypeMeta.apiVersion
	typeMetaKind    = protowire.Number(2)
)

// ReadHead reads the head of a value. A value that is not whole has none: the API
// server cannot decode it, wherever it is cut short or damaged. Of the rest of JSON and
// CBOR the syntax is checked, and nothing else.
func ReadHead(value []byte) Head {
	var head Head
	switch {
	case bytes.HasPrefix(value, []byte(encryptedPrefix)):
		provider, _, found := strings.Cut(string(value[len(encryptedPrefix):min(len(value), len(encryptedPrefix)+64)]), ":")
		if !found || provider == "" {
			provider = "unknown provider"
		}
		return Head{Provider: provider}
	case bytes.HasPrefix(value, []byte(protobufPrefix)):
		head = protobufHead(value[len(protobufPrefix):])
	case bytes.HasPrefix(value, []byte(cborPrefix)):
		head = cborHead(value)
	default:
		head = jsonHead(value)
	}
	if !head.Decoded() || len(head.APIVersion) > maxName || len(head.Kind) > maxName {
		return Head{}
	}
	return head
}

// jsonHead reads the fields of the outermost object up to the second of the two,
// which the API server writes first, and checks the syntax of the rest. For values of
// 8 KB that takes about as long as reading them from a snapshot.
func jsonHead(value []byte) Head {
	decoder := json.NewDecoder(bytes.NewReader(value))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return Head{}
	}
	var head Head
	for decoder.More() && !head.Decoded() {
		name, err := decoder.Token()
		if err != nil {
			return Head{}
		}
		switch name {
		case "apiVersion":
			err = decoder.Decode(&head.APIVersion)
		case "kind":
			err = decoder.Decode(&head.Kind)
		default:
			err = skipJSON(decoder)
		}
		if err != nil {
			return Head{}
		}
	}
	if !json.Valid(value) {
		return Head{}
	}
	return head
}

// skipJSON passes over one value, however deep, without keeping it.
func skipJSON(decoder *json.Decoder) error {
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return err //nolint:wrapcheck // Only whether there is one counts.
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth <= 0 {
			return nil
		}
	}
}

// cborHead decodes the whole object: upstream's decoder has no other way to pass
// over fields. It bounds nesting, and checks lengths against what is there.
func cborHead(value []byte) Head {
	var object map[string]any
	if direct.Unmarshal(value, &object) != nil {
		return Head{}
	}
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return Head{APIVersion: apiVersion, Kind: kind}
}

// protobufHead reads runtime.Unknown.typeMeta.
func protobufHead(value []byte) Head {
	var head Head
	err := eachField(value, func(number protowire.Number, _ uint64, data []byte) error {
		if number != unknownTypeMeta {
			return nil
		}
		return eachField(data, func(number protowire.Number, _ uint64, data []byte) error {
			switch number {
			case unknownTypeMeta:
				head.APIVersion = string(data[:min(len(data), maxName+1)])
			case typeMetaKind:
				head.Kind = string(data[:min(len(data), maxName+1)])
			default:
			}
			return nil
		})
	})
	if err != nil {
		return Head{}
	}
	return head
}

var errProtobuf = errors.New("not a protobuf message")

// eachField calls visit for each field of a protobuf message: with the number of
// a varint, or with the bytes of a field that has a length. Nothing is copied.
func eachField(message []byte, visit func(number protowire.Number, varint uint64, data []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errProtobuf
		}
		message = message[n:]
		var varint uint64
		var data []byte
		switch kind {
		case protowire.VarintType:
			varint, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return errProtobuf
		}
		message = message[n:]
		if err := visit(number, varint, data); err != nil {
			return err
		}
	}
	return nil
}

// keyValue is mvccpb.KeyValue, as etcd persists and sends it.
type keyValue struct {
	key, value []byte
}

func parseKeyValue(message []byte) (keyValue, error) {
	var kv keyValue
	err := eachField(message, func(number protowire.Number, _ uint64, data []byte) error {
		switch number {
		case 1:
			kv.key = data
		case 5:
			kv.value = data
		default: // Revisions and the lease.
		}
		return nil
	})
	return kv, err
}

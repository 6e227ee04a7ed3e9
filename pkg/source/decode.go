package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

const kindCRD = "CustomResourceDefinition"

// maxNesting bounds lists in lists: each level is decoded with all that is in it.
const maxNesting = 8

// loaded is a CRD of a manifest.
type loaded struct {
	crd.CRD

	hasStatus bool
}

// decoder turns documents into CRDs with upstream's own types, defaults and
// conversion.
type decoder struct {
	scheme *runtime.Scheme
	// codecs are strict, as the server is with what kubectl sends it.
	codecs serializer.CodecFactory
}

func newDecoder() *decoder {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return &decoder{scheme: scheme, codecs: serializer.NewCodecFactory(scheme, serializer.EnableStrict)}
}

// result is what was found in a document.
type result struct {
	found []loaded
	// skipped is the number of objects that are no CRDs.
	skipped int
	// errs are the objects that cannot be decoded.
	errs []error
}

// decode returns the CRDs of a document, how many objects in it are something
// else, and what is wrong with those that cannot be decoded.
func (d *decoder) decode(doc document) (found []loaded, skipped int, errs []error) {
	doc.first = doc.firstLine()
	doc.template = newTemplateSigns(doc.text)
	var all result
	count := 0
	if jsonValues(doc, func(document) { count++ }) {
		jsonValues(doc, func(value document) {
			if count == 1 {
				value = doc // With the blanks around it, so that columns count.
			}
			if err := duplicateKeys(value); err != nil {
				all.errs = append(all.errs, err)
				return
			}
			d.object(&all, value, value.text, 0)
		})
		return all.found, all.skipped, all.errs
	}
	text, err := yaml.YAMLToJSONStrict(doc.text)
	if err != nil {
		return nil, 0, []error{yamlError(doc, err)}
	}
	d.object(&all, doc, text, 0)
	return all.found, all.skipped, all.errs
}

// jsonValues calls visit for the values of a stream of JSON. It returns false at
// the first thing that is not JSON. There can be millions, so they are not kept.
func jsonValues(doc document, visit func(document)) bool {
	if trimmed := bytes.TrimLeft(doc.text, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return false
	}
	from := json.NewDecoder(bytes.NewReader(doc.text))
	line, end := doc.start, int64(0)
	for {
		var raw json.RawMessage
		err := from.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return false // The YAML parser says what is wrong, or that nothing is.
		}
		// What separates two values may hold line breaks.
		start := from.InputOffset() - int64(len(raw))
		line += bytes.Count(doc.text[end:start], []byte{'\n'})
		value := doc
		value.text, value.start, value.first = doc.text[start:from.InputOffset()], line, 1
		if doc.offset >= 0 {
			value.offset = doc.offset + start
		}
		visit(value)
		end = from.InputOffset()
		line += bytes.Count(raw, []byte{'\n'})
	}
}

// object decodes an object, or a list of them. depth is the number of lists
// around it.
func (d *decoder) object(all *result, doc document, text []byte, depth int) {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		all.skipped++ // A text, a number or a list: no object.
		return
	}
	var object struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &object); err != nil {
		all.failed(doc, doc.errorf(doc.first, "not a Kubernetes object: %w", err))
		return
	}
	switch {
	case object.Kind == kindCRD:
		one, err := d.crd(doc, text)
		if err != nil {
			all.failed(doc, err)
			return
		}
		all.found = append(all.found, one)
	case object.Kind == kindCRD+"List", object.Kind == "List" && object.APIVersion == "v1":
		if depth >= maxNesting {
			all.failed(doc, doc.errorf(doc.first, "more than %d lists in lists", maxNesting))
			return
		}
		d.items(all, doc, object.Kind, object.APIVersion, object.Items, depth)
	default:
		all.skipped++
	}
}

// items decodes the items of a list. A broken one does not keep the others from
// being decoded.
func (d *decoder) items(all *result, doc document, kind, apiVersion string, items []json.RawMessage, depth int) {
	for i, item := range items {
		if len(all.errs) >= maxErrors {
			return
		}
		within := doc.within(i)
		if kind != "List" {
			// The items of the API server's own list do not repeat the kind.
			var err error
			if item, err = withKind(item, apiVersion); err != nil {
				all.failed(within, doc.errorf(doc.first, "%w", err))
				continue
			}
		}
		d.object(all, within, item, depth+1)
	}
}

// failed notes an object that cannot be decoded.
func (r *result) failed(doc document, err error) {
	if doc.item != "" {
		err = fmt.Errorf("%w (%s)", err, doc.item)
	}
	r.errs = append(r.errs, err)
}

// withKind adds the kind and the API version to an item of a list of CRDs that
// lacks them.
func withKind(item json.RawMessage, apiVersion string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(item, &fields); err != nil {
		return nil, fmt.Errorf("not an object: %w", err)
	}
	if fields == nil || fields["kind"] != nil {
		return item, nil
	}
	fields["kind"] = json.RawMessage(strconv.Quote(kindCRD))
	fields["apiVersion"] = json.RawMessage(strconv.Quote(apiVersion))
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encoding the item: %w", err)
	}
	return text, nil
}

package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

const kindCRD = "CustomResourceDefinition"

// loaded is a CRD of a manifest.
type loaded struct {
	crd.CRD

	hasStatus bool
}

// decoder turns documents into CRDs with upstream's own types, defaults and
// conversion.
type decoder struct {
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
}

func newDecoder() *decoder {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return &decoder{scheme: scheme, codecs: serializer.NewCodecFactory(scheme)}
}

// decode returns the CRDs of a document, and how many objects in it are
// something else.
func (d *decoder) decode(doc document) (found []loaded, skipped int, err error) {
	if values, ok := jsonValues(doc); ok {
		for _, value := range values {
			more, other, err := d.object(value, value.text)
			found, skipped = append(found, more...), skipped+other
			if err != nil {
				return found, skipped, err
			}
		}
		return found, skipped, nil
	}
	text, err := yaml.YAMLToJSONStrict(doc.text)
	if err != nil {
		return nil, 0, yamlError(doc, err)
	}
	return d.object(doc, text)
}

// jsonValues returns the values of a stream of JSON, or false if it is not one.
func jsonValues(doc document) (values []document, ok bool) {
	if trimmed := bytes.TrimLeft(doc.text, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, false
	}
	from := json.NewDecoder(bytes.NewReader(doc.text))
	for {
		start := from.InputOffset()
		var value json.RawMessage
		err := from.Decode(&value)
		if errors.Is(err, io.EOF) {
			return values, len(values) > 0
		}
		if err != nil {
			return nil, false // The YAML parser says what is wrong, or that nothing is.
		}
		// What separates two values may hold line breaks.
		gap := len(doc.text[start:]) - len(bytes.TrimLeft(doc.text[start:], " \t\r\n"))
		values = append(values, document{
			file: doc.file, text: value, start: doc.start + bytes.Count(doc.text[:int(start)+gap], []byte("\n")),
		})
	}
}

// object decodes an object, or a list of them.
func (d *decoder) object(doc document, text []byte) (found []loaded, skipped int, err error) {
	var object struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	line := doc.firstLine()
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return nil, 1, nil // A text, a number or a list: no object.
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &object); err != nil {
		return nil, 0, doc.errorf(line, "not a Kubernetes object: %w", err)
	}
	switch {
	case object.Kind == kindCRD:
		one, err := d.crd(doc, text)
		if err != nil {
			return nil, 0, err
		}
		return []loaded{one}, 0, nil
	case object.Kind == kindCRD+"List", object.Kind == "List" && object.APIVersion == "v1":
		for i, item := range object.Items {
			if object.Kind != "List" {
				// The items of the API server's own list do not repeat the kind.
				if item, err = withKind(item, object.APIVersion); err != nil {
					return found, skipped, doc.errorf(line, "items[%d]: %w", i, err)
				}
			}
			more, other, err := d.object(doc, item)
			found, skipped = append(found, more...), skipped+other
			if err != nil {
				return found, skipped, fmt.Errorf("%w (items[%d])", err, i)
			}
		}
		return found, skipped, nil
	}
	return nil, 1, nil
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

// crd decodes a CRD.
func (d *decoder) crd(doc document, text []byte) (loaded, error) {
	line := doc.firstLine()
	if helmTemplate(doc, text) {
		return loaded{}, doc.errorf(line, errHelm)
	}
	if err := duplicateKeys(text); err != nil {
		return loaded{}, doc.errorf(line, "%w", err)
	}
	var fields struct {
		APIVersion string          `json:"apiVersion"`
		Status     json.RawMessage `json:"status"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &fields); err != nil {
		return loaded{}, doc.errorf(line, "not a %s: %w", kindCRD, err)
	}
	definition, err := d.typed(fields.APIVersion, text)
	if err != nil {
		return loaded{}, doc.errorf(line, "%w", err)
	}
	// The server ignores a status on create; what it says was never true here.
	definition.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	origin := doc.origin(line)
	origin.APIVersion = fields.APIVersion
	return loaded{
		CRD:       crd.CRD{CustomResourceDefinition: definition, Origin: origin},
		hasStatus: !slices.Contains([]string{"", "null", "{}"}, string(fields.Status)),
	}, nil
}

// typed decodes a CRD. A v1 manifest is taken as it is written; a v1beta1 one is
// defaulted and converted as the API server did it.
func (d *decoder) typed(apiVersion string, text []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	switch apiVersion {
	case apiextensionsv1.SchemeGroupVersion.String():
		if _, _, err := d.codecs.UniversalDeserializer().Decode(text, nil, definition); err != nil {
			return nil, fmt.Errorf("not a valid %s: %w", kindCRD, err)
		}
	case apiextensionsv1beta1.SchemeGroupVersion.String():
		internal, err := runtime.Decode(d.codecs.UniversalDecoder(), text)
		if err != nil {
			return nil, fmt.Errorf("not a valid %s of v1beta1: %w", kindCRD, err)
		}
		if err := d.scheme.Convert(internal, definition, nil); err != nil {
			return nil, fmt.Errorf("a %s that cannot be converted to v1: %w", kindCRD, err)
		}
		definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind(kindCRD))
	default:
		return nil, fmt.Errorf("apiVersion %q is not one of a %s: use %s", apiVersion, kindCRD, apiextensionsv1.SchemeGroupVersion)
	}
	return definition, nil
}

// duplicateKeys refuses JSON in which a key comes twice; YAML was checked when
// it was parsed.
func duplicateKeys(text []byte) error {
	var anything any
	problems, err := kjson.UnmarshalStrict(text, &anything, kjson.DisallowDuplicateFields)
	if err != nil {
		return fmt.Errorf("not valid JSON: %w", err)
	}
	if len(problems) > 0 {
		return problems[0]
	}
	return nil
}

// yamlError turns an error of the YAML parser, whose lines count from the start
// of the document, into one with the place in the file.
func yamlError(doc document, err error) error {
	message := err.Error()
	for _, noise := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:"} {
		message = strings.TrimSpace(strings.TrimPrefix(message, noise))
	}
	message, _, _ = strings.Cut(message, "\n")
	line := doc.firstLine()
	if match := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(message); match != nil {
		if number, err := strconv.Atoi(match[1]); err == nil {
			line = number
		}
		message = message[len(match[0]):]
	}
	if bytes.Contains(doc.text, []byte("{{")) {
		return doc.errorf(line, "%s; as it is, it is not valid YAML: %s", errHelm, message)
	}
	if tabs := indentedByTab(doc.text); tabs > 0 && strings.Contains(message, "cannot start any token") {
		return doc.errorf(tabs, "not valid YAML: indented with a tab; use spaces")
	}
	return doc.errorf(line, "not valid YAML: %s", message)
}

// indentedByTab returns the first line whose indentation holds a tab, or 0.
func indentedByTab(text []byte) int {
	number := 1
	for line := range bytes.Lines(text) {
		if bytes.IndexByte(line[:len(line)-len(bytes.TrimLeft(line, " \t"))], '\t') >= 0 {
			return number
		}
		number++
	}
	return 0
}

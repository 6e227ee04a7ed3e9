package printers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/util/jsonpath"
)

// The formats for columns of one's own. Kubectl keeps its implementation in the
// package of "kubectl get", which would double what the plugin links.
const (
	formatColumns     = "custom-columns"
	formatColumnsFile = "custom-columns-file"
)

type columnFlags struct{}

func (columnFlags) allowedFormats() []string { return []string{formatColumns, formatColumnsFile} }

// customColumn is HEADER:.path of --output custom-columns.
type customColumn struct {
	header string
	path   *jsonpath.JSONPath
}

// toColumns reads "custom-columns=SPEC" or "custom-columns-file=PATH"; the part
// after "=" may be in --template instead.
func (f columnFlags) toColumns(format, template string) ([]customColumn, error) {
	name, spec, hasSpec := strings.Cut(format, "=")
	if !hasSpec {
		spec = template
	}
	if !slices.Contains(f.allowedFormats(), name) {
		return nil, genericclioptions.NoCompatiblePrinterError{OutputFormat: &format, AllowedFormats: f.allowedFormats()}
	}
	if spec == "" {
		return nil, fmt.Errorf("--output %s needs columns: %s=NAME:.name,VERSION:.version", name, formatColumns)
	}
	var headers, paths []string
	if name == formatColumns {
		for column := range strings.SplitSeq(spec, ",") {
			header, path, found := strings.Cut(column, ":")
			if !found {
				return nil, fmt.Errorf("custom column %q is not HEADER:.path", column)
			}
			headers, paths = append(headers, header), append(paths, path)
		}
	} else {
		text, err := os.ReadFile(spec)
		if err != nil {
			return nil, fmt.Errorf("reading custom columns: %w", err)
		}
		first, rest, _ := strings.Cut(string(text), "\n")
		second, _, _ := strings.Cut(rest, "\n")
		headers, paths = strings.Fields(first), strings.Fields(second)
		if len(headers) == 0 || len(headers) != len(paths) {
			return nil, fmt.Errorf("%s must have a line of headers and a line of as many paths", spec)
		}
	}
	columns := make([]customColumn, len(headers))
	for i := range headers {
		path, err := parsePath(paths[i])
		if err != nil {
			return nil, fmt.Errorf("custom column %s: %w", headers[i], err)
		}
		columns[i] = customColumn{header: headers[i], path: path}
	}
	return columns, nil
}

func printColumns(w io.Writer, columns []customColumn, items []any, noHeaders bool) error {
	var table Table
	for _, column := range columns {
		table.Columns = append(table.Columns, Column{Header: Escape(column.header)})
	}
	for _, item := range items {
		content, err := toMap(item)
		if err != nil {
			return err
		}
		row := make([]string, 0, len(columns))
		for _, column := range columns {
			values, err := find(column.path, content)
			if err != nil {
				return fmt.Errorf("custom column %s: %w", column.header, err)
			}
			row = append(row, joinValues(values))
		}
		table.Rows = append(table.Rows, row)
	}
	return table.Print(w, TableOptions{NoHeaders: noHeaders})
}

func joinValues(values []any) string {
	var texts []string
	for _, value := range values {
		if value != nil {
			texts = append(texts, fmt.Sprint(value))
		}
	}
	return strings.Join(texts, ",")
}

// parsePath reads a JSONPath expression as kubectl's --sort-by and custom
// columns take it: name, .name, {name} or {.name}.
func parsePath(expression string) (*jsonpath.JSONPath, error) {
	inner := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(expression, "{"), "}"), ".")
	if inner == "" || strings.ContainsAny(inner, "{}") || strings.HasPrefix(expression, "{") != strings.HasSuffix(expression, "}") {
		return nil, fmt.Errorf("unexpected path %q, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'", expression)
	}
	path := jsonpath.New("path").AllowMissingKeys(true)
	if err := path.Parse("{." + inner + "}"); err != nil {
		return nil, fmt.Errorf("path %q: %w", expression, err)
	}
	return path, nil
}

// find returns the values that a path selects, none if the field is missing.
func find(path *jsonpath.JSONPath, content map[string]any) ([]any, error) {
	results, err := path.FindResults(content)
	if err != nil {
		return nil, fmt.Errorf("looking up the path: %w", err)
	}
	var values []any
	for _, result := range results {
		for _, value := range result {
			if value.IsValid() && value.CanInterface() {
				values = append(values, value.Interface())
			}
		}
	}
	return values, nil
}

// toMap returns value as the JSON object that it is printed as, with whole
// numbers as int64.
func toMap(value any) (map[string]any, error) {
	text, err := utiljson.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	var content map[string]any
	if err := utiljson.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	if content == nil {
		return nil, errors.New("encoding the answer: not an object")
	}
	return content, nil
}

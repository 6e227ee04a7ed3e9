package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
)

// maxFields is how many fields are sent one at a time.
const maxFields = 40

// variant is a part of an object, as a manager of a server-side apply owns it.
type variant struct {
	name   string
	object map[string]any
}

// variants returns parts of an object (case 59).
func variants(object map[string]any) []variant {
	metadata := map[string]any{"name": "webhook-check"}
	if namespace := mapOf(object, "metadata")["namespace"]; namespace != nil {
		metadata["namespace"] = namespace
	}
	with := func(metadata map[string]any, fields map[string]any) map[string]any {
		part := map[string]any{"apiVersion": object["apiVersion"], "kind": object["kind"]}
		if metadata != nil {
			part["metadata"] = metadata
		}
		maps.Copy(part, fields)
		return runtime.DeepCopyJSON(part)
	}
	rest := maps.Clone(object)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(rest, name)
	}
	all := []variant{
		{"only metadata", with(metadata, nil)},
		{"only labels", with(map[string]any{"labels": map[string]any{probeKey: "kept"}}, nil)},
		{"no labels and annotations", with(metadata, rest)},
		{"no metadata", with(nil, rest)},
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		fields, ok := rest[name].(map[string]any)
		if !ok {
			all = append(all, variant{"only " + name, with(metadata, map[string]any{name: rest[name]})})
			continue
		}
		all = append(all, variant{"empty " + name, with(metadata, map[string]any{name: map[string]any{}})})
		for i, field := range slices.Sorted(maps.Keys(fields)) {
			if i == maxFields {
				break
			}
			all = append(all, variant{"only " + name + "." + field, with(nil, map[string]any{name: map[string]any{field: fields[field]}})})
		}
	}
	return all
}

// partial sends parts of objects, one at a time so that a breakdown has a name.
func (e *examination) partial(ctx context.Context) {
	var failures, added []string
	sent := 0
	for _, p := range e.pairs() {
		var broken []string
		message := ""
		for _, part := range variants(e.samples.objects[p.from][0]) {
			if ctx.Err() != nil {
				return
			}
			sent++
			wrong, converted := e.probe(ctx, []map[string]any{part.object}, p.to)
			if wrong != "" {
				broken, message = append(broken, part.name), wrong
				continue
			}
			if len(converted) != 1 {
				continue
			}
			if paths := e.added(ctx, part.object, converted[0], p); paths != "" {
				added = append(added, fmt.Sprintf("%s, %s: %s", p, part.name, paths))
			}
		}
		if len(broken) > 0 {
			failures = append(failures, fmt.Sprintf("%s: %s (%s)", p, message, few(broken)))
		}
	}
	e.verdict(checkPartial, strings.Join(failures, "; "), v1alpha1.CheckFailed, fmt.Sprintf("%d parts of objects", sent))
	e.verdict(checkPartialAdds, few(added), v1alpha1.CheckWarning, "nothing is there that was not before")
}

// few joins the first few of some texts.
func few(texts []string) string {
	const most = 3
	if len(texts) <= most {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:most], ", "), len(texts)-most)
}

// added converts an object back and tells what it did not have before.
func (e *examination) added(ctx context.Context, object, converted map[string]any, p pair) string {
	wrong, back := e.probe(ctx, []map[string]any{converted}, p.from)
	if wrong != "" || len(back) != 1 {
		return ""
	}
	e.samples.schemas[p.from].Prune(back[0]) // What the server drops anyway is not added.
	var paths []string
	for _, d := range conversion.Differences(bare(object), bare(back[0]), e.samples.schemas[p.from]) {
		if d.Change == v1alpha1.ChangeAppeared {
			paths = append(paths, d.Path+" appears")
		}
	}
	return few(paths)
}

// differ tells how two forms of an object at a version differ, metadata aside.
func (e *examination) differ(before, after map[string]any, version string) string {
	var texts []string
	for _, d := range conversion.Differences(bare(before), bare(after), e.samples.schemas[version]) {
		texts = append(texts, d.Change+" "+d.Path)
	}
	return few(texts)
}

// bare returns an object without its metadata.
func bare(object map[string]any) map[string]any {
	object = maps.Clone(object)
	delete(object, "metadata")
	return object
}

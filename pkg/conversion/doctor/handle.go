package doctor

import (
	"context"
	"fmt"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

const (
	// many objects are as many as a client gets in one page of a list.
	many = 500
	// unknownVersion is a version that no CRD has.
	unknownVersion = "v0unknown"
	// unknownField is a field that no schema has.
	unknownField = "crdverUnknownField"
)

// handle sends what is unusual, and what the API server can send all the same.
func (e *examination) handle(ctx context.Context) error {
	probes := []func(context.Context){
		e.unknownVersion, e.emptyList, e.manyObjects, e.largeObject, e.mixedVersions, e.unknownFields, e.status, e.partial,
	}
	for _, probe := range probes {
		probe(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	e.annotations()
	return nil
}

// probe converts objects and says what is wrong with the answer that is not
// wrong with every answer.
func (e *examination) probe(ctx context.Context, objects []map[string]any, to string) (wrong string, converted []map[string]any) {
	found, converted := e.violations(e.send(ctx, e.reviews, objects, e.apiVersion(to)))
	var texts []string
	for _, v := range e.tally.unknown(found) {
		texts = append(texts, v.message)
	}
	return strings.Join(texts, "; "), converted
}

// unknownVersion asks for a version that does not exist, and looks at how the
// webhook says that a conversion failed.
func (e *examination) unknownVersion(ctx context.Context) {
	from := e.versions[0]
	a := e.send(ctx, e.reviews, e.samples.objects[from][:1], e.apiVersion(unknownVersion))
	message, failed := a.failed()
	switch {
	case failed && message != "":
		e.add(v1alpha1.CheckStageProtocol, checkUnknownVersion, v1alpha1.CheckOK, "Failed, %s", e.said(message))
	case failed:
		e.add(v1alpha1.CheckStageProtocol, checkUnknownVersion, v1alpha1.CheckOK, "Failed")
	case a.failure(e.Limit) != "":
		e.add(v1alpha1.CheckStageProtocol, checkUnknownVersion, v1alpha1.CheckFailed, "%s instead of an answer that says Failed", a.failure(e.Limit))
	case a.answer() == nil:
		e.add(v1alpha1.CheckStageProtocol, checkUnknownVersion, v1alpha1.CheckFailed, "no JSON")
	default:
		e.add(v1alpha1.CheckStageProtocol, checkUnknownVersion, v1alpha1.CheckFailed, "Success for a version that does not exist")
	}
	if !failed {
		const why = "it never said that a conversion failed"
		e.add(v1alpha1.CheckStageProtocol, checkFailedMessage, v1alpha1.CheckSkipped, why)
		e.add(v1alpha1.CheckStageProtocol, checkFailedObjects, v1alpha1.CheckSkipped, why)
		return
	}
	silent, objects := "", ""
	if message == "" {
		silent = "no message"
	}
	if n := len(a.answer().Response.ConvertedObjects); n > 0 {
		objects = english.Plural(n, "object") + ", although the conversion failed"
	}
	e.verdict(checkFailedMessage, silent, v1alpha1.CheckFailed, "there is one")
	e.verdict(checkFailedObjects, objects, v1alpha1.CheckFailed, "there are none")
}

// emptyList sends no objects. The API server does not, so that an error is no
// more than a warning, but other callers may.
func (e *examination) emptyList(ctx context.Context) {
	a := e.send(ctx, e.reviews, []map[string]any{}, e.apiVersion(e.versions[0]))
	if message, failed := a.failed(); failed {
		e.add(v1alpha1.CheckStageProtocol, checkEmptyList, v1alpha1.CheckOK, "Failed, %s", e.said(message))
		return
	}
	found, _ := e.violations(a)
	wrong := ""
	for _, v := range e.tally.unknown(found) {
		wrong = v.message
	}
	worst := v1alpha1.CheckWarning
	if a.err != nil {
		worst = v1alpha1.CheckFailed
	}
	e.verdict(checkEmptyList, wrong, worst, "no objects")
}

// manyObjects sends many objects at once.
func (e *examination) manyObjects(ctx context.Context) {
	p := e.pairs()[0]
	objects := make([]map[string]any, many)
	for i := range objects {
		objects[i] = dress(e.samples.objects[p.from][i%fewest], fmt.Sprintf("webhook-check-%d", i))
	}
	wrong, _ := e.probe(ctx, objects, p.to)
	e.verdict(checkMany, wrong, v1alpha1.CheckFailed, fmt.Sprintf("%d objects", many))
}

// largeObject sends an object that is as large as etcd takes.
func (e *examination) largeObject(ctx context.Context) {
	var failures []string
	tried := 0
	for _, p := range e.pairs() {
		object := runtime.DeepCopyJSON(e.samples.objects[p.from][0])
		where := enlarge(object, e.samples.schemas[p.from].Structural())
		if where == "" {
			continue
		}
		tried++
		wrong, converted := e.probe(ctx, []map[string]any{object}, p.to)
		e.tally.size(fmt.Sprintf("%s, an object with %d bytes in %s", p, largeBytes, where), converted)
		if wrong != "" {
			failures = append(failures, fmt.Sprintf("%s, in %s: %s", p, where, wrong))
		}
	}
	if tried == 0 {
		e.add(v1alpha1.CheckStageProtocol, checkLarge, v1alpha1.CheckSkipped, "the schemas have no field that can be so large")
		return
	}
	e.verdict(checkLarge, strings.Join(failures, "; "), v1alpha1.CheckFailed, "1.5 MB in one object")
}

// mixedVersions sends objects at several versions. With two versions one of them
// is the desired one, at which the API server sends no objects.
func (e *examination) mixedVersions(ctx context.Context) {
	to := e.versions[0]
	var objects []map[string]any
	for i, version := range e.versions {
		objects = append(objects, dress(e.samples.objects[version][0], fmt.Sprintf("webhook-check-mixed-%d", i)))
	}
	worst := v1alpha1.CheckWarning
	if len(e.versions) > 2 {
		objects, worst = objects[1:], v1alpha1.CheckFailed
	}
	wrong, converted := e.probe(ctx, objects, to)
	if wrong == "" && len(converted) == len(objects) && e.noRoundTrips == "" {
		wrong = e.mixedUp(ctx, objects, converted, to)
	}
	e.verdict(checkMixed, wrong, worst, "objects at "+strings.Join(e.versions, ", "))
}

// mixedUp compares the objects of a mixed request with each of them alone.
func (e *examination) mixedUp(ctx context.Context, objects, converted []map[string]any, to string) string {
	for i := range objects {
		wrong, alone := e.probe(ctx, objects[i:i+1], to)
		if wrong != "" || len(alone) != 1 {
			continue
		}
		if paths := e.differ(alone[0], converted[i], to); paths != "" {
			return "an object is not converted as it is alone: " + paths
		}
	}
	return ""
}

// unknownFields sends objects that have a field that is in no schema.
func (e *examination) unknownFields(ctx context.Context) {
	var failures []string
	for _, p := range e.pairs() {
		object := runtime.DeepCopyJSON(e.samples.objects[p.from][0])
		if spec := mapOf(object, "spec"); spec != nil {
			spec[unknownField] = map[string]any{"a": int64(1)}
		}
		object[unknownField] = "a"
		if wrong, _ := e.probe(ctx, []map[string]any{object}, p.to); wrong != "" {
			failures = append(failures, fmt.Sprintf("%s: %s", p, wrong))
		}
	}
	e.verdict(checkUnknownFields, strings.Join(failures, "; "), v1alpha1.CheckFailed, "it does not mind")
}

// status sends objects with a status.
func (e *examination) status(ctx context.Context) {
	var failures []string
	tried := 0
	for _, p := range e.pairs() {
		object := runtime.DeepCopyJSON(e.samples.objects[p.from][0])
		if len(mapOf(object, "status")) == 0 {
			object["status"] = e.made(p.from)["status"]
		}
		if len(mapOf(object, "status")) == 0 || !hasStatus(e.samples.schemas[p.to].Structural()) {
			continue
		}
		tried++
		switch wrong, converted := e.probe(ctx, []map[string]any{object}, p.to); {
		case wrong != "":
			failures = append(failures, fmt.Sprintf("%s: %s", p, wrong))
		case len(converted) == 1 && len(mapOf(converted[0], "status")) == 0:
			failures = append(failures, fmt.Sprintf("%s: status is lost", p))
		}
	}
	if tried == 0 {
		e.add(v1alpha1.CheckStageProtocol, checkStatus, v1alpha1.CheckSkipped, "the schemas have no status")
		return
	}
	e.verdict(checkStatus, strings.Join(failures, "; "), v1alpha1.CheckFailed, "it is kept")
}

// hasStatus reports whether objects of a version can have a status.
func hasStatus(root *structuralschema.Structural) bool {
	if root == nil {
		return false
	}
	_, ok := root.Properties["status"]
	return ok || root.XPreserveUnknownFields
}

// annotations says how large the annotations of converted objects became.
func (e *examination) annotations() {
	size, in := e.tally.annotations, e.tally.annotationsIn
	switch {
	case size > maxAnnotations:
		e.add(v1alpha1.CheckStageProtocol, checkAnnotations, v1alpha1.CheckFailed, "%d bytes (%s)", size, in)
	case size > maxAnnotations/2:
		e.add(v1alpha1.CheckStageProtocol, checkAnnotations, v1alpha1.CheckWarning, "%d bytes, more than half of what is allowed (%s)", size, in)
	default:
		e.add(v1alpha1.CheckStageProtocol, checkAnnotations, v1alpha1.CheckOK, "at most %d bytes", size)
	}
}

package managedfields_test

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/managedfields"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestApplyAfterRemoval is fact 5, and the way around it: once the version is
// removed, every earlier manager can still apply to the object whose entries
// were moved, and what it leaves out goes away, unless somebody else has it too.
func TestApplyAfterRemoval(t *testing.T) {
	t.Parallel()
	applyAfterRemoval(start(t, "v1beta1", "v1"))
}

func applyAfterRemoval(s *server) {
	for _, name := range []string{"moved", "control"} {
		s.must(s.apply("v1beta1", name, "a", `
  cronSpec: a
  legacy: a
  labels: {a: a}
  tags: [a, both]
  args: [one, two]
  ports: [{name: http, port: 1, hostPort: 2}, {name: both}]`))
		s.must(s.apply("v1beta1", name, "b", `
  image: b
  labels: {b: b}
  tags: [b, both]
  ports: [{name: grpc, port: 3}, {name: both}]`))
		s.patch("v1beta1", name, "c", `{"spec":{"replicas":1}}`)
		s.patch("v1", name, "c", `{"metadata":{"labels":{"c":"c"}}}`)
		s.patch("v1beta1", name, "d", `{"status":{"replicas":1}}`, "status")
	}
	s.wantOwners("moved", "a Apply v1beta1", "b Apply v1beta1", "c Update v1", "c Update v1beta1", "d Update v1beta1 status")
	s.storeAtV1()

	generation := s.stored("moved").GetGeneration()
	answer := s.move("moved", isV1beta1)
	if managedfields.Names(answer.ManagedFields, group+"/v1beta1") {
		s.Error("the answer still names v1beta1")
	}
	// No entry is ours, and c has one left.
	s.wantOwners("moved", "a Apply v1", "b Apply v1", "c Update v1", "d Update v1 status")
	s.wantSpec("moved", `{cronSpec: a, image: b, replicas: 1, labels: {a: a, b: b}, tags: [a, b, both], args: [one, two],
  ports: [{name: http, port: 1}, {name: grpc, port: 3}, {name: both}]}`)
	if got := s.stored("moved"); got.GetAPIVersion() != group+"/v1" || got.GetGeneration() != generation {
		s.Errorf("stored at %s with generation %d, want v1 and %d", got.GetAPIVersion(), got.GetGeneration(), generation)
	}
	s.patch("v1", "control", ourName, `{}`) // Migrated, but with its old entries.

	s.keepOnlyV1()
	s.waitUntilGone("control")

	if err := s.apply("v1", "control", "a", `{cronSpec: a}`); err == nil || !strings.Contains(err.Error(), "request to convert CR to an invalid group/version") {
		s.Errorf("without the move, the apply must fail as in fact 5; got %v", err)
	}
	s.must(s.apply("v1", "moved", "a", `{cronSpec: a}`))
	s.wantSpec("moved", `{cronSpec: a, image: b, replicas: 1, labels: {b: b}, tags: [b, both], ports: [{name: grpc, port: 3}, {name: both}]}`)
	s.must(s.apply("v1", "moved", "b", `{image: b}`))
	s.wantSpec("moved", `{cronSpec: a, image: b, replicas: 1}`)
	// What c and d own is still theirs.
	if err := s.apply("v1", "moved", "a", `{cronSpec: a, replicas: 2}`); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `"c"`) {
		s.Errorf("applying what c owns: got %v, want a conflict with c", err)
	}
	s.wantOwners("moved", "a Apply v1", "b Apply v1", "c Update v1", "d Update v1 status")
}

// TestNeverEmpty shows why an object must keep an entry, and that the one that
// it keeps hinders nobody.
func TestNeverEmpty(t *testing.T) {
	t.Parallel()
	s := start(t, "v1beta1", "v1")
	for _, name := range []string{"moved", "control"} {
		s.must(s.apply("v1beta1", name, "a", `{legacy: a}`))
	}
	s.storeAtV1()

	s.move("moved", isV1beta1)
	s.wantOwners("moved", "a Apply v1")
	// An entry without paths is one that the server drops.
	s.patch("v1", "control", ourName, fmt.Sprintf(
		`{"metadata":{"managedFields":[{"manager":"a","operation":"Apply","apiVersion":"%s/v1","fieldsType":"FieldsV1","fieldsV1":{}}]}}`, group))
	s.wantOwners("control")
	s.keepOnlyV1()

	for _, name := range []string{"moved", "control"} {
		s.patch("v1", name, "plain", `{"spec":{"image":"b"}}`)
		s.must(s.apply("v1", name, "b", `{image: b, cronSpec: b}`))
		s.must(s.apply("v1", name, "a", `{replicas: 1}`))
	}
	// In the control, the server did not record plain, and made up an owner.
	s.wantOwners("moved", "a Apply v1", "b Apply v1", "plain Update v1")
	s.wantOwners("control", "a Apply v1", "b Apply v1", "before-first-apply Update v1")
	s.must(s.apply("v1", "moved", "a", `{}`))
	s.must(s.apply("v1", "moved", "b", `{image: b}`))
	s.wantSpec("moved", `{image: b}`)
}

// TestOneGoneVersionSpoilsAll shows that the server keeps the old list, and
// answers 200, when any entry names a version that is gone.
func TestOneGoneVersionSpoilsAll(t *testing.T) {
	t.Parallel()
	s := start(t, "v1alpha1", "v1beta1", "v1")
	s.must(s.apply("v1alpha1", "object", "a", `{cronSpec: a, image: a}`))
	s.must(s.apply("v1beta1", "object", "b", `{replicas: 1}`))
	s.storeAtV1()
	s.patch("v1", "object", ourName, `{}`)
	s.keepOnlyV1()
	s.waitUntilGone("object")
	before := []string{"a Apply v1alpha1", "b Apply v1beta1"}
	s.wantOwners("object", before...)

	answer := s.move("object", isV1beta1)
	if !managedfields.Names(answer.ManagedFields, group+"/v1beta1") {
		t.Error("the answer does not say that nothing was moved")
	}
	s.wantOwners("object", before...)

	answer = s.move("object", isNotV1)
	if managedfields.Names(answer.ManagedFields, group+"/v1beta1") || managedfields.Names(answer.ManagedFields, group+"/v1alpha1") {
		t.Error("the answer still names a version that is gone")
	}
	s.wantOwners("object", "a Apply v1", "b Apply v1")
	s.must(s.apply("v1", "object", "a", `{cronSpec: a}`))
	s.must(s.apply("v1", "object", "b", `{}`))
	s.wantSpec("object", `{cronSpec: a}`)
}

// TestFieldThatOnlyTheTargetKnows shows that an entry of an older version is in
// the way long before that version is removed: with None, the server cannot
// compare an object that has a field of v1 at v1beta1 ("field not declared in
// schema"). It then refuses every apply at v1, and ignores managedFields in other
// writes. Moving the entries mends it.
func TestFieldThatOnlyTheTargetKnows(t *testing.T) {
	t.Parallel()
	fieldThatOnlyTheTargetKnows(start(t, "v1alpha1", "v1beta1", "v1"))
}

func fieldThatOnlyTheTargetKnows(s *server) {
	_, err := testbed.UpdateCRD(s.Context(), s.bed.Config(), testbed.CronTabCRD, func(crd *apiextensionsv1.CustomResourceDefinition) {
		spec := testbed.Version(crd, "v1").Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["mode"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	})
	s.must(err)
	s.must(s.apply("v1beta1", "object", "a", `{image: a}`))
	s.must(s.apply("v1alpha1", "object", "b", `{replicas: 1}`))
	s.storeAtV1()
	s.patch("v1", "object", "c", `{"spec":{"mode":"fast"}}`)
	s.wantOwners("object", "a Apply v1beta1", "b Apply v1alpha1") // c is not recorded.
	if err := s.apply("v1", "object", "a", `{image: b}`); err == nil || !strings.Contains(err.Error(), "field not declared in schema") {
		s.Errorf("got %v, want the server's refusal", err)
	}
	// v1beta1 is not gone, but its entry keeps that of v1alpha1 from being moved.
	if answer := s.move("object", func(apiVersion string) bool { return apiVersion == group+"/v1alpha1" }); !managedfields.Names(answer.ManagedFields, group+"/v1alpha1") {
		s.Error("the answer does not say that nothing was moved")
	}
	if answer := s.move("object", isNotV1); managedfields.Names(answer.ManagedFields, group+"/v1alpha1") {
		s.Error("nothing was moved")
	}
	s.must(s.apply("v1", "object", "a", `{cronSpec: a}`))
	s.wantSpec("object", `{cronSpec: a, mode: fast, replicas: 1}`)
	s.wantOwners("object", "a Apply v1", "b Apply v1")
}

// TestPatchConflicts shows that a patch that comes too late changes nothing, even
// when the list has become shorter.
func TestPatchConflicts(t *testing.T) {
	t.Parallel()
	s := start(t, "v1beta1", "v1")
	s.must(s.apply("v1beta1", "object", "a", `{cronSpec: a}`))
	s.must(s.apply("v1beta1", "object", "b", `{image: b}`))
	objects, meta := s.metadata("object")
	body, _, err := managedfields.Patch(meta, group+"/v1beta1", group+"/v1", s.knowsV1())
	s.must(err)
	s.must(s.apply("v1beta1", "object", "a", ``)) // a owns nothing now.
	_, err = objects.PatchMetadata(t.Context(), types.NamespacedName{Namespace: "default", Name: "object"}, cluster.PatchRequest{
		Type: types.MergePatchType, Body: body, FieldManager: ourName,
	})
	if !apierrors.IsConflict(err) {
		t.Errorf("got %v, want 409", err)
	}
	s.wantOwners("object", "b Apply v1beta1")
}

package preflight_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/mutation"
	"github.com/crdver/kubectl-crdver/pkg/preflight"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// FuzzCompare compares two CRDs that were changed at random places, with an object
// that was, too: no panic, twice the same, and a verdict that its findings bear
// out. Bytes alone hardly ever decode as another CRD, so changes are made to the
// decoded values.
func FuzzCompare(f *testing.F) {
	for i, dir := range caseDirs(f) {
		after := values(f, filepath.Join(dir, newFile))
		before := after
		for _, file := range []string{oldFile, liveFile} {
			if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
				before = values(f, filepath.Join(dir, file))
			}
		}
		f.Add(before, after, []byte(`{"spec":{"size":1,"mode":"none"}}`), uint64(i), uint8(i%5), i%2 == 0)
	}
	f.Add([]byte(`{"spec":{"versions":[null]},"status":{"storedVersions":[""]}}`), []byte(`{"spec":{"versions":[{"schema":{}}]}}`), []byte(`{}`), uint64(1), uint8(0), true)
	f.Add([]byte(`{}`), []byte(`{"spec":{"conversion":{"strategy":"Webhook","webhook":{}}}}`), []byte(`{"metadata":1}`), uint64(2), uint8(0), false)
	f.Fuzz(compareChanged)
}

// compareChanged is one run of FuzzCompare.
func compareChanged(t *testing.T, before, after, object []byte, seed uint64, changes uint8, live bool) {
	if len(before)+len(after)+len(object) > 1<<20 {
		return
	}
	random := rand.New(rand.NewPCG(seed, 0))
	old, okOld := changed(random, before, changes)
	next, okNext := changed(random, after, changes/2)
	var instance map[string]any
	if !okOld || !okNext || json.Unmarshal(object, &instance) != nil {
		return
	}
	run := func() string {
		in := preflight.Input{Rules: validate.Rules(), PreflightRules: preflight.Rules()}
		file := crd.Origin{File: newFile, APIVersion: next.APIVersion}
		in.New = validate.NewSubject(t.Context(), lifecycle.New(crd.CRD{CustomResourceDefinition: next, Origin: file}, lifecycle.Observations{}), now())
		one := crd.CRD{CustomResourceDefinition: old}
		if !live {
			one.Origin = crd.Origin{File: oldFile, APIVersion: old.APIVersion}
		}
		in.Old = validate.NewSubject(t.Context(), lifecycle.New(one, lifecycle.Observations{}), now())
		if check, err := preflight.NewCheck(in.Old.State, in.New.CRD); err == nil && check != nil && instance != nil {
			check.Add(t.Context(), runtime.DeepCopyJSON(instance))
			in.Objects = check.Result(nil, true, "")
		}
		item := preflight.Compare(in)
		verify(t, item)
		return text(t, item)
	}
	if first, second := run(), run(); first != second {
		t.Errorf("two runs differ on %s and %s:\n%s\nand:\n%s", before, after, first, second)
	}
}

// values returns a YAML file as JSON.
func values(f testing.TB, file string) []byte {
	f.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	values, err := yaml.YAMLToJSON(text)
	if err != nil {
		f.Fatal(err)
	}
	return values
}

// changed decodes a CRD, with changes.
func changed(random *rand.Rand, values []byte, changes uint8) (*apiextensionsv1.CustomResourceDefinition, bool) {
	var document map[string]any
	if json.Unmarshal(values, &document) != nil || document == nil {
		return nil, false
	}
	for range changes {
		mutation.Change(random, document)
	}
	values, err := json.Marshal(document)
	definition := &apiextensionsv1.CustomResourceDefinition{}
	return definition, err == nil && json.Unmarshal(values, definition) == nil
}

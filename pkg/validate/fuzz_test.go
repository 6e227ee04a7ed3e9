package validate_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/mutation"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// FuzzRules runs all rules on CRDs that were changed at random places, as a
// manifest and as a live CRD: no panic, and twice the same. Bytes alone hardly
// ever decode as another CRD, so changes are made to the decoded values.
func FuzzRules(f *testing.F) {
	for i, dir := range caseDirs(f) {
		text, err := os.ReadFile(filepath.Join(dir, "crd.yaml"))
		if err != nil {
			f.Fatal(err)
		}
		values, err := yaml.YAMLToJSON(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(values, uint64(i), uint8(i%7), i%2 == 0)
	}
	f.Add([]byte(`{"spec":{"versions":[null,{"name":"v1","schema":null},{"name":"v1","schema":{"openAPIV3Schema":null}}]}}`), uint64(1), uint8(0), false)
	f.Add([]byte(`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{}}},"versions":[{"deprecated":true,"deprecationWarning":""}]}}`),
		uint64(2), uint8(0), true)
	f.Fuzz(func(t *testing.T, values []byte, seed uint64, changes uint8, live bool) {
		var document map[string]any
		if len(values) > 1<<20 || json.Unmarshal(values, &document) != nil || document == nil {
			return
		}
		random := rand.New(rand.NewPCG(seed, 0))
		for range changes {
			mutation.Change(random, document)
		}
		values, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if json.Unmarshal(values, definition) != nil {
			return
		}
		one := crd.CRD{CustomResourceDefinition: definition}
		if !live {
			one.Origin = crd.Origin{File: "-", APIVersion: definition.APIVersion}
		}
		run := func() string {
			s := validate.NewSubject(t.Context(), lifecycle.New(one, lifecycle.Observations{}), time.Time{})
			if !live {
				s.Document = document
			}
			return lines(validate.Run(validate.Rules(), s))
		}
		if first, second := run(), run(); first != second {
			t.Errorf("two runs differ on %s:\n%s\nand:\n%s", values, first, second)
		}
	})
}

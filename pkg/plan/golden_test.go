package plan_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/goldenfile"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestPlans compares the plan of each case in testdata/plan with its goldens,
// as a document and as people see it.
func TestPlans(t *testing.T) {
	cases, err := filepath.Glob("../../testdata/plan/*")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, dir := range cases {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			state, intent := readCase(t, dir)
			cluster := v1alpha1.ClusterIdentity{Server: "https://cluster.example.com:6443", Context: "example"}
			got, err := plan.Build(state, cluster, intent)
			if err != nil {
				t.Fatal(err)
			}
			document, err := yaml.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			goldenfile.Compare(t, *update, filepath.Join(dir, "plan.golden.yaml"), string(document))
			var text bytes.Buffer
			if err := printers.WritePlan(&text, got, 0); err != nil {
				t.Fatal(err)
			}
			goldenfile.Compare(t, *update, filepath.Join(dir, "plan.golden.txt"), text.String())
		})
	}
}

func readCase(t *testing.T, dir string) (lifecycle.State, v1alpha1.Intent) {
	t.Helper()
	var c apiextensionsv1.CustomResourceDefinition
	var intent v1alpha1.Intent
	var observations lifecycle.Observations
	for name, into := range map[string]any{"crd.yaml": &c, "intent.yaml": &intent, "observations.yaml": &observations} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(data, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	recorded(&c)
	return lifecycle.New(crd.CRD{CustomResourceDefinition: &c}, observations), intent
}

// recorded gives a live CRD without managedFields those that the server records with its
// own first write: without any, nothing is known of who wrote the status.
func recorded(c *apiextensionsv1.CustomResourceDefinition) {
	if len(c.ManagedFields) == 0 {
		c.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:acceptedNames":{}}}`),
		}}
	}
}

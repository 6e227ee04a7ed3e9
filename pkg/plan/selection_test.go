package plan_test

import (
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
)

// TestSelectionThatCanOnlyBeAMistake has what would go over nothing, or not over
// what was meant, also where it comes from a file that somebody wrote.
func TestSelectionThatCanOnlyBeAMistake(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		intent  v1alpha1.Intent
		missing []string
		scope   apiextensionsv1.ResourceScope
		says    string
	}{
		{"a namespace that is not there", v1alpha1.Intent{Namespace: "stagin"}, []string{"stagin"}, "", "there is no namespace stagin: nothing would be migrated in it"},
		{"one of those that go first", v1alpha1.Intent{NamespacesFirst: []string{"a", "stagin"}}, []string{"stagin"}, "", "there is no namespace stagin"},
		{"two of them", v1alpha1.Intent{NamespacesFirst: []string{"x", "y"}}, []string{"x", "y"}, "", "there are no namespaces x, y"},
		{"no name of a namespace", v1alpha1.Intent{Namespace: "../a"}, nil, "", `"../a" cannot be the name of a namespace`},
		{"no name of one that goes first", v1alpha1.Intent{NamespacesFirst: []string{"A"}}, nil, "", `"A" cannot be the name of a namespace`},
		{"objects without a namespace", v1alpha1.Intent{Namespace: "a"}, nil, apiextensionsv1.ClusterScoped, "are in no namespace: --namespace does not fit"},
		{"no label selector", v1alpha1.Intent{Selector: "a=b=c"}, nil, "", `invalid label selector "a=b=c"`},
		{"namespaces that go first in one of several parts", v1alpha1.Intent{Shard: "0/3", NamespacesFirst: []string{"a"}}, nil, "", "--namespaces-first does not fit --shard: the other parts do not wait"},
		{"no shard", v1alpha1.Intent{Shard: "3/3"}, nil, "", "the parts are numbered from 0 to 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			state, _ := readCase(t, "../../testdata/plan/migrate-namespace")
			c := state.CRD
			if test.scope != "" {
				c.Spec.Scope = test.scope
			}
			test.intent.Verb = v1alpha1.VerbMigrate
			_, err := plan.Build(lifecycle.New(c, lifecycle.Observations{MissingNamespaces: test.missing}), v1alpha1.ClusterIdentity{}, test.intent)
			var input *plan.InputError
			if !errors.As(err, &input) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("want an input error that says %q, got %v", test.says, err)
			}
		})
	}
}

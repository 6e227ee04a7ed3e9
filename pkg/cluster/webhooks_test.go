package cluster

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestWebhookRules tells the rules that concern writes of a resource from others.
func TestWebhookRules(t *testing.T) {
	t.Parallel()
	all := []admissionv1.OperationType{admissionv1.OperationAll}
	for name, test := range map[string]struct {
		operations []admissionv1.OperationType
		groups     []string
		resources  []string
		want       bool
	}{
		"by name":         {all, []string{"example.com"}, []string{"crontabs"}, true},
		"everything":      {all, []string{"*"}, []string{"*"}, true},
		"and below":       {all, []string{"*"}, []string{"*/*"}, true},
		"its status":      {all, []string{"example.com"}, []string{"crontabs/status"}, true},
		"any status":      {all, []string{"example.com"}, []string{"*/status"}, true},
		"update":          {[]admissionv1.OperationType{admissionv1.Update}, []string{"example.com"}, []string{"pods", "crontabs"}, true},
		"create":          {[]admissionv1.OperationType{admissionv1.Create}, []string{"", "example.com"}, []string{"crontabs"}, true},
		"delete":          {[]admissionv1.OperationType{admissionv1.Delete}, []string{"example.com"}, []string{"crontabs/*"}, true},
		"connect":         {[]admissionv1.OperationType{admissionv1.Connect}, []string{"*"}, []string{"*/*"}, false},
		"other group":     {all, []string{"other.example.com", ""}, []string{"*"}, false},
		"other resource":  {all, []string{"example.com"}, []string{"cron", "crontabsets", "pods/crontabs"}, false},
		"nothing matched": {nil, nil, nil, false},
	} {
		rule := admissionv1.RuleWithOperations{
			Operations: test.operations, Rule: admissionv1.Rule{APIGroups: test.groups, Resources: test.resources},
		}
		status := test.want && strings.Contains(" and below, its status, any status", " "+name)
		if got := updatesStatus(rule, schema.GroupResource{Group: "example.com", Resource: "crontabs"}); got != status {
			t.Errorf("%s: of the status %t, want %t", name, got, status)
		}
		if got := writes(rule, schema.GroupResource{Group: "example.com", Resource: "crontabs"}); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

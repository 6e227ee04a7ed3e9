package testbed

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Policy is a ValidatingAdmissionPolicy on updates.
type Policy struct {
	// Name is that of the policy and of its binding.
	Name string
	Rule admissionv1.Rule
	// Labels narrow it to objects that have them.
	Labels map[string]string
	// Expression is the CEL expression that must hold, Message what the policy says
	// where it does not.
	Expression, Message string
}

// CreatePolicy creates a policy and binds it, and returns a function that deletes
// both. The API server takes a moment to heed either.
func CreatePolicy(ctx context.Context, config *rest.Config, p Policy) (remove func(context.Context) error, err error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	client := clients.AdmissionregistrationV1()
	fail := admissionv1.Fail
	_, err = client.ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{
				ObjectSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update}, Rule: p.Rule,
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: p.Expression, Message: p.Message}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the policy %s: %w", p.Name, err)
	}
	_, err = client.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: p.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("binding the policy %s: %w", p.Name, err)
	}
	return func(ctx context.Context) error {
		return errors.Join(
			client.ValidatingAdmissionPolicyBindings().Delete(ctx, p.Name, metav1.DeleteOptions{}),
			client.ValidatingAdmissionPolicies().Delete(ctx, p.Name, metav1.DeleteOptions{}))
	}, nil
}

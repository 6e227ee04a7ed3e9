//go:build controlplane

package fulltest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// helmRelease is a release as Helm stores it, in a Secret.
func helmRelease(t *testing.T, name, status string, revision int, manifest string) *corev1.Secret {
	t.Helper()
	plain, err := json.Marshal(map[string]any{
		"name": name, "namespace": "other", "version": revision, "manifest": manifest, "config": map[string]any{"password": "hunter2"},
		"hooks": []any{map[string]any{"name": "hook", "manifest": manifest}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	if _, err := writer.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, revision),
			Labels: map[string]string{"owner": "helm", "name": name, "status": status, "version": fmt.Sprint(revision)},
		},
		Type: "helm.sh/release.v1",
		Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(zipped.Bytes()))},
	}
}

// testUsageAround has everything around the objects that names v1beta1.
func testUsageAround(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "around.example.com", 1, "v1", "v1beta1")
	client := kubeClient(t, bed)
	old := s.group + "/v1beta1"
	_, err := client.AutoscalingV2().HorizontalPodAutoscalers("default").Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "around"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MaxReplicas:    2,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: old, Kind: "CronTab", Name: "object-000000"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rules := func(versions ...string) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{s.group}, APIVersions: versions, Resources: []string{"crontabs", "crontabs/status"}},
		}
	}
	ignore, none, url := admissionv1.Ignore, admissionv1.SideEffectClassNone, "https://127.0.0.1:1/"
	webhook := func(name string, rule admissionv1.RuleWithOperations) admissionv1.ValidatingWebhook {
		return admissionv1.ValidatingWebhook{
			Name: name, Rules: []admissionv1.RuleWithOperations{rule}, FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
		}
	}
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "around"},
		Webhooks: []admissionv1.ValidatingWebhook{
			webhook("old.example.com", rules("v1beta1")), webhook("both.example.com", rules("v1", "v1beta1")), webhook("all.example.com", rules("*")),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "around", metav1.DeleteOptions{}) // The bed goes, too.
	})
	_, err = client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "around"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			ParamKind:        &admissionv1.ParamKind{APIVersion: old, Kind: "CronTab"},
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rules("v1beta1")}}},
			Validations:      []admissionv1.Validation{{Expression: "true"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(t.Context(), &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "around"},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			ParamKind: &admissionv1.ParamKind{APIVersion: old, Kind: "CronTab"}, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
				{RuleWithOperations: rules("v1beta1")}, {RuleWithOperations: rules("v1")},
			}},
			Mutations: []admissionv1.Mutation{{
				PatchType:          admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: `Object{metadata: Object.metadata{labels: {"around": "yes"}}}`},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "around"},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: "around", ParamRef: &admissionv1.ParamRef{Name: "none", Namespace: "default", ParameterNotFoundAction: new(admissionv1.AllowAction)},
			MatchResources: &admissionv1.MatchResources{ExcludeResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rules("v1beta1")}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	manifest := "---\n# Source: shop/a.yaml\napiVersion: " + old + "\nkind: CronTab\nmetadata:\n  name: one\n---\napiVersion: " + old +
		"\nkind: Other\nmetadata:\n  name: two\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: three\n"
	for _, secret := range []*corev1.Secret{
		helmRelease(t, "shop", "deployed", 3, manifest),
		helmRelease(t, "gone", "superseded", 1, manifest),
		helmRelease(t, "current", "deployed", 2, strings.ReplaceAll(manifest, "/v1beta1", "/v1")),
		{ObjectMeta: metav1.ObjectMeta{Name: "fake", Labels: map[string]string{"owner": "helm", "status": "deployed"}}, Data: map[string][]byte{"release": []byte("nonsense")}},
	} {
		if _, err := client.CoreV1().Secrets("other").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// The same as ConfigMaps, which Helm keeps its releases in if it is told to.
	for _, secret := range []*corev1.Secret{
		helmRelease(t, "in-config-map", "deployed", 7, manifest), helmRelease(t, "in-config-map", "superseded", 6, manifest),
	} {
		_, err := client.CoreV1().ConfigMaps("other").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: secret.ObjectMeta, Data: map[string]string{"release": string(secret.Data["release"])},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.child(t, "around-child", old, "CronTab")

	items := s.usage(t, s.kubeconfig, 2, s.name, "--helm")
	item := items[1]
	wantRows(t, item, v1alpha1.UsageHPA, "object HorizontalPodAutoscaler default/around: names 1 objects, reference")
	wantRows(t, item, v1alpha1.UsageWebhook, "webhook around/old.example.com: names 1 rules, reference", "webhook around/both.example.com: names 1 rules, reference")
	wantRows(t, item, v1alpha1.UsagePolicy,
		"policy ValidatingAdmissionPolicy around: names 1 rules, reference", "policy ValidatingAdmissionPolicy around: read 0 , use",
		"policy MutatingAdmissionPolicy around: names 1 rules, reference", "policy MutatingAdmissionPolicy around: read 0 , use",
		"policy MutatingAdmissionPolicyBinding around: names 1 rules, reference")
	wantRows(t, item, v1alpha1.UsageHelm, "release other/in-config-map: names 2 objects, reference", "release other/shop: names 2 objects, reference")
	wantRows(t, item, v1alpha1.UsageOwnerReference, "resource configmaps: names 1 objects, reference")
	wantRows(t, item, v1alpha1.UsageManagedFields)
	wantRows(t, items[0], v1alpha1.UsageHelm, "release other/current: names 2 objects, reference")
	wantRows(t, items[0], v1alpha1.UsagePolicy, "policy MutatingAdmissionPolicy around: names 1 rules, reference")
	wantRows(t, items[0], v1alpha1.UsageWebhook, "webhook around/both.example.com: names 1 rules, reference")
	r := s.run(t, "usage", "v1beta1", s.name, "--helm", "-o", "wide", "--could")
	r.want(t, 2, "helm: other/fake holds no release that can be read", "once the version is not served, it is not asked about the others either",
		"group system:masters", "default/around-child", "revision 3", "revision 7")
	r.lacks(t, "hunter2")
	// Without --helm, Secrets are not decoded.
	s.run(t, "usage", "v1beta1", s.name).lacks(t, "other/shop")
}

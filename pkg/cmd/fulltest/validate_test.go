//go:build controlplane

package fulltest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func validateScenarios() []scenario {
	return []scenario{
		{name: "conversion service", run: testConversionService},
		{name: "preflight and a policy", run: testPreflightPolicy},
		{name: "preflight and rights", run: testPreflightRights},
	}
}

// serviceConversion points to a service.
func serviceConversion(namespace string, port int32) *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{Namespace: namespace, Name: "converter", Port: &port},
			},
			ConversionReviewVersions: []string{"v1"},
		},
	}
}

// testConversionService takes the service of a conversion webhook through what
// people report: it is elsewhere (case 47), has another port, has no endpoints
// (case 41), and its namespace is going (case 39).
func testConversionService(t *testing.T, bed *testbed.Full, _ *subject) {
	client := kubeClient(t, bed).CoreV1()
	space := func(name string, finalizers ...corev1.FinalizerName) {
		t.Helper()
		_, err := client.Namespaces().Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NamespaceSpec{Finalizers: finalizers},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	service := func(namespace string) {
		t.Helper()
		_, err := client.Services(namespace).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "converter"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "converter"}, Ports: []corev1.ServicePort{{Port: 443}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	crd := cronTabs("service.example.com", "v1beta1", "v1")
	crd.Spec.Conversion = serviceConversion("there", 8443)
	s := subjectOf(t, bed, crd, 0)
	validate := []string{"validate", s.name}

	s.run(t, validate...).want(t, 2, "[conversion-service-missing]", "there")
	space("elsewhere")
	service("elsewhere")
	s.run(t, validate...).want(t, 2, "[conversion-service-missing]", "elsewhere")
	space("there")
	s.run(t, validate...).want(t, 2, "[conversion-service-missing]", "converter")
	service("there")
	s.run(t, validate...).want(t, 2, "[conversion-service-missing]", "8443", "443")
	port := []byte(`{"spec":{"ports":[{"port":8443}]}}`)
	if _, err := client.Services("there").Patch(t.Context(), "converter", types.MergePatchType, port, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.run(t, validate...).want(t, 2, "[conversion-service-without-endpoints]")
	ready, number := true, int32(8443)
	_, err := kubeClient(t, bed).DiscoveryV1().EndpointSlices("there").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "converter", Labels: map[string]string{discoveryv1.LabelServiceName: "converter"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.9"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Port: &number}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := s.run(t, validate...)
	r.want(t, 0, "[ca-bundle-missing]")
	r.lacks(t, "[conversion-service")
	// A finalizer of the service keeps the namespace terminating.
	held := []byte(`{"metadata":{"finalizers":["example.com/held"]}}`)
	if _, err := client.Services("there").Patch(t.Context(), "converter", types.MergePatchType, held, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.Namespaces().Delete(t.Context(), "there", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.run(t, validate...).want(t, 0, "[conversion-namespace-terminating]")
	free := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := client.Services("there").Patch(t.Context(), "converter", types.MergePatchType, free, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// manifestOf writes a manifest with which somebody would replace a live CRD.
func (s *subject) manifestOf(t *testing.T, change func(*apiextensionsv1.CustomResourceDefinition)) string {
	t.Helper()
	crd := s.crd(t)
	next := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: crd.Name, Labels: crd.Labels}, Spec: crd.Spec,
	}
	change(next)
	text, err := json.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "crd.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// testPreflightPolicy has a policy that allows no more storage at v1 (case 87).
func testPreflightPolicy(t *testing.T, bed *testbed.Full, _ *subject) {
	crd := cronTabs("preflight-guard.example.com", "v1beta1", "v1")
	crd.Labels = map[string]string{"preflight-guarded": "yes"}
	s := subjectOf(t, bed, crd, 2)
	rule := admissionv1.Rule{APIGroups: []string{apiextensions}, APIVersions: []string{"*"}, Resources: []string{crds}}
	probe := []byte(`[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`)
	open := policy(t, bed, "preflight-guard", "object.spec.versions.all(v, v.name != 'v1' || !v.storage)", rule, crd.Labels, func(t *testing.T) error {
		t.Helper()
		_, err := s.crds(t).Patch(t.Context(), s.name, types.JSONPatchType, probe, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	flip := s.manifestOf(t, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	same := s.manifestOf(t, func(*apiextensionsv1.CustomResourceDefinition) {})
	before := s.snapshot(t)
	s.run(t, "preflight", "-f", flip).want(t, 2, s.name+": refused", "[admission-denied]", "preflight-guard", "it is frozen")
	s.run(t, "preflight", "-f", flip, "--server-dry-run=false").want(t, 0, s.name+": ok", "then: kubectl crdver migrate "+s.name)
	s.run(t, "preflight", "-f", same).want(t, 0, s.name+": ok")
	s.unwritten(t, before)
	open(t)
	s.run(t, "preflight", "-f", flip).want(t, 0, s.name+": ok")
}

// testPreflightRights has users who may not do what preflight asks for: what
// could not be found out is said, and never taken for an answer (case 71).
func testPreflightRights(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "preflight-rights.example.com", 3, "v1beta1", "v1")
	narrow := s.manifestOf(t, func(c *apiextensionsv1.CustomResourceDefinition) {
		delete(c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "image")
	})
	unserved := s.manifestOf(t, func(c *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(c, "v1")
		testbed.Version(c, "v1beta1").Served = false
	})
	reader, err := bed.User(t.Context(), "preflight-reader", rule(apiextensions, crds, "get", "list"))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := kubeconfigOf(t, reader)
	r := s.runAs(t, kubeconfig, "preflight", "-f", narrow)
	r.want(t, 0, s.name+": unknown", "[objects-unknown]", "forbidden", "server dry run said nothing")
	s.runAs(t, kubeconfig, "preflight", "-f", unserved).want(t, 0, "who uses it could not be found out", "forbidden")
	s.runAs(t, kubeconfig, "validate", s.name).want(t, 0, "[storage-version-not-preferred]")
	nobody, err := bed.User(t.Context(), "preflight-nobody", rule("", "pods", "get"))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig = kubeconfigOf(t, nobody)
	s.runAs(t, kubeconfig, "preflight", "-f", narrow).want(t, 1, "forbidden")
	s.runAs(t, kubeconfig, "validate", s.name).want(t, 1, "forbidden")
	s.runAs(t, kubeconfig, "validate").want(t, 1, "forbidden")
	// With all rights, and a time that is over.
	s.run(t, "preflight", "-f", narrow, "--timeout", "1ns").want(t, 124)
	s.run(t, "validate", "--timeout", "1ns").want(t, 124)
	got := decode[v1alpha1.PreflightReport](t, s.run(t, "preflight", "-f", narrow, "-o", "json"))
	if o := got.Items[0].Objects; o == nil || o.Pruned != 3 || !o.Complete {
		t.Errorf("%+v", got.Items[0])
	}
}

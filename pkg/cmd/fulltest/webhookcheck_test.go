//go:build controlplane

package fulltest_test

import (
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// machineAddress returns an address of this machine that the API server's proxy
// takes: one of the loopback device it refuses.
func machineAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no IPv4 address but that of the loopback device, and the API server's proxy does not go there")
	return ""
}

// TestWebhookCheck examines a webhook behind a service, through the API server. The
// server itself reaches it at its endpoints, because there is no kube-proxy.
func TestWebhookCheck(t *testing.T) {
	t.Parallel()
	address := machineAddress(t)
	bed := startFull(t, testbed.FullOptions{APIServerArgs: []string{"--enable-aggregator-routing=true"}})
	converter, err := testbed.StartConverter(t.Context(), testbed.ConverterOptions{Address: address + ":0", Names: []string{"converter.hooks.svc"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(converter.Stop)

	const group, port, objects = "service.example.com", int32(8443), 200
	crd := testbed.HostPorts(group)
	path, number := "/convert", port
	crd.Spec.Conversion = converter.Conversion("v1", "v1beta1")
	crd.Spec.Conversion.Webhook.ClientConfig.URL = nil
	crd.Spec.Conversion.Webhook.ClientConfig.Service = &apiextensionsv1.ServiceReference{
		Namespace: "hooks", Name: "converter", Path: &path, Port: &number,
	}
	s := subjectOf(t, bed, crd, 0)
	check := []string{"webhook-check", s.name}
	s.run(t, check...).want(t, 2, "conversion-service-missing", "stopped here: nothing can be called")

	client := kubeClient(t, bed)
	if err := testbed.CreateNamespaces(t.Context(), bed.Config(), "hooks", "other"); err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Services("hooks").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "converter"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "converter"}, Ports: []corev1.ServicePort{{Name: "https", Port: port}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, check...).want(t, 2, "conversion-service-without-endpoints", "stopped here: nothing can be called")
	podAt(t, client, "hooks", "converter", address)
	ready, name, target := true, "https", int32(converter.Port()) //nolint:gosec // A port.
	_, err = client.DiscoveryV1().EndpointSlices("hooks").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "converter", Labels: map[string]string{discoveryv1.LabelServiceName: "converter"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "hooks", Name: "converter"},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &target}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	r := s.run(t, check...)
	r.want(t, 0, "(through the API server), objects made up from the schemas", "hooks/converter has port 8443 and 1 ready endpoint",
		"there is no object that the API server could convert", "forward a port to the service")
	err = testbed.CreateObjects(t.Context(), bed.Config(), s.at("v1beta1"), objects, testbed.ObjectOptions{
		Namespaces: []string{"default", "other"},
		New: func(version, namespace, name string, i int) *unstructured.Unstructured {
			return testbed.NewHostPort(group, version, namespace, name, i)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	before := s.snapshot(t)
	r = s.run(t, check...)
	r.want(t, 0, "objects of the cluster", "v1beta1 to v1 and back, 200 objects: nothing is lost", "the API server reads an object at v1, v1beta1")
	t.Log("\n" + r.stdout)
	s.unwritten(t, before)

	// A forwarded port: the certificate has to be the one for the service.
	s.run(t, append(check, "--url", converter.URL())...).want(t, 0, "it is for converter.hooks.svc", "signed by")
	// It is not in a cluster that this machine is part of.
	s.run(t, append(check, "--via", "direct")...).want(t, 2, "stopped here: the webhook cannot be reached")

	for fault, want := range map[testbed.Fault]string{
		testbed.FaultDropsField: "lost spec.image in 200 objects",
		testbed.FaultHTTPError:  "HTTP status 500 instead of an answer that says Failed",
		testbed.FaultOnlyFull:   "(only metadata, only labels, no metadata",
		testbed.FaultNotJSON:    "no JSON",
	} {
		converter.SetFault(fault)
		s.run(t, check...).want(t, 2, want)
	}
	converter.SetFault("")
	rightsOfProxy(t, s, check)

	// The API server still reaches it, its proxy does not.
	if err := client.CoreV1().Pods("hooks").Delete(t.Context(), "converter", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	s.run(t, check...).want(t, 0, "no endpoints available", "stopped here: the API server itself reaches the webhook")
}

// podAt creates a pod that has an address, as if it ran: the API server's proxy
// goes to pods only.
func podAt(t *testing.T, client kubernetes.Interface, namespace, name, address string) {
	t.Helper()
	// No controller makes it on this bed.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mount := false
	pod, err := client.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "converter"}},
		Spec:       corev1.PodSpec{AutomountServiceAccountToken: &mount, Containers: []corev1.Container{{Name: "converter", Image: "example.com/converter"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	if _, err := client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// rightsOfProxy examines as somebody who may read all, and call no service.
func rightsOfProxy(t *testing.T, s *subject, check []string) {
	t.Helper()
	client := kubeClient(t, s.bed)
	_, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "readers"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(s.bed.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: "reader"}
	s.runAs(t, kubeconfigOf(t, config), check...).want(t, 1, "the right to create services/proxy", "reachable")
}

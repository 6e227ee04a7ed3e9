package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func startConverter(t *testing.T, o testbed.ConverterOptions) *testbed.Converter {
	t.Helper()
	c, err := testbed.StartConverter(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// documented creates the CRD of the Kubernetes documentation in a group, with a
// webhook and n objects.
func (b *bed) documented(t *testing.T, group string, c *testbed.Converter, n int) string {
	t.Helper()
	definition := testbed.HostPorts(group)
	definition.Spec.Conversion = c.Conversion("v1", "v1beta1")
	name := b.createCRD(t, definition)
	err := testbed.CreateObjects(t.Context(), b.Config(), resource(group, "v1beta1"), n, testbed.ObjectOptions{
		Namespaces: []string{"a", "b"},
		New: func(version, namespace, name string, i int) *unstructured.Unstructured {
			return testbed.NewHostPort(group, version, namespace, name, i)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func checksOf(t *testing.T, r result) *v1alpha1.WebhookCheckReport {
	t.Helper()
	var report v1alpha1.WebhookCheckReport
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v in %s", err, r)
	}
	return &report
}

// failed returns "NAME: MESSAGE" of the checks that failed.
func failed(report *v1alpha1.WebhookCheckReport) []string {
	var found []string
	for _, item := range report.Items {
		for _, check := range item.Checks {
			if check.Result == v1alpha1.CheckFailed {
				found = append(found, check.Name+": "+check.Message)
			}
		}
	}
	return found
}

// TestWebhookCheck examines a webhook that is right, with 2,000 objects both ways,
// and then one that is made wrong in one way after the other.
func TestWebhookCheck(t *testing.T) {
	t.Parallel()
	m := &traffic{}
	b := start(t, testbed.InProcessOptions{Middleware: m.wrap})
	c := startConverter(t, testbed.ConverterOptions{})
	const objects = 2000
	name := b.documented(t, "checked.example.com", c, objects)
	revisions := b.revisions(t)
	m.take()

	got := b.must(t, 0, "webhook-check", name, "--sample", fmt.Sprint(objects), "-o", "json")
	report := checksOf(t, got)
	item := report.Items[0]
	if item.Objects.Source != "cluster" || item.Objects.RoundTrips != 2*objects || report.Summary.Failed != 0 || item.Via != "direct" {
		t.Errorf("%+v, %+v", item.Objects, report.Summary)
	}
	text := b.must(t, 0, "webhook-check", name, "--sample", "50").stdout
	contains(t, text, name+": "+c.URL()+", objects of the cluster", "round-trip", "v1 to v1beta1 and back, 50 objects: nothing is lost",
		"server-converts", "the API server reads an object at v1, v1beta1", "it answers v1beta1 as well", "days left", "1 webhook: ")
	t.Log("\n" + text)
	contains(t, b.must(t, 0, "webhook-check", name, "--sample", "50", "-o", "wide").stdout, "PROTOCOL", "response.uid is request.uid")

	if _, dry, writes := m.take(); len(dry)+len(writes) > 0 {
		t.Errorf("it wrote: %q, %q", writes, dry)
	}
	for _, test := range []struct {
		fault testbed.Fault
		want  string
	}{
		{testbed.FaultDropsField, "lost spec.image in 200 objects"},
		{testbed.FaultForgetsStatus, "status is lost"},
		{testbed.FaultLosesPrecision, "changed spec.size in 200 objects"},
		{testbed.FaultStateful, "changed spec.image"},
		{testbed.FaultChangesName, "object-name: "},
		{testbed.FaultChangesUID, "object-uid: "},
		{testbed.FaultFinalizers, "other-metadata: metadata.finalizers"},
		{testbed.FaultSwapsOrder, "object-order: "},
		{testbed.FaultEveryTenth, "reliability: "},
	} {
		c.SetFault(test.fault)
		report := checksOf(t, b.must(t, 2, "webhook-check", name, "--sample", "200", "-o", "json"))
		found := failed(report)
		if !strings.Contains(strings.Join(found, "\n"), test.want) {
			t.Errorf("%s: found %q, want %q", test.fault, found, test.want)
		}
		for _, one := range found {
			if strings.HasPrefix(one, "known-fields") {
				t.Errorf("%s: pruning is blamed: %s", test.fault, one)
			}
		}
	}
	b.wantUnwritten(t, revisions)
	if _, dry, writes := m.take(); len(dry)+len(writes) > 0 {
		t.Errorf("it wrote: %q, %q", writes, dry)
	}

	// A webhook that fails for live objects: reading them fails, too.
	c.SetFault(testbed.FaultAlwaysFails)
	got = b.must(t, 2, "webhook-check", name)
	contains(t, got.stdout, "conversion-fails", "stopped here: ")
	c.SetFault("")
	junit := b.must(t, 0, "webhook-check", name, "--sample", "10", "-o", "junit").stdout
	contains(t, junit, `<testsuite name="crontabs.checked.example.com"`, `name="protocol object-order"`)
	if got := b.must(t, 0, "webhook-check", name, "--sample", "10", "-o", "name").stdout; got != "" {
		t.Errorf("nothing failed, but: %q", got)
	}
}

// TestWebhookCheckValues: a message of the webhook about live objects can hold
// their values.
func TestWebhookCheckValues(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	c := startConverter(t, testbed.ConverterOptions{})
	name := b.documented(t, "private.example.com", c, 3)
	c.SetFault(testbed.FaultStrict)
	hidden := b.must(t, 2, "webhook-check", name)
	contains(t, hidden.stdout, "unknown-fields", "which --show-values shows")
	if strings.Contains(hidden.stdout, "json: unknown field") {
		t.Errorf("a message is shown: %s", hidden)
	}
	contains(t, b.must(t, 2, "webhook-check", name, "--show-values").stdout, "json: unknown field")
}

// TestWebhookCheckWithoutCluster examines a webhook under development: no
// kubeconfig is there.
func TestWebhookCheckWithoutCluster(t *testing.T) {
	t.Parallel()
	c := startConverter(t, testbed.ConverterOptions{})
	definition := testbed.HostPorts("dev.example.com")
	text, err := yaml.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	object, err := yaml.Marshal(testbed.NewHostPort("dev.example.com", "v1beta1", "default", "a", 1).Object)
	if err != nil {
		t.Fatal(err)
	}
	crd, ca, example := writeFile(t, "crd.yaml", text), writeFile(t, "ca.crt", c.CA()), writeFile(t, "example.yaml", object)
	run := func(code int, args ...string) result {
		t.Helper()
		got := execute(t.Context(), neverRead{t}, append([]string{"webhook-check", "--kubeconfig", "/nonexistent"}, args...)...)
		if got.code != code {
			t.Fatalf("%q: want exit code %d, got %s", args, code, got)
		}
		return got
	}
	got := run(0, "-f", crd, "--url", c.URL(), "--ca", ca)
	contains(t, got.stdout, "objects made up from the schemas", "--url is called instead", "nothing is lost")
	contains(t, run(0, "-f", crd, "-f", example, "--url", c.URL(), "--ca", ca).stdout, "objects of files", "v1beta1 to v1 and back, 1 object: nothing is lost")
	contains(t, run(0, "-f", crd).stderr, "has the conversion strategy None", "No conversion webhooks found")

	c.SetFault(testbed.FaultWrongVersion)
	contains(t, run(2, "-f", crd, "--url", c.URL(), "--ca", ca).stdout, "desired-version", "FAIL")
	if got := run(0, "-f", crd, "--url", c.URL(), "--ca", ca, "--skip", "desired-version").stdout; strings.Contains(got, "FAIL") {
		t.Error(got)
	}
	// Another CA, and nothing at the address.
	contains(t, run(2, "-f", crd, "--url", c.URL(), "--ca", writeFile(t, "other.crt", startConverter(t, testbed.ConverterOptions{}).CA())).stdout,
		"certificate-chain", "stopped here: the API server does not talk to a webhook whose certificate it does not accept")
	contains(t, run(2, "-f", crd, "--url", "https://127.0.0.1:1/convert", "--ca", ca).stdout, "connection refused", "stopped here: the webhook cannot be reached")
	// It never ends by itself.
	c.SetFault(testbed.FaultHangs)
	begin := time.Now()
	run(124, "-f", crd, "--url", c.URL(), "--ca", ca, "--timeout", "1s")
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("--timeout 1s took %s", took)
	}
	for _, wrong := range [][]string{
		{"-f", crd, "--via", "server"}, {"--via", "there"}, {"--ca", ca}, {"--url", c.URL(), "--via", "server"},
		{"--calls", "-1"}, {"--sample", "0"}, {"--skip", "no-such-check"}, {"-f", crd, "crontabs"},
	} {
		if got := run(1, wrong...); got.stdout != "" || !strings.Contains(got.stderr, "webhook-check --help") {
			t.Errorf("%q: %s", wrong, got)
		}
	}
	definition.Spec.Conversion = c.Conversion()
	definition.Spec.Conversion.Webhook.ClientConfig.URL = nil
	definition.Spec.Conversion.Webhook.ClientConfig.Service = &apiextensionsv1.ServiceReference{Namespace: "there", Name: "converter"}
	if text, err = yaml.Marshal(definition); err != nil {
		t.Fatal(err)
	}
	contains(t, run(1, "-f", writeFile(t, "service.yaml", text)).stderr, "behind a service, which only a cluster can reach: name its address with --url")
}

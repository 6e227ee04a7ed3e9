package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// validate runs validate on a live CRD and returns its findings. It writes
// nothing.
func (b *bed) validate(t *testing.T, code int, args ...string) []v1alpha1.Finding {
	t.Helper()
	before := b.revisions(t)
	got := b.must(t, code, append([]string{"validate", "-o", "json"}, args...)...)
	b.wantUnwritten(t, before)
	var report v1alpha1.ValidationReport
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	return report.Findings
}

// wantRules makes sure of the rules that have findings, worst first.
func wantRules(t *testing.T, findings []v1alpha1.Finding, want ...string) {
	t.Helper()
	var rules []string
	for _, f := range findings {
		rules = append(rules, f.Rule)
	}
	if !slices.Equal(rules, want) {
		t.Errorf("rules %q, want %q: %+v", rules, want, findings)
	}
}

// TestValidateLive looks at CRDs of a server in the states of their life.
func TestValidateLive(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	crdName := b.scene(t, "life.example.com", 4)
	wantRules(t, b.validate(t, 0, crdName), "storage-version-not-preferred")

	b.updateCRD(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
		text := "life.example.com/v1beta1 CronTab is deprecated; use life.example.com/v1 CronTab"
		c.Spec.Versions[0].Storage, c.Spec.Versions[1].Storage = false, true
		c.Spec.Versions[0].Deprecated, c.Spec.Versions[0].DeprecationWarning = true, &text
	})
	findings := b.validate(t, 0, crdName)
	wantRules(t, findings, "migration-pending", "deprecation-seen-by-clients")
	if f := findings[0]; !strings.Contains(f.Fix, "kubectl crdver migrate "+crdName) {
		t.Error(f.Fix)
	}
	// What clients see is asked of the server, not put together.
	if f := findings[1]; !strings.Contains(f.Message, "life.example.com/v1beta1 CronTab is deprecated; use life.example.com/v1 CronTab") {
		t.Error(f.Message)
	}
	b.patchStored(t, crdName, "v1")
	wantRules(t, b.validate(t, 0, crdName), "stored-versions-untrusted", "deprecation-seen-by-clients")
	b.patchStored(t, crdName, "v1alpha7", "v1")
	findings = b.validate(t, 2, crdName)
	wantRules(t, findings, "stored-version-missing", "stored-versions-untrusted", "deprecation-seen-by-clients")
	b.must(t, 0, "migrate", crdName, "--yes")
	b.updateCRD(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Served = false })
	findings = b.validate(t, 0, crdName)
	wantRules(t, findings, "version-could-be-removed")
	if f := findings[0]; !strings.Contains(f.Fix, "kubectl crdver retire v1beta1 "+crdName) {
		t.Error(f.Fix)
	}
	b.must(t, 0, "retire", "v1beta1", crdName, "--yes")
	wantRules(t, b.validate(t, 0, crdName, "--fail-on", "info"))
}

// TestValidateNames has a CRD whose names another one has already.
func TestValidateNames(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	b.scene(t, "names.example.com", 0)
	second := crontabs("names.example.com", "v1")
	second.Name, second.Spec.Names.Plural = "cronjobs.names.example.com", "cronjobs"
	if _, err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), second, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(b.crd(t, second.Name).Status.Conditions) > 1 })
	findings := b.validate(t, 2, second.Name)
	if len(findings) == 0 || !slices.ContainsFunc(findings, func(f v1alpha1.Finding) bool { return f.Rule == "names-not-accepted" }) {
		t.Errorf("%+v", findings)
	}
}

// TestValidateConverter looks at conversion webhooks: one that works, one that
// is down, one with another certificate.
func TestValidateConverter(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	hook := startWebhook(t)
	group := "converter.example.com"
	crdName := b.createCRD(t, hook.converted(group))
	b.createObjects(t, group, "v1beta1", 2, "a")
	wantRules(t, b.validate(t, 0, crdName), "webhook-on-localhost", "printer-columns-differ", "storage-version-not-preferred")

	hook.broken.Store(true)
	findings := b.validate(t, 2, crdName)
	wantRules(t, findings[:1], "conversion-fails")
	if f := findings[0]; !strings.Contains(f.Message, "the converter is out of order") || !strings.Contains(f.Message, "intact") {
		t.Error(f.Message)
	}
	hook.broken.Store(false)

	// The webhook gets another certificate, the caBundle stays.
	b.writeCRD(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Spec.Conversion.Webhook.ClientConfig.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: newCertificate(t)})
	})
	eventually(t, func() bool {
		findings = b.validate(t, 2, crdName)
		return findings[0].Rule == "ca-bundle-mismatch"
	})
	if f := findings[0]; !strings.Contains(f.Message, "x509") {
		t.Error(f.Message)
	}
	hook.server.Close()
	findings = b.validate(t, 2, crdName)
	wantRules(t, findings[:1], "conversion-fails")
}

// newCertificate returns a certificate that nothing is signed with, in DER.
func newCertificate(t *testing.T) []byte {
	t.Helper()
	return certificateUntil(t, time.Now().Add(365*24*time.Hour))
}

func certificateUntil(t *testing.T, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

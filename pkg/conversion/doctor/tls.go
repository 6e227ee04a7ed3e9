package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// TLS is what can be seen of the certificate of a webhook.
type TLS struct {
	// Present returns what the webhook presents, the leaf first; nil where that
	// cannot be seen, and then Why says why.
	Present func(ctx context.Context) ([]*x509.Certificate, error)
	Why     string
	// Host is what the certificate has to be for.
	Host string
	// CA holds what it has to be signed by, in PEM; empty for the roots of this
	// machine.
	CA []byte
}

// soon is when a certificate that ends is worth a warning, unless its life is so
// short that a tenth of it is less.
const soon = 7 * 24 * time.Hour

// tls checks the certificate. A direct call would fail for the same reasons, so
// that the examination ends with the first one.
func (e *examination) tls(ctx context.Context) error {
	e.bundle()
	if e.TLS.Present == nil {
		for _, name := range []string{checkChain, checkHost, checkExpiry} {
			e.add(v1alpha1.CheckStageTLS, name, v1alpha1.CheckSkipped, "%s", e.TLS.Why)
		}
		return nil
	}
	presented, err := e.TLS.Present(ctx)
	if err != nil || len(presented) == 0 {
		for _, name := range []string{checkChain, checkHost, checkExpiry} {
			e.add(v1alpha1.CheckStageTLS, name, v1alpha1.CheckSkipped, "no certificate came")
		}
		if err == nil {
			return nil
		}
		e.add(v1alpha1.CheckStageReachability, checkReachable, v1alpha1.CheckFailed, "%s", cause(err))
		return &stopError{"the webhook cannot be reached"}
	}
	failed := e.chain(presented)
	failed = e.host(presented[0]) || failed
	if e.expiry(presented) || failed {
		return &stopError{"the API server does not talk to a webhook whose certificate it does not accept"}
	}
	return nil
}

// bundle says until when the CA is valid. What is wrong with it is validate's to find.
func (e *examination) bundle() {
	for _, check := range e.report.Checks {
		if check.Stage == v1alpha1.CheckStageTLS {
			return
		}
	}
	if len(strings.TrimSpace(string(e.TLS.CA))) == 0 {
		e.add(v1alpha1.CheckStageTLS, checkCABundle, v1alpha1.CheckWarning, "there is none: the roots of a machine decide, the API server's or this one's")
		return
	}
	var until time.Time
	count := 0
	for block, rest := pem.Decode(e.TLS.CA); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			count++
			if certificate.NotAfter.After(until) {
				until = certificate.NotAfter
			}
		}
	}
	switch {
	case count == 0:
		e.add(v1alpha1.CheckStageTLS, checkCABundle, v1alpha1.CheckFailed, "no certificate can be read in it")
	case until.Before(e.Now):
		e.add(v1alpha1.CheckStageTLS, checkCABundle, v1alpha1.CheckFailed, "it ended on %s", day(until))
	default:
		e.add(v1alpha1.CheckStageTLS, checkCABundle, v1alpha1.CheckOK, "%d in it, the last one until %s, %d days", count, day(until), e.days(until))
	}
}

// chain reports whether nothing trusted signed the certificate. The time is left
// to another check.
func (e *examination) chain(presented []*x509.Certificate) (failed bool) {
	options := x509.VerifyOptions{Intermediates: x509.NewCertPool(), CurrentTime: within(e.Now, presented[0])}
	if len(strings.TrimSpace(string(e.TLS.CA))) > 0 {
		options.Roots = x509.NewCertPool()
		options.Roots.AppendCertsFromPEM(e.TLS.CA)
	}
	for _, certificate := range presented[1:] {
		options.Intermediates.AddCert(certificate)
	}
	chains, err := presented[0].Verify(options)
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired && options.CurrentTime != e.Now {
		e.add(v1alpha1.CheckStageTLS, checkChain, v1alpha1.CheckSkipped, "its time is over")
		return false
	}
	if err != nil {
		e.add(v1alpha1.CheckStageTLS, checkChain, v1alpha1.CheckFailed, "%v", err)
		return true
	}
	e.add(v1alpha1.CheckStageTLS, checkChain, v1alpha1.CheckOK, "signed by %q", chains[0][len(chains[0])-1].Subject.String())
	return false
}

// within returns a time in the life of a certificate.
func within(now time.Time, certificate *x509.Certificate) time.Time {
	switch {
	case now.After(certificate.NotAfter):
		return certificate.NotAfter
	case now.Before(certificate.NotBefore):
		return certificate.NotBefore
	default:
		return now
	}
}

func (e *examination) host(leaf *x509.Certificate) (failed bool) {
	if err := leaf.VerifyHostname(e.TLS.Host); err != nil {
		e.add(v1alpha1.CheckStageTLS, checkHost, v1alpha1.CheckFailed, "%v", err)
		return true
	}
	e.add(v1alpha1.CheckStageTLS, checkHost, v1alpha1.CheckOK, "it is for %s", e.TLS.Host)
	return false
}

func (e *examination) expiry(presented []*x509.Certificate) (failed bool) {
	first := slices.MinFunc(presented, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	leaf, until := presented[0], first.NotAfter
	e.report.Certificate = &v1alpha1.WebhookCertificate{Names: names(leaf), NotAfter: metav1.NewTime(until), DaysLeft: e.days(until)}
	switch {
	case e.Now.Before(leaf.NotBefore):
		e.add(v1alpha1.CheckStageTLS, checkExpiry, v1alpha1.CheckFailed, "it is not valid before %s", leaf.NotBefore.UTC().Format(time.RFC3339))
		return true
	case !e.Now.Before(until):
		e.add(v1alpha1.CheckStageTLS, checkExpiry, v1alpha1.CheckFailed, "it ended on %s", day(until))
		return true
	case until.Sub(e.Now) < min(soon, first.NotAfter.Sub(first.NotBefore)/10):
		e.add(v1alpha1.CheckStageTLS, checkExpiry, v1alpha1.CheckWarning, "%d days left, until %s", e.days(until), day(until))
	default:
		e.add(v1alpha1.CheckStageTLS, checkExpiry, v1alpha1.CheckOK, "%d days left, until %s", e.days(until), day(until))
	}
	return false
}

func names(leaf *x509.Certificate) []string {
	all := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}

func (e *examination) days(until time.Time) int { return int(until.Sub(e.Now).Hours() / 24) }

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

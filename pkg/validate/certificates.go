package validate

import (
	"crypto/x509"
	"encoding/pem"
	"time"
)

// certificates returns those of a bundle that can be read. What cannot be read at
// all is the rule ca-bundle-invalid's.
func certificates(bundle []byte) []*x509.Certificate {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return all
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, certificate)
		}
	}
}

// validity is the time in which at least one certificate of a bundle is valid.
// One is enough: while certificates are rotated a bundle has the old and the new
// one, and Go's verification takes any root that is valid.
type validity struct {
	valid bool
	// from is when the first one that is not yet valid becomes so; zero if there is none.
	from time.Time
	// until is when the last one of all ends.
	until time.Time
}

// validity looks at the caBundle that the API server uses. It reports false if
// there is none that a person could replace: an injector fills in that of a manifest.
func (s *Subject) validity() (validity, bool) {
	config := s.clientConfig()
	if config == nil || !s.Live() && s.injector() != "" {
		return validity{}, false
	}
	all := certificates(caBundle(config))
	var found validity
	for _, certificate := range all {
		switch {
		case certificate.NotBefore.After(s.Now):
			if found.from.IsZero() || certificate.NotBefore.Before(found.from) {
				found.from = certificate.NotBefore
			}
		case certificate.NotAfter.After(s.Now):
			found.valid = true
		}
		if certificate.NotAfter.After(found.until) {
			found.until = certificate.NotAfter
		}
	}
	return found, len(all) > 0
}

// day writes a time as a date.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

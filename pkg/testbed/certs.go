package testbed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// certificateLife is longer than any bed lives.
const certificateLife = 7 * 24 * time.Hour

// authority is a certificate authority for one bed.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	certPEM     []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of the authority: %w", err)
	}
	template := template(pkix.Name{CommonName: "testbed-ca"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of the authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing the certificate of the authority: %w", err)
	}
	return &authority{certificate: certificate, key: key, certPEM: encodePEM("CERTIFICATE", der)}, nil
}

func template(subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

// serving signs a certificate for a server on the loopback device.
func (a *authority) serving() (certPEM, keyPEM []byte, err error) {
	template := template(pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	return a.sign(template)
}

// client signs a certificate of a user.
func (a *authority) client(user string, groups ...string) (certPEM, keyPEM []byte, err error) {
	template := template(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

func (a *authority) sign(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate: %w", err)
	}
	keyPEM, err = encodeKey(key)
	return encodePEM("CERTIFICATE", der), keyPEM, err
}

// config returns a client configuration of a user for the server at host.
func (a *authority) config(host, user string, groups ...string) (*rest.Config, error) {
	certPEM, keyPEM, err := a.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            host,
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: a.certPEM, CertData: certPEM, KeyData: keyPEM},
	}, nil
}

// The files that the servers read.
const (
	caFile                = "ca.crt"
	servingCertFile       = "apiserver.crt"
	servingKeyFile        = "apiserver.key"
	serviceAccountKeyFile = "serviceaccount.key"
)

// writeFiles writes the files that the servers read.
func (a *authority) writeFiles(dir string) error {
	certPEM, keyPEM, err := a.serving()
	if err != nil {
		return err
	}
	serviceAccountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generating the service account key: %w", err)
	}
	serviceAccountPEM, err := encodeKey(serviceAccountKey)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		caFile:                a.certPEM,
		servingCertFile:       certPEM,
		servingKeyFile:        keyPEM,
		serviceAccountKeyFile: serviceAccountPEM,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("writing certificates: %w", err)
		}
	}
	return nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return encodePEM("EC PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

package testbed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// ConverterOptions configures a conversion webhook.
type ConverterOptions struct {
	// Address is where it listens; empty is a free port of the loopback device.
	Address string
	// Names are more DNS names and addresses that its certificate is for.
	Names []string
	// Fault is what is wrong with it; empty is nothing.
	Fault Fault
	// Delay is how long a call takes that a fault makes slow.
	Delay time.Duration
}

// Converter is a conversion webhook, served with TLS, for the objects of
// [HostPorts]: the case of the Kubernetes documentation, whose v1beta1 has
// spec.hostPort "localhost:1234" and whose v1 has spec.host and spec.port. It can
// be made wrong in one way at a time.
type Converter struct {
	url      string
	ca       []byte
	delay    time.Duration
	listener net.Listener
	server   *http.Server

	fault    atomic.Value
	calls    atomic.Int64
	running  atomic.Int64
	stopping chan struct{}
}

// StartConverter starts a conversion webhook. ctx bounds the start only; it runs
// until Stop.
func StartConverter(ctx context.Context, o ConverterOptions) (*Converter, error) {
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listening for the webhook: %w", err)
	}
	ca, certificate, err := converterCertificate(o)
	if err != nil {
		_ = listener.Close() // Nothing serves it; the error is what matters.
		return nil, err
	}
	c := &Converter{
		url: "https://" + listener.Addr().String() + "/convert", ca: ca, delay: o.Delay, listener: listener, stopping: make(chan struct{}),
	}
	c.fault.Store(o.Fault)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /convert", c.serve)
	c.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0), // It panics on purpose.
	}
	go func() { _ = c.server.ServeTLS(listener, "", "") }() // It ends with Stop.
	return c, nil
}

// converterCertificate signs what the webhook presents: for its address and its
// names, unless the fault is about the certificate.
func converterCertificate(o ConverterOptions) (ca []byte, certificate tls.Certificate, err error) {
	authority, err := newAuthority()
	if err != nil {
		return nil, certificate, err
	}
	template := template(pkix.Name{CommonName: "converter"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, certificate, fmt.Errorf("the address of the webhook: %w", err)
	}
	for _, name := range append([]string{host, "localhost"}, o.Names...) {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	switch o.Fault {
	case FaultExpired:
		template.NotBefore, template.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
	case FaultOtherHost:
		template.IPAddresses, template.DNSNames = nil, []string{"other.example.com"}
	default:
	}
	signer := authority
	if o.Fault == FaultOtherCA {
		if signer, err = newAuthority(); err != nil {
			return nil, certificate, err
		}
	}
	certPEM, keyPEM, err := signer.sign(template)
	if err != nil {
		return nil, certificate, err
	}
	if certificate, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return nil, certificate, fmt.Errorf("the certificate of the webhook: %w", err)
	}
	return authority.certPEM, certificate, nil
}

// URL is where the webhook answers.
func (c *Converter) URL() string { return c.url }

// CA returns the certificate, in PEM, that a client has to trust.
func (c *Converter) CA() []byte { return c.ca }

// Port is the port that the webhook listens at.
func (c *Converter) Port() int {
	if address, ok := c.listener.Addr().(*net.TCPAddr); ok {
		return address.Port
	}
	return 0
}

// Calls returns how many requests came.
func (c *Converter) Calls() int64 { return c.calls.Load() }

// SetFault makes the webhook wrong in another way from the next request on;
// empty makes it right. What it presents stays.
func (c *Converter) SetFault(fault Fault) { c.fault.Store(fault) }

// Stop ends the webhook and waits for nothing.
func (c *Converter) Stop() {
	close(c.stopping)
	_ = c.server.Close() // Whoever still waits gets an error.
}

// Conversion is what a CRD says to have its objects converted by the webhook.
func (c *Converter) Conversion(reviewVersions ...string) *apiextensionsv1.CustomResourceConversion {
	return ConversionAt(c.url, c.ca, reviewVersions...)
}

package review

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// maxResponse bounds what is read of a webhook's answer: the API server takes
// objects of 3 MiB, and one request can hold several.
const maxResponse = 64 << 20

// handshakeTimeout bounds looking at a certificate.
const handshakeTimeout = 10 * time.Second

// Response is the answer to one request, whatever it is.
type Response struct {
	Status      int
	ContentType string
	Body        []byte
	Took        time.Duration
}

// Caller posts one request to a webhook. An error means that there was no answer.
type Caller interface {
	Post(ctx context.Context, body []byte) (Response, error)
	// String says where the webhook is and how it is reached.
	String() string
}

// Direct calls a webhook at its URL.
type Direct struct {
	address    string
	serverName string
	client     *http.Client
}

// NewDirect returns a caller of a URL. ca holds the PEM certificates that its
// certificate is checked against; empty stands for those of this machine.
// serverName is the name to check, empty for the host of the URL.
func NewDirect(address string, ca []byte, serverName string) (*Direct, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the address of the webhook: %w", err)
	}
	if parsed.Scheme != "https" || parsed.Host == "" {
		return nil, fmt.Errorf("the address of the webhook %q is not https://HOST[:PORT][/PATH]", address)
	}
	config := &tls.Config{ServerName: serverName, MinVersion: tls.VersionTLS12}
	if len(bytes.TrimSpace(ca)) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("the CA of the webhook holds no certificate in PEM")
		}
	}
	transport := &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 32}
	if serverName == "" {
		serverName = parsed.Hostname()
	}
	return &Direct{address: address, serverName: serverName, client: &http.Client{
		Transport: transport,
		// The API server does not follow redirects of webhooks either.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// String returns the address.
func (d *Direct) String() string { return d.address }

// Post implements [Caller].
func (d *Direct) Post(ctx context.Context, body []byte) (Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.address, bytes.NewReader(body))
	if err != nil {
		return Response{}, fmt.Errorf("calling the webhook %s: %w", d.address, err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	begin := time.Now()
	answer, err := d.client.Do(request)
	if err != nil {
		return Response{}, fmt.Errorf("calling the webhook %s: %w", d.address, err)
	}
	defer func() { _ = answer.Body.Close() }() // Only read.
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxResponse+1))
	if err != nil {
		return Response{}, fmt.Errorf("reading the answer of the webhook %s: %w", d.address, err)
	}
	if len(text) > maxResponse {
		return Response{}, fmt.Errorf("the answer of the webhook %s is larger than %d MiB", d.address, maxResponse>>20)
	}
	return Response{Status: answer.StatusCode, ContentType: answer.Header.Get("Content-Type"), Body: text, Took: time.Since(begin)}, nil
}

// Certificates returns what the webhook presents, the leaf first, whether or not
// it is to be trusted.
func (d *Direct) Certificates(ctx context.Context) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	parsed, err := url.Parse(d.address)
	if err != nil {
		return nil, fmt.Errorf("the address of the webhook: %w", err)
	}
	port := parsed.Port()
	if port == "" {
		port = strconv.Itoa(defaultPort)
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: d.Host(), MinVersion: tls.VersionTLS12}} //nolint:gosec // Nothing is sent or trusted.
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(parsed.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("connecting to the webhook %s: %w", d.address, err)
	}
	defer func() { _ = connection.Close() }() // Nothing was sent.
	secure, ok := connection.(*tls.Conn)
	if !ok {
		return nil, fmt.Errorf("connecting to the webhook %s: not a TLS connection", d.address)
	}
	return secure.ConnectionState().PeerCertificates, nil
}

// Host is the name that the certificate of the webhook has to be for.
func (d *Direct) Host() string { return d.serverName }

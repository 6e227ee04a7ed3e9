package testbed

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// Proxy is a real HTTP/2 reverse proxy in front of servers, in which a test steps
// in between a client and them. Each connection leads to one of the servers, in
// turn, as behind a balancer that does not look into connections.
type Proxy struct {
	listener    *trackedListener
	server      *http.Server
	config      *rest.Config
	connections atomic.Int64

	mu       sync.Mutex
	backends []http.Handler
	stepIn   StepIn
}

// StepIn does something with a request, mostly by having the server answer it:
// next.ServeHTTP(w, r). Panicking with [http.ErrAbortHandler] cuts it off.
type StepIn func(w http.ResponseWriter, r *http.Request, next http.Handler)

type connectionKey struct{}

// StartProxy starts a proxy to servers, of which it is the users that the
// configurations name. ctx bounds the start only; it runs until Stop.
func StartProxy(ctx context.Context, servers ...*rest.Config) (*Proxy, error) {
	return StartProxyOfStreams(ctx, 0, servers...)
}

// StartProxyOfStreams is StartProxy with a limit of the streams at a time in each
// connection; 0 means that of net/http.
func StartProxyOfStreams(ctx context.Context, maxStreams int, servers ...*rest.Config) (*Proxy, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	p := &Proxy{}
	if err := p.Lead(servers...); err != nil {
		return nil, err
	}
	authority, err := newAuthority()
	if err != nil {
		return nil, err
	}
	certPEM, keyPEM, err := authority.serving()
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("the certificate of the proxy: %w", err)
	}
	if p.listener, err = listenLoopback(); err != nil {
		return nil, err
	}
	p.config = &rest.Config{
		Host: "https://" + p.listener.Addr().String(), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority.certPEM},
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:  log.New(io.Discard, "", 0), // It cuts connections on purpose.
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, p.connections.Add(1))
		},
	}
	go func() { _ = p.server.ServeTLS(p.listener, "", "") }() // It ends with Stop.
	return p, nil
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	connection, _ := r.Context().Value(connectionKey{}).(int64)
	p.mu.Lock()
	stepIn, next := p.stepIn, p.backends[int(connection)%len(p.backends)]
	p.mu.Unlock()
	// A server may answer 404 before it reads what was sent. Then the client stops
	// sending until the answer has ended, and the way to the server does not end
	// before all was sent: each would wait for the other.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if stepIn == nil {
		next.ServeHTTP(w, r)
		return
	}
	stepIn(w, r, next)
}

// Lead makes the proxy lead to other servers from the next request on.
func (p *Proxy) Lead(servers ...*rest.Config) error {
	if len(servers) == 0 {
		return errors.New("a proxy needs a server")
	}
	var backends []http.Handler
	for _, config := range servers {
		transport, err := rest.TransportFor(unlimited(config))
		if err != nil {
			return fmt.Errorf("the way to %s: %w", config.Host, err)
		}
		target, err := url.Parse(config.Host)
		if err != nil {
			return fmt.Errorf("the address of a server: %w", err)
		}
		backends = append(backends, &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport:     transport,
			FlushInterval: -1,
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
				panic(http.ErrAbortHandler) // The client went away, or the server did.
			},
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backends = backends
	return nil
}

// StepIn has a function deal with each request from now on; nil has none.
func (p *Proxy) StepIn(stepIn StepIn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stepIn = stepIn
}

// Config returns a client configuration that leads through the proxy.
func (p *Proxy) Config() *rest.Config { return rest.CopyConfig(p.config) }

// Connections returns how many connections were opened.
func (p *Proxy) Connections() int64 { return p.connections.Load() }

// CloseConnections cuts off all clients.
func (p *Proxy) CloseConnections() { p.listener.closeConnections() }

// Stop cuts off all clients and ends the proxy.
func (p *Proxy) Stop() {
	_ = p.server.Close() // Whoever still waits gets an error.
}

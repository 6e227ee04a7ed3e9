package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// relay is a TCP proxy that delays what comes in, on each way, by half a round
// trip, and counts it. It does not limit the bandwidth. The handshake of TCP
// itself is not delayed, that of TLS is.
type relay struct {
	listener net.Listener
	target   string
	delay    time.Duration
	// sent and received count bytes as the client sees them, those of TLS
	// included.
	sent, received atomic.Int64

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

// startRelay starts a relay to the server at a URL.
func startRelay(ctx context.Context, server string, roundTrip time.Duration) (*relay, error) {
	target, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	r := &relay{listener: listener, target: target.Host, delay: roundTrip / 2, open: map[net.Conn]struct{}{}}
	go r.accept(ctx)
	return r, nil
}

// url returns the URL at which the relay is the server.
func (r *relay) url() string { return "https://" + r.listener.Addr().String() }

// close ends the relay and cuts its connections.
func (r *relay) close() {
	_ = r.listener.Close() // Nobody connects any more, either way.
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for conn := range r.open {
		_ = conn.Close() // Both sides see the end.
	}
}

func (r *relay) accept(ctx context.Context) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.target)
		if err != nil || !r.track(client, server) {
			_ = client.Close() // The client sees that nobody is there.
			continue
		}
		go r.forward(client, server, &r.sent)
		go r.forward(server, client, &r.received)
	}
}

func (r *relay) track(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		for _, conn := range conns {
			_ = conn.Close() // It came too late.
		}
		return false
	}
	for _, conn := range conns {
		r.open[conn] = struct{}{}
	}
	return true
}

// chunk is what came in at once, and when it goes on.
type chunk struct {
	data []byte
	due  time.Time
}

// forward takes one direction. The two of a connection end together.
func (r *relay) forward(from, to net.Conn, count *atomic.Int64) {
	defer func() { _ = from.Close() }()
	if r.delay == 0 {
		r.copy(from, count, func(data []byte) bool { return write(to, data) })
		_ = to.Close()
		return
	}
	chunks := make(chan chunk, 4096)
	go func() {
		defer func() { _ = to.Close() }()
		for c := range chunks {
			time.Sleep(time.Until(c.due))
			write(to, c.data) // After an error, the queue is only emptied.
		}
	}()
	defer close(chunks)
	r.copy(from, count, func(data []byte) bool {
		chunks <- chunk{data: append([]byte(nil), data...), due: time.Now().Add(r.delay)}
		return true
	})
}

func (r *relay) copy(from net.Conn, count *atomic.Int64, pass func([]byte) bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		count.Add(int64(n))
		if n > 0 && !pass(buffer[:n]) || err != nil {
			return
		}
	}
}

func write(to net.Conn, data []byte) bool {
	_, err := to.Write(data)
	return err == nil
}

package testbed

import (
	"fmt"
	"net"
	"sync"
)

// trackedListener can close the connections that it accepted. A server that
// stops gracefully waits a second for clients that keep theirs open.
type trackedListener struct {
	net.Listener
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func listenLoopback() (*trackedListener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return &trackedListener{Listener: listener, conns: map[net.Conn]struct{}{}}, nil
}

// Accept implements net.Listener.
func (l *trackedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // Callers compare the errors of listeners.
	}
	tracked := &trackedConn{Conn: conn, listener: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[tracked] = struct{}{}
	return tracked, nil
}

// closeConnections closes what is open now.
func (l *trackedListener) closeConnections() {
	l.mu.Lock()
	conns := l.conns
	l.conns = map[net.Conn]struct{}{}
	l.mu.Unlock()
	for conn := range conns {
		_ = conn.Close() // The other side sees the end either way.
	}
}

type trackedConn struct {
	net.Conn
	listener *trackedListener
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // Callers compare the errors of connections.
}

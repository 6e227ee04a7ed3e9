package cluster

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// perConnection is the number of requests in flight at which a pool opens
	// another connection. A server allows 100 streams in one, a proxy may allow
	// far fewer; and all of them wait when one packet is lost.
	perConnection = 16
	// maxConnections bounds what a pool opens.
	maxConnections = 16
)

// Pooled are objects that can be reached over connections of their own.
type Pooled interface {
	// Pool returns the same objects over new connections, as many as there are
	// requests in flight for. Close it at the end.
	Pool() Pool
}

// Pool is objects over connections that nobody else uses.
type Pool interface {
	Objects
	// Carried returns the bytes that the connections carried so far, both ways,
	// with everything that TLS and HTTP add.
	Carried() int64
	// Close closes the connections once they are idle.
	Close()
}

type pool struct {
	cluster *Cluster
	carried atomic.Int64

	mu      sync.Mutex
	clients []*pooledClient
}

type pooledClient struct {
	rest.Interface
	inFlight int
	close    func()
	// ready says that a request has come back, so that there is a connection. Until
	// then each further request would open another one.
	ready bool
}

// pooledObjects are the objects over a pool.
type pooledObjects struct {
	objects
	pool *pool
}

var (
	_ Pooled = objects{}
	_ Pool   = pooledObjects{}
)

// Pool implements [Pooled].
func (o objects) Pool() Pool {
	p := &pool{cluster: o.cluster}
	return pooledObjects{objects: objects{cluster: o.cluster, resource: o.resource, pool: p}, pool: p}
}

func (o pooledObjects) Carried() int64 { return o.pool.carried.Load() }

func (o pooledObjects) Close() {
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	for _, client := range o.pool.clients {
		client.close()
	}
	o.pool.clients = nil
}

// connection returns the client with the fewest requests in flight, and the
// function that gives it back. While a client connects for the first time, the
// others do its work.
func (p *pool) connection() (rest.Interface, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var best, connecting *pooledClient
	for _, client := range p.clients {
		switch {
		case !client.ready:
			connecting = client
		case best == nil || client.inFlight < best.inFlight:
			best = client
		}
	}
	if best == nil {
		best = connecting
	}
	if best == nil || best.inFlight >= perConnection && connecting == nil && len(p.clients) < maxConnections {
		client, err := p.open()
		if err != nil {
			return nil, nil, err
		}
		best = client
	}
	best.inFlight++
	return best, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		best.inFlight--
		best.ready = true
	}, nil
}

// open adds a client whose connections are counted. The lock is held.
func (p *pool) open() (*pooledClient, error) {
	config := rest.CopyConfig(p.cluster.config)
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext // As client-go.
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return countedConnection{Conn: connection, carried: &p.carried}, nil
	}
	raw, done, err := freshOf(config)
	if err != nil {
		return nil, err
	}
	client := &pooledClient{Interface: raw, close: done}
	p.clients = append(p.clients, client)
	return client, nil
}

// countedConnection counts what it carries.
type countedConnection struct {
	net.Conn
	carried *atomic.Int64
}

func (c countedConnection) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	c.carried.Add(int64(n))
	return n, err //nolint:wrapcheck // net/http looks at what it is.
}

func (c countedConnection) Write(data []byte) (int, error) {
	n, err := c.Conn.Write(data)
	c.carried.Add(int64(n))
	return n, err //nolint:wrapcheck // As above.
}

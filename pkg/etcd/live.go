package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const (
	// pageBytes is about how much one page holds. Etcd sends whole values, and does
	// not limit a page by its size.
	pageBytes = 4 << 20
	// maxPageBytes is what no page may exceed. A value has 1.5 MB unless etcd runs
	// with another --max-request-bytes.
	maxPageBytes = 64 << 20
	// The objects in a page: the first one, while nothing is known of their size,
	// and the most.
	firstPage = 100
	maxPage   = 2000
	// callTimeout bounds one request.
	callTimeout = time.Minute
	// maxRestarts is how often a resource is begun again because etcd compacted
	// away the revision that it was read at. The API server has etcd compact every
	// five minutes: what takes longer than that is read from a snapshot.
	maxRestarts = 3
)

// Live is an etcd that runs.
type Live struct {
	prefix    string
	endpoints []string
	clients   []*client
	token     string
	options   LiveOptions
	revision  int64
	// The number of objects in the next page.
	page int64
}

var _ Source = (*Live)(nil)

// LiveOptions say how to reach an etcd.
type LiveOptions struct {
	// Endpoints are its members: https://HOST:PORT, http://HOST:PORT, HOST:PORT
	// (TLS if there is a certificate to use) or unix:///PATH. They are tried in turn.
	Endpoints []string
	// CAFile, CertFile and KeyFile are files for TLS.
	CAFile, CertFile, KeyFile string
	// User and Password are for an etcd with authentication by password.
	User, Password string
	// Prefix of the keys; empty is DefaultPrefix.
	Prefix string

	// maxPageBytes is the constant, but for tests.
	maxPageBytes int
}

// OpenLive prepares reading an etcd. No request is sent yet.
func OpenLive(options LiveOptions) (*Live, error) {
	l := &Live{prefix: cleanPrefix(options.Prefix), endpoints: options.Endpoints, options: options, page: firstPage}
	if len(options.Endpoints) == 0 {
		return nil, errors.New("no etcd endpoint is given")
	}
	tls, err := options.tls()
	if err != nil {
		return nil, err
	}
	for _, endpoint := range options.Endpoints {
		client, err := newClient(endpoint, tls, options.CAFile != "" || options.CertFile != "", cmp.Or(options.maxPageBytes, maxPageBytes))
		if err != nil {
			_ = l.Close() // The error says more.
			return nil, err
		}
		l.clients = append(l.clients, client)
	}
	return l, nil
}

// Describe implements [Source].
func (l *Live) Describe() v1alpha1.EtcdSource {
	return v1alpha1.EtcdSource{Endpoints: l.endpoints, Prefix: l.prefix, Revision: l.revision}
}

// Close implements [Source].
func (l *Live) Close() error {
	var problems []error
	for _, client := range l.clients {
		problems = append(problems, client.close())
	}
	return errors.Join(problems...)
}

// Scan implements [Source]. Each resource is read at the revision of its first
// page, which is the newest one that a majority of etcd has (linearizable).
func (l *Live) Scan(ctx context.Context, resources []schema.GroupResource, visitor Visitor) error {
	for _, resource := range resources {
		var err error
		for restart := 0; ; restart++ {
			if err = l.scan(ctx, resource, visitor); !compacted(err) {
				break
			}
			if restart == maxRestarts {
				err = fmt.Errorf("etcd compacted away the revision that was being read, %d times; read a snapshot (--etcd-snapshot): %w", restart+1, err)
				break
			}
		}
		if err != nil {
			return fmt.Errorf("reading %s from etcd: %w", resource, err)
		}
	}
	return nil
}

// scan reads a resource at one revision.
func (l *Live) scan(ctx context.Context, resource schema.GroupResource, visitor Visitor) error {
	prefix := resourcePrefix(l.prefix, resource)
	request := rangeRequest{key: []byte(prefix), end: prefixEnd(prefix)}
	for {
		request.limit = l.page
		page, err := l.get(ctx, request)
		switch {
		case status.Code(err) == codes.ResourceExhausted && l.page > 1:
			l.page = max(1, l.page/4) // The objects are larger than those before.
			continue
		case err != nil:
			return err
		}
		if request.revision == 0 {
			request.revision, l.revision = page.revision, page.revision
			visitor.Begin(resource, page.revision)
		}
		for _, kv := range page.kvs {
			if len(kv.key) <= len(prefix) || string(kv.key[:len(prefix)]) != prefix {
				return errors.New("it answered with a key that was not asked for")
			}
			visitor.Visit(Object{Resource: resource, Path: kv.key[len(prefix):], Value: kv.value})
		}
		if !page.more || len(page.kvs) == 0 {
			return nil
		}
		l.page = min(maxPage, max(1, pageBytes*int64(len(page.kvs))/int64(page.size)))
		request.key = append(append([]byte(nil), page.kvs[len(page.kvs)-1].key...), 0)
	}
}

// get asks one member after the other.
func (l *Live) get(ctx context.Context, request rangeRequest) (rangeResponse, error) {
	var problems []error
	for i, client := range l.clients {
		response, err := l.getFrom(ctx, client, request)
		if err == nil || ctx.Err() != nil || !unreachable(err) {
			// The next page is asked of the same member, which is known to answer.
			l.clients[0], l.clients[i] = l.clients[i], l.clients[0]
			return response, err
		}
		problems = append(problems, fmt.Errorf("%s: %w", client.endpoint, l.hint(err)))
	}
	return rangeResponse{}, errors.Join(problems...)
}

func (l *Live) getFrom(ctx context.Context, client *client, request rangeRequest) (rangeResponse, error) {
	if l.options.User != "" && l.token == "" {
		token, err := client.authenticate(ctx, l.options.User, l.options.Password)
		if err != nil {
			return rangeResponse{}, fmt.Errorf("authenticating as %s: %w", l.options.User, err)
		}
		l.token = token
	}
	response, err := client.get(ctx, request, l.token)
	if status.Code(err) == codes.Unauthenticated && l.token != "" {
		l.token = "" // It lives for five minutes.
		token, authErr := client.authenticate(ctx, l.options.User, l.options.Password)
		if authErr != nil {
			return rangeResponse{}, errors.Join(err, authErr)
		}
		l.token = token
		return client.get(ctx, request, l.token)
	}
	return response, err
}

// hint adds what a cut connection may mean. With TLS 1.3 a client without the
// certificate that etcd wants learns of it after its own side of the handshake, and
// sees the alert, or only that the connection was reset or closed meanwhile.
func (l *Live) hint(err error) error {
	text := err.Error()
	if l.options.CertFile != "" || l.options.CAFile == "" || strings.Contains(text, "certificate") ||
		!slices.ContainsFunc([]string{"reset by peer", "broken pipe", "EOF", "clos"}, func(cut string) bool { return strings.Contains(text, cut) }) {
		return err
	}
	return fmt.Errorf("%w; it may want a client certificate (--etcd-cert, --etcd-key)", err)
}

// unreachable reports whether another member may do better.
func unreachable(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// compacted reports whether etcd no longer has the revision.
func compacted(err error) bool {
	return status.Code(err) == codes.OutOfRange && strings.Contains(err.Error(), "compacted")
}

// prefixEnd returns the first key after all that begin with a prefix.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++ // It is a slash.
	return end
}

// rangeRequest is what is used of etcdserverpb.RangeRequest.
type rangeRequest struct {
	key, end        []byte
	limit, revision int64
}

func (r rangeRequest) marshal() []byte {
	var message []byte
	message = appendBytes(message, 1, r.key)
	message = appendBytes(message, 2, r.end)
	for number, value := range map[protowire.Number]int64{3: r.limit, 4: r.revision} {
		message = protowire.AppendTag(message, number, protowire.VarintType)
		message = protowire.AppendVarint(message, uint64(value)) // Neither is negative.
	}
	return message
}

func appendBytes(message []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(message, number, protowire.BytesType), value)
}

// rangeResponse is what is used of etcdserverpb.RangeResponse.
type rangeResponse struct {
	revision int64
	kvs      []keyValue
	more     bool
	// size is that of the message, in bytes.
	size int
}

func parseRangeResponse(message []byte) (rangeResponse, error) {
	response := rangeResponse{size: len(message)}
	err := eachField(message, func(number protowire.Number, varint uint64, data []byte) error {
		switch number {
		case 1: // ResponseHeader
			return eachField(data, func(number protowire.Number, varint uint64, _ []byte) error {
				if number == 3 && varint <= math.MaxInt64 {
					response.revision = int64(varint)
				}
				return nil
			})
		case 2:
			kv, err := parseKeyValue(data)
			response.kvs = append(response.kvs, kv)
			return err
		case 3:
			response.more = varint != 0
		default: // Not asked for, or newer than this.
		}
		return nil
	})
	if err == nil && response.revision == 0 {
		err = errors.New("it has no revision")
	}
	if err != nil {
		return rangeResponse{}, fmt.Errorf("the answer is not one of etcd: %w", err)
	}
	return response, nil
}

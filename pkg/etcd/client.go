package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
)

// client talks to one member of etcd. It makes two calls, of whose messages few
// fields matter. The whole client of etcd would more than triple what this costs
// in the size of the binary.
type client struct {
	endpoint   string
	connection *grpc.ClientConn
}

// tls returns the configuration that the files describe.
func (o LiveOptions) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the CA certificate of etcd: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading the CA certificate of etcd: %s holds no certificate", o.CAFile)
		}
	}
	if o.CertFile != "" || o.KeyFile != "" {
		certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate for etcd: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// newClient prepares the connection to an endpoint. Without a scheme, TLS is used
// if there is something to use it with.
func newClient(endpoint string, config *tls.Config, withTLS bool, maxBytes int) (*client, error) {
	scheme, target, found := strings.Cut(endpoint, "://")
	if !found {
		scheme, target = "http", endpoint
		if withTLS {
			scheme = "https"
		}
	}
	security := insecure.NewCredentials()
	switch scheme {
	case "https":
		security = credentials.NewTLS(config)
		fallthrough
	case "http":
		address, err := url.Parse("//" + target)
		if err != nil || address.Port() == "" || address.Hostname() == "" || strings.Trim(address.Path, "/") != "" || address.User != nil {
			return nil, fmt.Errorf("etcd endpoint %q: it must be https://HOST:PORT", endpoint)
		}
		target = "dns:///" + address.Host
	case "unix":
		target = "unix:" + target
	default:
		return nil, fmt.Errorf("etcd endpoint %q: it must be https://HOST:PORT", endpoint)
	}
	connection, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(security),
		// A server must not tell clients how to retry, nor which proxy to take.
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallRecvMsgSize(maxBytes)))
	if err != nil {
		return nil, fmt.Errorf("etcd endpoint %s: %w", endpoint, err)
	}
	return &client{endpoint: endpoint, connection: connection}, nil
}

func (c *client) close() error {
	return c.connection.Close() //nolint:wrapcheck // Nobody can do anything about it.
}

// get calls etcdserverpb.KV/Range.
func (c *client) get(ctx context.Context, request rangeRequest, token string) (rangeResponse, error) {
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "token", token)
	}
	answer, err := c.call(ctx, "/etcdserverpb.KV/Range", request.marshal())
	if err != nil {
		return rangeResponse{}, err
	}
	return parseRangeResponse(answer)
}

// authenticate calls etcdserverpb.Auth/Authenticate and returns the token.
func (c *client) authenticate(ctx context.Context, user, password string) (string, error) {
	answer, err := c.call(ctx, "/etcdserverpb.Auth/Authenticate", appendBytes(appendBytes(nil, 1, []byte(user)), 2, []byte(password)))
	if err != nil {
		return "", err
	}
	var token string
	err = eachField(answer, func(number protowire.Number, _ uint64, data []byte) error {
		if number == 2 {
			token = string(data)
		}
		return nil
	})
	if err == nil && token == "" {
		err = errors.New("etcd gave no token")
	}
	return token, err
}

func (c *client) call(ctx context.Context, method string, request []byte) ([]byte, error) {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var answer []byte
	err := c.connection.Invoke(bounded, method, request, &answer)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return answer, err //nolint:wrapcheck // Callers look at its code, and wrap it.
}

// bytesCodec hands messages through as they are.
type bytesCodec struct{}

// Marshal takes []byte.
func (bytesCodec) Marshal(message any) (mem.BufferSlice, error) {
	data, ok := message.([]byte)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", message)
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}

// Unmarshal takes *[]byte.
func (bytesCodec) Unmarshal(data mem.BufferSlice, message any) error {
	into, ok := message.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot receive a %T", message)
	}
	*into = data.Materialize()
	return nil
}

// Name is that of the encoding on the wire.
func (bytesCodec) Name() string { return "proto" }

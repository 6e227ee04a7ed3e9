package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func request(err error) error {
	return &url.Error{Op: "Get", URL: "https://cluster.example:6443/apis/x?limit=500&continue=abc", Err: err}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for want, err := range map[string]error{
		"the connection to the server cluster.example:6443 was refused (is it the right host and port, and is the server running?)": request(
			&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}),
		"the connection to the server cluster.example:6443 was lost: connection reset by peer": fmt.Errorf("%w - error from a previous attempt: EOF", request(reset)),
		"the connection to the server cluster.example:6443 was lost: EOF":                      request(io.EOF),
		"the connection to the server cluster.example:6443 was lost: http2: client connection lost": request(
			errors.New("http2: client connection lost")),
		"the connection to the server cluster.example:6443 was lost: it cut the request off": request(
			errors.New("stream error: stream ID 75; INTERNAL_ERROR; received from peer")),
		"the server cluster.example:6443 cannot be found (no such host); check the server address in the kubeconfig": request(
			&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host"}}),
		"the server cluster.example:6443 did not answer in time: context deadline exceeded": request(context.DeadlineExceeded),
		"the server cluster.example:6443 did not answer in time (--request-timeout)": request(
			errors.New("net/http: request canceled (Client.Timeout exceeded while awaiting headers)")),
		"cannot connect to the server cluster.example:6443: tls: handshake failure": request(errors.New("tls: handshake failure")),
		"context canceled": request(context.Canceled),
		"not of a request": errors.New("not of a request"),
		// What has more to say than the request is left alone.
		`unable to retrieve: a: Get "https://cluster.example:6443/apis/x?limit=500&continue=abc": EOF, b: too`: fmt.Errorf(
			"unable to retrieve: a: %w, b: too", request(io.EOF)),
	} {
		got := fmt.Errorf("listing CRDs: %w", plain(err))
		if got.Error() != "listing CRDs: "+want {
			t.Errorf("%q becomes %q, want %q", err, got, want)
		}
		if Transient(got) != Transient(err) || !errors.Is(got, err) {
			t.Errorf("%q is another error now", err)
		}
	}
}

func TestUnanswered(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("broken"), false},
		{apierrors.NewInternalError(io.EOF), false},
		{request(context.Canceled), true},
		{fmt.Errorf("patching: %w", plain(request(io.EOF))), true},
		{fmt.Errorf("patching: %w", context.DeadlineExceeded), true},
	} {
		if got := Unanswered(test.err); got != test.want {
			t.Errorf("%v: %t", test.err, got)
		}
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	wrap := func(err error, texts ...string) error {
		for _, text := range texts {
			err = fmt.Errorf(text, err)
		}
		return err
	}
	canceled := plain(request(context.Canceled))
	for want, err := range map[string]error{
		"broken: a: b: c: d: e":          wrap(errors.New("e"), "d: %w", "c: %w", "b: %w", "a: %w", "broken: %w"),
		"context canceled":               context.Canceled,
		"listing CRDs: context canceled": wrap(canceled, "listing CRDs: %w"),
		"crontabs: barrier: waiting for servers: context canceled; to continue: kubectl": wrap(canceled,
			"listing crontabs: %w", "waiting for all: %w", "waiting for servers: %w", "barrier: %w", "crontabs: %w", "%w; to continue: kubectl"),
		"migrate: rewriting: going over: context deadline exceeded": wrap(plain(request(context.DeadlineExceeded)),
			"patching a: %w", "going over: %w", "rewriting: %w", "migrate: %w"),
	} {
		if got := Brief(err, 3); got != want || strings.Contains(got, "https://") {
			t.Errorf("%q becomes %q, want %q", err, got, want)
		}
	}
}

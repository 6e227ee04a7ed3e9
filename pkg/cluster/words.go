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
)

// unansweredError is a request that got no answer, in a reader's words: what net/http
// says begins with the whole URL.
type unansweredError struct{ err error }

func (e *unansweredError) Error() string {
	var request *url.Error
	if !errors.As(e.err, &request) {
		return e.err.Error()
	}
	return RequestWords(request)
}

func (e *unansweredError) Unwrap() error { return e.err }

// plain gives the error of a request that got no answer a reader's words. Client-go
// adds what came of earlier attempts; that is said of the last.
func plain(err error) error {
	var request *url.Error
	if !errors.As(err, &request) || !strings.HasPrefix(err.Error(), request.Error()) {
		return err
	}
	return &unansweredError{err: err}
}

// Unanswered tells whether a request got no answer: whether it arrived, nobody knows.
func Unanswered(err error) bool {
	_, isStatus := statusOf(err)
	return err != nil && !isStatus && (lostConnection(err) || errors.Is(err, context.DeadlineExceeded))
}

// RequestWords says why a request got no answer.
func RequestWords(request *url.Error) string {
	host := request.URL
	if parsed, err := url.Parse(request.URL); err == nil && parsed.Host != "" {
		host = parsed.Host
	}
	var (
		lookup  *net.DNSError
		network *net.OpError
		system  *os.SyscallError
	)
	text := request.Err.Error()
	switch {
	case errors.Is(request.Err, context.Canceled):
		return context.Canceled.Error()
	case errors.Is(request.Err, syscall.ECONNREFUSED), strings.Contains(text, "connection refused"):
		return fmt.Sprintf("the connection to the server %s was refused (is it the right host and port, and is the server running?)", host)
	case errors.As(request.Err, &lookup):
		return fmt.Sprintf("the server %s cannot be found (%s); check the server address in the kubeconfig", host, lookup.Err)
	case strings.Contains(text, "Client.Timeout"):
		return fmt.Sprintf("the server %s did not answer in time (--request-timeout)", host)
	case request.Timeout():
		return fmt.Sprintf("the server %s did not answer in time: %s", host, text)
	case errors.As(request.Err, &network) && network.Op != "dial" && errors.As(network.Err, &system):
		return fmt.Sprintf("the connection to the server %s was lost: %s", host, system.Err) // Without the addresses.
	case strings.Contains(text, "stream error"): // Of HTTP/2, with a number that tells nobody anything.
		return fmt.Sprintf("the connection to the server %s was lost: it cut the request off", host)
	case errors.Is(request.Err, io.EOF), errors.Is(request.Err, io.ErrUnexpectedEOF), strings.Contains(text, "http2: "):
		return fmt.Sprintf("the connection to the server %s was lost: %s", host, text)
	default:
		return fmt.Sprintf("cannot connect to the server %s: %s", host, text)
	}
}

// Brief returns what an error says. Where the end of a context is at the bottom of it,
// that is said once, after the outermost parts of what was being done: not which
// request was on its way.
func Brief(err error, parts int) string {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err.Error()
	}
	return brief(err, parts)
}

// brief leaves out what was wrapped around the end of a context, but for the outer parts.
func brief(err error, parts int) string {
	var unanswered *unansweredError
	if errors.As(err, &unanswered) && unanswered == err { //nolint:errorlint // This very one.
		for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
			if errors.Is(err, end) {
				return end.Error()
			}
		}
	}
	inner := errors.Unwrap(err)
	if inner == nil {
		return err.Error()
	}
	whole, part := err.Error(), inner.Error()
	at := strings.LastIndex(whole, part)
	if at < 0 {
		return whole
	}
	before, after := whole[:at], whole[at+len(part):]
	switch {
	case before == "":
	case parts == 0:
		before = ""
	default:
		parts--
	}
	return before + brief(inner, parts) + after
}

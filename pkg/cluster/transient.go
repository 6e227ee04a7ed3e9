package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Transient tells whether the same request may succeed when it is sent again:
// the server asked for that (429, 503, any answer with a time to wait), it or a
// proxy did not come to an end (502, 504), etcd had no leader, or the connection
// was lost. It is false for an error of a context and where an admission webhook
// made up such a code. "storage is (re)initializing" does not count: see
// [Initializing].
func Transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if status, isStatus := statusOf(err); isStatus {
		if denied(status.Message) || Initializing(err) {
			return false
		}
		return transientStatus(status)
	}
	return lostConnection(err)
}

func transientStatus(status metav1.Status) bool {
	switch status.Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusInternalServerError:
		// ServerTimeout is a 500. What etcd says when it has no leader, or too
		// much to do, becomes one, too.
		return status.Reason == metav1.StatusReasonServerTimeout ||
			status.Details != nil && status.Details.RetryAfterSeconds > 0 ||
			strings.Contains(status.Message, textEtcdUnavailable) && !strings.Contains(status.Message, textRequestTooLarge)
	default:
		return false
	}
}

// lostConnection tells whether a request failed on the way to the server or
// back.
func lostConnection(err error) bool {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) || strings.Contains(err.Error(), textCredentialPlugin) {
		return false // It will not get better by itself.
	}
	var (
		request *url.Error // What net/http returns when there was no answer.
		network net.Error
	)
	return errors.As(err, &request) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		// The connection broke in the body; client-go has no type for it.
		strings.Contains(err.Error(), "reading response body")
}

// RetryAfter returns how long the server asked to wait; 0 if it did not say.
func RetryAfter(err error) time.Duration {
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		return time.Duration(seconds) * time.Second
	}
	return 0
}

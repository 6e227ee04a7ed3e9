package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
)

// again is how often a call that got no good answer is made again: a webhook that
// fails now and then is told as such, and not blamed for what was just asked.
const again = 2

// callCounts are those of all calls but the measured ones.
type callCounts struct{ made, recovered atomic.Int64 }

// attempt is a request and what came of it.
type attempt struct {
	request  review.Request
	sent     []map[string]any
	to       string
	response review.Response
	err      error
	timeout  bool
}

// once makes one call.
func (e *examination) once(ctx context.Context, reviews string, objects []map[string]any, to string) attempt {
	a := attempt{sent: objects, to: to}
	if a.request, a.err = review.NewRequest(reviews, objects, to); a.err != nil {
		return a
	}
	limited, cancel := context.WithTimeout(ctx, e.Limit)
	defer cancel()
	begin := time.Now()
	a.response, a.err = e.Caller.Post(limited, a.request.Body)
	a.timeout = a.err != nil && limited.Err() != nil && ctx.Err() == nil
	if a.response.Took == 0 {
		a.response.Took = time.Since(begin)
	}
	return a
}

// send makes a call, and again if the webhook breaks down.
func (e *examination) send(ctx context.Context, reviews string, objects []map[string]any, to string) attempt {
	var a attempt
	for n := range again + 1 {
		a = e.once(ctx, reviews, objects, to)
		e.calls.made.Add(1)
		if !a.brokenDown() {
			if n > 0 {
				e.calls.recovered.Add(1)
			}
			break
		}
		if a.timeout || ctx.Err() != nil {
			break
		}
	}
	return a
}

// brokenDown reports whether there was no answer, or one of a server in trouble.
func (a attempt) brokenDown() bool {
	return a.err != nil || a.response.Status >= http.StatusInternalServerError
}

// failure says why there was no answer to look at, or "".
func (a attempt) failure(limit time.Duration) string {
	switch {
	case a.timeout:
		return fmt.Sprintf("no answer within %s", limit)
	case a.err != nil:
		return "no answer: " + cause(a.err)
	case a.response.Status < http.StatusOK || a.response.Status >= http.StatusMultipleChoices:
		return fmt.Sprintf("HTTP status %d", a.response.Status)
	}
	return ""
}

// cause is an error without the address, which is told once for all.
func cause(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return err.Error()
	}
	// HTTP/2 has an error of its own for a handler that panics, which net/http
	// does not export.
	if text := request.Err.Error(); errors.Is(err, io.EOF) || strings.Contains(text, "stream error") {
		return "it breaks off, as a server does that crashes (" + text + ")"
	}
	return request.Err.Error()
}

// notAllowed returns an error that is about the caller, and not about the webhook.
func (a attempt) notAllowed() error {
	if apierrors.IsForbidden(a.err) || apierrors.IsUnauthorized(a.err) {
		return a.err
	}
	return nil
}

// answer decodes the answer, with nothing checked; nil where there is none.
func (a attempt) answer() *review.Answer {
	var answer review.Answer
	if a.err != nil || json.Unmarshal(a.response.Body, &answer) != nil {
		return nil
	}
	return &answer
}

// failed returns the message of an answer that says that the conversion failed.
func (a attempt) failed() (message string, failed bool) {
	answer := a.answer()
	if a.failure(0) != "" || answer == nil || answer.Response == nil || answer.Response.Result.Status == "Success" {
		return "", false
	}
	return answer.Response.Result.Message, true
}

// said quotes a message of the webhook. It can hold values of the objects.
func (e *examination) said(message string) string {
	const most = 300
	switch runes := []rune(message); {
	case message == "":
		return "without a message"
	case e.private && !e.ShowValues:
		return fmt.Sprintf("with a message of %d characters, which --show-values shows", len(runes))
	case len(runes) > most:
		return fmt.Sprintf("%q...", string(runes[:most]))
	default:
		return fmt.Sprintf("%q", message)
	}
}

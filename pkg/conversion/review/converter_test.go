package review_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
)

const desired = "example.com/v1"

func object(name string) map[string]any {
	return map[string]any{
		"apiVersion": "example.com/v1beta1", "kind": "CronTab",
		"metadata": map[string]any{"name": name, "namespace": "a", "uid": "1", "labels": map[string]any{"a": "b"}, "finalizers": []any{"x"}},
		"spec":     map[string]any{"large": int64(9007199254740993)},
	}
}

// caller answers with what a function makes of the request.
type caller func(request map[string]any) (status int, answer string)

func (c caller) String() string { return "the test's webhook" }

func (c caller) Post(_ context.Context, body []byte) (review.Response, error) {
	var request map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&request); err != nil {
		return review.Response{}, fmt.Errorf("the request: %w", err)
	}
	status, answer := c(request)
	return review.Response{Status: status, ContentType: "application/json", Body: []byte(answer)}, nil
}

// answer builds an answer; change makes it wrong.
func answer(t *testing.T, request map[string]any, change func(review map[string]any, objects []map[string]any)) string {
	t.Helper()
	var sent struct {
		Request struct {
			UID     string            `json:"uid"`
			Desired string            `json:"desiredAPIVersion"`
			Objects []json.RawMessage `json:"objects"`
		} `json:"request"`
	}
	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &sent); err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	for _, raw := range sent.Request.Objects {
		var o map[string]any
		decoder := json.NewDecoder(strings.NewReader(string(raw)))
		decoder.UseNumber()
		if err := decoder.Decode(&o); err != nil {
			t.Fatal(err)
		}
		o["apiVersion"] = sent.Request.Desired
		objects = append(objects, o)
	}
	response := map[string]any{"uid": sent.Request.UID, "result": map[string]any{"status": "Success"}}
	whole := map[string]any{"apiVersion": request["apiVersion"], "kind": "ConversionReview", "response": response}
	response["convertedObjects"] = objects
	if change != nil {
		change(whole, objects)
	}
	if text, err = json.Marshal(whole); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWebhook accepts what the API server accepts, and nothing else
// (webhook_converter.go).
func TestWebhook(t *testing.T) {
	t.Parallel()
	response := func(r map[string]any) map[string]any { return r["response"].(map[string]any) } //nolint:forcetypeassert // Built above.
	metadata := func(o map[string]any) map[string]any { return o["metadata"].(map[string]any) } //nolint:forcetypeassert // As above.
	for name, test := range map[string]struct {
		change func(whole map[string]any, objects []map[string]any)
		status int
		want   string
	}{
		"right":           {},
		"another uid":     {change: func(r map[string]any, _ []map[string]any) { response(r)["uid"] = "2" }, want: "expected response.uid="},
		"another version": {change: func(r map[string]any, _ []map[string]any) { r["apiVersion"] = "apiextensions.k8s.io/v1beta1" }, want: "instead of apiextensions.k8s.io/v1"},
		"no response":     {change: func(r map[string]any, _ []map[string]any) { delete(r, "response") }, want: "no response provided"},
		"failed": {change: func(r map[string]any, _ []map[string]any) {
			response(r)["result"] = map[string]any{"status": "Failure", "message": "not today"}
		}, want: "not today"},
		"one short": {change: func(r map[string]any, o []map[string]any) { response(r)["convertedObjects"] = o[:1] }, want: "returned 1 objects, expected 2"},
		"null":      {change: func(_ map[string]any, o []map[string]any) { clear(o[1]); o[1] = nil }, want: "null"},
		"kind":      {change: func(_ map[string]any, o []map[string]any) { o[0]["kind"] = "Other" }, want: "invalid kind"},
		"not converted": {change: func(_ map[string]any, o []map[string]any) {
			o[0]["apiVersion"] = "example.com/v1beta1"
		}, want: "invalid groupVersion"},
		"name":        {change: func(_ map[string]any, o []map[string]any) { metadata(o[0])["name"] = "other" }, want: "must have the same name"},
		"uid":         {change: func(_ map[string]any, o []map[string]any) { metadata(o[0])["uid"] = "9" }, want: "must have the same uid"},
		"no metadata": {change: func(_ map[string]any, o []map[string]any) { delete(o[0], "metadata") }, want: "no metadata"},
		"500":         {status: http.StatusInternalServerError, want: "HTTP status 500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := []map[string]any{object("one"), object("two")}
			hook := review.Webhook{ReviewVersion: "v1", Caller: caller(func(request map[string]any) (int, string) {
				status := http.StatusOK
				if test.status != 0 {
					status = test.status
				}
				return status, answer(t, request, test.change)
			})}
			got, err := hook.Convert(t.Context(), sent, desired)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := object("one")
			want["apiVersion"] = desired
			if diff := cmp.Diff(want, got[0]); diff != "" {
				t.Errorf("large numbers and metadata must stay: %s", diff)
			}
			if diff := cmp.Diff(object("one"), sent[0]); diff != "" {
				t.Errorf("what was sent was changed: %s", diff)
			}
		})
	}
}

// TestKeepsMetadata takes labels and annotations from the webhook and nothing
// else: what it leaves out of them is gone (fact 20).
func TestKeepsMetadata(t *testing.T) {
	t.Parallel()
	converted := object("one")
	converted["apiVersion"] = desired
	converted["metadata"] = map[string]any{"name": "one", "namespace": "a", "uid": "1", "annotations": map[string]any{"c": "d"}, "finalizers": []any{}}
	if err := review.Keep(object("one"), converted, desired); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"name": "one", "namespace": "a", "uid": "1", "annotations": map[string]any{"c": "d"}, "finalizers": []any{"x"}}
	if diff := cmp.Diff(want, converted["metadata"]); diff != "" {
		t.Error(diff)
	}
}

// TestSendsOnlyWhatNeedsIt sends no object that is at the version already.
func TestSendsOnlyWhatNeedsIt(t *testing.T) {
	t.Parallel()
	done := maps.Clone(object("done"))
	done["apiVersion"] = desired
	hook := review.Webhook{ReviewVersion: "v1", Caller: caller(func(map[string]any) (int, string) {
		t.Error("it was called")
		return http.StatusOK, ""
	})}
	got, err := hook.Convert(t.Context(), []map[string]any{done}, desired)
	if err != nil || len(got) != 1 || got[0]["apiVersion"] != desired {
		t.Errorf("%v %v", got, err)
	}
}

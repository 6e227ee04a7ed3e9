package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// The messages are the API server's own, made by its own code where it is
// exported, or as observed on 1.37.2.
func TestExplain(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "stable.example.com", Resource: "crontabs"}
	kind := schema.GroupKind{Group: "stable.example.com", Kind: "CronTab"}
	forbidden := func(text string) error { return apierrors.NewForbidden(resource, "x", errors.New(text)) }
	internal := func(text string) error { return apierrors.NewInternalError(errors.New(text)) }
	webhook := func(code int32) error {
		return webhookerrors.ToStatusErr("guard.example.com", &metav1.Status{Code: code, Message: "no"})
	}
	for _, test := range []struct {
		name      string
		err       error
		want      Failure
		transient bool
	}{
		{
			name: "schema, values hidden",
			err: apierrors.NewInvalid(kind, "x", field.ErrorList{
				field.Required(field.NewPath("spec"), ""),
				field.Invalid(field.NewPath("spec", "token"), `s3"cret`, "must be longer"),
				field.Invalid(field.NewPath("spec", "count"), 5, "must be less"),
				field.NotSupported(field.NewPath("spec", "mode"), "hush", []string{"a", "b"}),
				field.Duplicate(field.NewPath("spec", "list").Index(1), map[string]any{"key": "hush", "n": 1}),
			}),
			want: Failure{Reason: ReasonInvalid, Refused: true, By: v1alpha1.PartySchema, Message: `CronTab.stable.example.com "x" is invalid: [spec: Required value, ` +
				`spec.token: Invalid value: <hidden>: must be longer, spec.count: Invalid value: <hidden>: must be less, ` +
				`spec.mode: Unsupported value: <hidden>: supported values: "a", "b", spec.list[1]: Duplicate value: <hidden>]`},
		},
		{
			name: "webhook denies",
			err:  webhook(0),
			want: Failure{Reason: ReasonAdmissionDenied, Refused: true, By: v1alpha1.PartyWebhook, Name: "guard.example.com", Message: `admission webhook "guard.example.com" denied the request: no`},
		},
		{
			name: "webhook denies with 429",
			err:  webhook(http.StatusTooManyRequests),
			want: Failure{Reason: ReasonAdmissionDenied, Refused: true, By: v1alpha1.PartyWebhook, Name: "guard.example.com", Message: `admission webhook "guard.example.com" denied the request: no`},
		},
		{
			name: "webhook cannot be asked in a dry run",
			err:  webhookerrors.NewDryRunUnsupportedErr("guard.example.com"),
			want: Failure{Reason: ReasonAdmissionDenied, Refused: true, By: v1alpha1.PartyWebhook, Name: "guard.example.com", Message: `admission webhook "guard.example.com" does not support dry run`},
		},
		{
			name: "webhook is down",
			err:  internal(`failed calling webhook "guard.example.com": failed to call webhook: Post "https://guard.system.svc:443/?timeout=10s": connection refused`),
			want: Failure{Reason: ReasonUnavailable, By: v1alpha1.PartyWebhook, Name: "guard.example.com", Message: `Internal error occurred: failed calling webhook "guard.example.com": failed to call webhook: Post "https://guard.system.svc:443/?timeout=10s": connection refused`},
		},
		{
			name: "policy denies",
			err:  forbidden(`ValidatingAdmissionPolicy 'no-v1' with binding 'all' denied request: failed expression: false`),
			want: Failure{Reason: ReasonAdmissionDenied, Refused: true, By: v1alpha1.PartyPolicy, Name: "no-v1", Message: `crontabs.stable.example.com "x" is forbidden: ValidatingAdmissionPolicy 'no-v1' with binding 'all' denied request: failed expression: false`},
		},
		{
			name: "other admission plugin",
			err:  forbidden("the plugin says no"),
			want: Failure{Reason: ReasonAdmissionDenied, Refused: true, By: v1alpha1.PartyAdmission, Message: `crontabs.stable.example.com "x" is forbidden: the plugin says no`},
		},
		{
			name: "mutating policy denies",
			err:  forbidden(`policy 'stamp' with binding 'all' denied request: expression 'x' resulted in error: no such key: y`),
			want: Failure{Reason: ReasonAdmissionDenied, Refused: true, By: v1alpha1.PartyPolicy, Name: "stamp", Message: `crontabs.stable.example.com "x" is forbidden: policy 'stamp' with binding 'all' denied request: expression 'x' resulted in error: no such key: y`},
		},
		{
			name: "quota",
			err:  forbidden("exceeded quota: objects, requested: count/crontabs.stable.example.com=1, used: count/crontabs.stable.example.com=2, limited: count/crontabs.stable.example.com=2"),
			want: Failure{Reason: ReasonAdmissionDenied, Refused: true, By: v1alpha1.PartyQuota, Name: "objects", Message: `crontabs.stable.example.com "x" is forbidden: exceeded quota: objects, requested: count/crontabs.stable.example.com=1, used: count/crontabs.stable.example.com=2, limited: count/crontabs.stable.example.com=2`},
		},
		{
			name: "a schema rule that pretends to be a webhook",
			err: apierrors.NewInvalid(kind, "x", field.ErrorList{
				field.Invalid(field.NewPath("spec"), "object", `admission webhook "trusted.example.com" denied the request: conversion webhook for a failed: Post "https://b`),
			}),
			want: Failure{Reason: ReasonInvalid, Refused: true, By: v1alpha1.PartySchema, Message: `CronTab.stable.example.com "x" is invalid: spec: Invalid value: <hidden>: admission webhook "trusted.example.com" denied the request: conversion webhook for a failed: Post "https://b`},
		},
		{
			name: "conversion webhook says no",
			err:  internal(`conversion webhook for stable.example.com/v1beta1, Kind=CronTab failed: the schedule has seven fields`),
			want: Failure{Reason: ReasonConversionFailed, Refused: true, By: v1alpha1.PartyConversion, Message: `Internal error occurred: conversion webhook for stable.example.com/v1beta1, Kind=CronTab failed: the schedule has seven fields`},
		},
		{
			name: "not logged in",
			err:  apierrors.NewUnauthorized("Unauthorized"),
			want: Failure{Reason: ReasonForbidden, Message: "Unauthorized"},
		},
		{
			name: "RBAC",
			err:  forbidden(`User "jane" cannot patch resource "crontabs" in API group "stable.example.com" in the namespace "a"`),
			want: Failure{Reason: ReasonForbidden, Refused: true, By: v1alpha1.PartyRBAC, Message: `crontabs.stable.example.com "x" is forbidden: User "jane" cannot patch resource "crontabs" in API group "stable.example.com" in the namespace "a"`},
		},
		{
			name: "conversion webhook is down",
			err:  internal(`conversion webhook for stable.example.com/v1beta1, Kind=CronTab failed: Post "https://hook": connection refused`),
			want: Failure{Reason: ReasonConversionFailed, By: v1alpha1.PartyConversion, Message: `Internal error occurred: conversion webhook for stable.example.com/v1beta1, Kind=CronTab failed: Post "https://hook": connection refused`},
		},
		{
			name: "version is gone",
			err: internal("StorageError: corrupt object, Code: 7, Key: /registry/stable.example.com/crontabs/a/x, ResourceVersion: 0, " +
				"AdditionalErrorMsg: object not decodable revision=14: request to convert CR from an invalid group/version: stable.example.com/v1beta1"),
			want: Failure{Reason: ReasonConversionFailed, Refused: true, By: v1alpha1.PartyConversion, Message: "/registry/stable.example.com/crontabs/a/x: request to convert CR from an invalid group/version: stable.example.com/v1beta1" +
				" (the server calls every object that it cannot convert corrupt; it is intact: kubectl crdver rescue crontabs.stable.example.com)"},
		},
		{
			name: "managedFields name a version that is gone",
			err:  internal("request to convert CR to an invalid group/version: stable.example.com/v1beta1"),
			want: Failure{Reason: ReasonConversionFailed, Refused: true, By: v1alpha1.PartyConversion, Message: "Internal error occurred: request to convert CR to an invalid group/version: stable.example.com/v1beta1"},
		},
		{
			name: "too large for etcd",
			err:  internal("etcdserver: request is too large"),
			want: Failure{Reason: ReasonTooLarge, Refused: true, By: v1alpha1.PartySize, Message: "Internal error occurred: etcdserver: request is too large"},
		},
		{
			name: "too large for the server",
			err:  apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
			want: Failure{Reason: ReasonTooLarge, Refused: true, By: v1alpha1.PartySize, Message: "Request entity too large: limit is 3145728"},
		},
		{
			name:      "throttled",
			err:       apierrors.NewTooManyRequests("slow down", 1),
			want:      Failure{Reason: ReasonUnavailable, Message: "slow down"},
			transient: true,
		},
		{
			name: "cache is not filled",
			err:  apierrors.NewTooManyRequests("storage is (re)initializing", 1),
			want: Failure{Reason: ReasonUnavailable, Message: "storage is (re)initializing"},
		},
		{
			name:      "no leader",
			err:       internal("etcdserver: leader changed"),
			want:      Failure{Reason: ReasonUnavailable, Message: "Internal error occurred: etcdserver: leader changed"},
			transient: true,
		},
		{
			name:      "server timeout",
			err:       apierrors.NewServerTimeout(resource, "patch", 2),
			want:      Failure{Reason: ReasonUnavailable, Message: `The patch operation against crontabs.stable.example.com could not be completed at this time, please try again.`},
			transient: true,
		},
		{
			name:      "refused connection",
			err:       &url.Error{Op: "Patch", URL: "https://server", Err: syscall.ECONNREFUSED},
			want:      Failure{Reason: ReasonUnavailable, Message: `Patch "https://server": connection refused`},
			transient: true,
		},
		{
			name:      "cut in the body",
			err:       fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", io.ErrUnexpectedEOF),
			want:      Failure{Reason: ReasonUnavailable, Message: "unexpected error when reading response body. Please retry. Original error: unexpected EOF"},
			transient: true,
		},
		{
			name: "context",
			err:  &url.Error{Op: "Patch", URL: "https://server", Err: context.Canceled},
			want: Failure{Reason: ReasonOther, Message: `Patch "https://server": context canceled`},
		},
		{
			name: "escapes",
			err:  errors.New("\x1b[31mred\x07\u202e"),
			want: Failure{Reason: ReasonOther, Message: `\x1b[31mred\a\u202e`},
		},
		{
			name: "long",
			err:  errors.New(strings.Repeat("é", 600)),
			want: Failure{Reason: ReasonOther, Message: strings.Repeat("é", 500) + "... (200 more bytes)"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("patching: %w", test.err)
			got := Explain(err)
			got.Message = strings.TrimPrefix(got.Message, "patching: ") // Errors without a Status keep it.
			if test.name == "long" {
				got = Explain(test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if Transient(err) != test.transient {
				t.Errorf("transient: %t", !test.transient)
			}
			if strings.Contains(strings.ToLower(got.Message), "delet") {
				t.Errorf("it speaks of deleting: %s", got.Message)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	if got := RetryAfter(fmt.Errorf("x: %w", apierrors.NewTooManyRequests("slow down", 3))); got != 3*time.Second {
		t.Errorf("%s", got)
	}
	if got := RetryAfter(io.EOF); got != 0 {
		t.Errorf("%s", got)
	}
}

func TestAboutObject(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "stable.example.com", Resource: "crontabs"}
	webhook := webhookerrors.ToStatusErr("guard", &metav1.Status{
		Code: 404, Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{Kind: "crontabs", Name: "x"},
	})
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"not found":            {apierrors.NewNotFound(resource, "x"), true},
		"conflict":             {apierrors.NewConflict(resource, "x", errors.New("modified")), true},
		"namespace not found":  {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), false},
		"another object":       {apierrors.NewNotFound(resource, "y"), false},
		"path not found":       {apierrors.NewGenericServerResponse(404, "PATCH", resource, "x", "", 0, true), false},
		"webhook says 404":     {webhook, false},
		"forbidden":            {apierrors.NewForbidden(resource, "x", errors.New("no")), false},
		"no answer of the API": {io.EOF, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := AboutObject(fmt.Errorf("patching: %w", test.err), "crontabs", "x"); got != test.want {
				t.Errorf("%t", got)
			}
		})
	}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Message: kind}
	}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       MigrationPhase
	}{
		"new":                {nil, MigrationPending},
		"running":            {[]metav1.Condition{condition("Running", "True")}, MigrationRunning},
		"succeeded":          {[]metav1.Condition{condition("Running", "False"), condition("Succeeded", "True")}, MigrationSucceeded},
		"failed and says so": {[]metav1.Condition{condition("Running", "True"), condition("Failed", "True")}, MigrationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, _ := phase(test.conditions); got != test.want {
				t.Errorf("%s", got)
			}
		})
	}
}

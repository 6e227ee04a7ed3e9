package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crdver/kubectl-crdver/pkg/printers"
)

func TestExitCode(t *testing.T) {
	request := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://cluster.example:6443/apis", Err: err}
	}
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"nothing":                 {nil, 0},
		"any error":               {errors.New("broken"), 1},
		"pending":                 {Pending(), 2},
		"refused":                 {Refused(errors.New("stale")), 3},
		"wrapped refused":         {fmt.Errorf("crontabs: %w", Refused(errors.New("stale"))), 3},
		"partial":                 {Partial(nil), 4},
		"deadline":                {fmt.Errorf("migrate: %w", context.DeadlineExceeded), 124},
		"canceled":                {fmt.Errorf("migrate: %w", context.Canceled), 130},
		"canceled request":        {request(context.Canceled), 130},
		"--request-timeout":       {request(context.DeadlineExceeded), 1},
		"usage":                   {UsageError(&cobra.Command{Use: "x"}, errors.New("no")), 1},
		"exit error without code": {&ExitError{Err: errors.New("broken")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ExitCode(test.err); got != test.want {
				t.Errorf("ExitCode(%v) = %d, want %d", test.err, got, test.want)
			}
		})
	}
}

func TestOutcome(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	request := &url.Error{Op: "Get", URL: "https://cluster.example/apis", Err: context.DeadlineExceeded}
	for name, test := range map[string]struct {
		parent, ctx context.Context
		err         error
		want        int
	}{
		"success in spite of an interrupt": {canceled, canceled, nil, 0},
		"interrupted":                      {canceled, canceled, errors.New("stopped"), 130},
		"interrupted with failures":        {canceled, canceled, Partial(nil), 130},
		"findings before the interrupt":    {canceled, canceled, Pending(), 2},
		"timeout in a request":             {t.Context(), expired, request, 124},
		"timeout with failures":            {t.Context(), expired, Partial(errors.New("3 failed")), 124},
		"neither":                          {t.Context(), t.Context(), request, 1},
		"refused":                          {t.Context(), t.Context(), Refused(errors.New("no")), 3},
	} {
		t.Run(name, func(t *testing.T) {
			err := outcome(test.parent, test.ctx, test.err)
			if got := ExitCode(err); got != test.want {
				t.Errorf("exit code %d, want %d", got, test.want)
			}
			var before, after bytes.Buffer
			PrintError(&before, test.err)
			PrintError(&after, err)
			if (before.Len() == 0) != (after.Len() == 0) {
				t.Errorf("printed %q before and %q after", before.String(), after.String())
			}
		})
	}
}

func TestPrintError(t *testing.T) {
	const untrusted = "version \x1b[31mv1\x1b[0m\a\r\x7f\u009b2J \u202egnp \xff"
	crds := schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	request := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://cluster.example:6443/apis?timeout=32s", Err: err}
	}
	command := &cobra.Command{Use: "crdver", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl crdver"}}
	verb := &cobra.Command{Use: "promote VERSION"}
	command.AddCommand(verb)

	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"nothing":         {nil, ""},
		"code alone":      {Pending(), ""},
		"wrapped code":    {fmt.Errorf("status: %w", Partial(nil)), ""},
		"plain":           {errors.New("no such version"), "error: no such version\n"},
		"already labeled": {errors.New("error: twice"), "error: twice\n"},
		"refused":         {Refused(errors.New("the plan is stale")), "error: the plan is stale\n"},
		"usage": {
			UsageErrorf(verb, "no version given"),
			"error: no version given\nSee 'kubectl crdver promote --help' for usage.\n",
		},
		"several lines": {
			errors.New("cannot load:\n  a.yaml: bad\n\n  b.yaml: worse\n"),
			"error: cannot load: a.yaml: bad; b.yaml: worse\n",
		},
		"terminal escapes": {
			errors.New(untrusted),
			"error: " + printers.Escape(untrusted) + "\n",
		},
		"unicode stays": {errors.New("größer \ufffd"), "error: größer \ufffd\n"},
		"forbidden": {
			fmt.Errorf("listing CRDs: %w", apierrors.NewForbidden(crds, "", errors.New(`User "bob" cannot list`))),
			`error: listing CRDs: the server answered Forbidden: customresourcedefinitions.apiextensions.k8s.io is forbidden: User "bob" cannot list` + "\n",
		},
		"unauthorized": {apierrors.NewUnauthorized("no token"), "error: you must be logged in to the server (no token)\n"},
		"no reason": {
			&apierrors.StatusError{ErrStatus: metav1.Status{Message: "odd"}},
			"error: the server answered: odd\n",
		},
		"values of objects": {
			apierrors.NewInvalid(schema.GroupKind{Group: "example.com", Kind: "CronTab"}, "a", field.ErrorList{
				field.Invalid(field.NewPath("spec", "token"), "s3cret", "too short"),
			}),
			`error: the server answered Invalid: CronTab.example.com "a" is invalid: spec.token: Invalid value: <hidden>: too short` + "\n",
		},
		"values of CRDs": {
			apierrors.NewInvalid(schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, "a", field.ErrorList{
				field.Invalid(field.NewPath("spec", "group"), "x", "no dot"),
			}),
			`error: the server answered Invalid: CustomResourceDefinition.apiextensions.k8s.io "a" is invalid: spec.group: Invalid value: "x": no dot` + "\n",
		},
		"connection refused": {
			fmt.Errorf("discovery: %w", request(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})),
			"error: discovery: the connection to the server cluster.example:6443 was refused " +
				"(is it the right host and port, and is the server running?)\n",
		},
		"unknown host": {
			request(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "cluster.example"}}),
			"error: the server cluster.example:6443 cannot be found (no such host); check the server address in the kubeconfig\n",
		},
		"request timeout": {
			request(context.DeadlineExceeded),
			"error: the server cluster.example:6443 did not answer in time: context deadline exceeded\n",
		},
		"other connection error": {
			request(errors.New("tls: handshake failure")),
			"error: cannot connect to the server cluster.example:6443: tls: handshake failure\n",
		},
		"interrupted": {fmt.Errorf("migrating: %w", request(context.Canceled)), "error: migrating: interrupted\n"},
		"timeout":     {fmt.Errorf("migrating: %w", context.DeadlineExceeded), "error: migrating: --timeout reached\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			PrintError(&out, test.err)
			if out.String() != test.want {
				t.Errorf("printed\n%q, want\n%q", out.String(), test.want)
			}
			if i := strings.IndexFunc(strings.ReplaceAll(out.String(), "\n", ""), unicode.IsControl); i >= 0 {
				t.Errorf("a control character was printed: %q", out.String())
			}
		})
	}
}

func TestPrintErrorIsBounded(t *testing.T) {
	var out bytes.Buffer
	PrintError(&out, errors.New(strings.Repeat("ü", maxErrorLength)))
	if got := out.Len(); got > maxErrorLength+20 {
		t.Errorf("printed %d bytes", got)
	}
	if strings.Contains(out.String(), `\x`) {
		t.Error("a character was cut in two")
	}
}

func TestUsageErrorMarksOnce(t *testing.T) {
	inner := UsageErrorf(&cobra.Command{Use: "inner"}, "bad: %w", http.ErrNoCookie)
	outer := UsageError(&cobra.Command{Use: "outer"}, inner)
	if outer != inner { //nolint:errorlint // the very same
		t.Errorf("marked twice: %#v", outer)
	}
	if !errors.Is(outer, http.ErrNoCookie) {
		t.Error("the cause is lost")
	}
	if err := UsageError(&cobra.Command{Use: "x"}, nil); err != nil {
		t.Errorf("nil became %v", err)
	}
}

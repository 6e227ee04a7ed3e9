package doctor_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/conversion/doctor"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

const group = "doctor.example.com"

// start starts a webhook and returns a CRD that names it.
func start(t *testing.T, o testbed.ConverterOptions, reviews ...string) (*testbed.Converter, crd.CRD) {
	t.Helper()
	c, err := testbed.StartConverter(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	definition := testbed.HostPorts(group)
	definition.Spec.Conversion = c.Conversion(reviews...)
	return c, crd.CRD{CustomResourceDefinition: definition, Origin: crd.Origin{File: "crd.yaml"}}
}

// options examine the webhook of a CRD at its URL.
func options(t *testing.T, one crd.CRD) doctor.Options {
	t.Helper()
	config := one.Spec.Conversion.Webhook.ClientConfig
	direct, err := review.NewDirect(*config.URL, config.CABundle, "")
	if err != nil {
		t.Fatal(err)
	}
	return doctor.Options{
		CRD: one, Caller: direct, TLS: doctor.TLS{Present: direct.Certificates, Host: direct.Host(), CA: config.CABundle},
		Calls: 20, Now: time.Now(), Limit: 10 * time.Second,
	}
}

func check(t *testing.T, o doctor.Options) v1alpha1.CheckedWebhook {
	t.Helper()
	report, err := doctor.Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// results returns "NAME RESULT" of the checks that are neither ok nor skipped,
// each once.
func results(report v1alpha1.CheckedWebhook) []string {
	var found []string
	for _, c := range report.Checks {
		text := c.Name + " " + string(c.Result)
		if c.Result != v1alpha1.CheckOK && c.Result != v1alpha1.CheckSkipped && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}

func text(report v1alpha1.CheckedWebhook) string {
	var out strings.Builder
	for _, c := range report.Checks {
		fmt.Fprintf(&out, "%-14s %-26s %-8s %s\n", c.Stage, c.Name, c.Result, c.Message)
	}
	return out.String() + "stopped: " + report.Stopped
}

// TestFaults has one webhook wrong in one way at a time. What is found is exactly
// that, and not what follows from it.
func TestFaults(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	for fault, test := range map[testbed.Fault]struct {
		want []string
		// says is in the report, too: what came back, or the path.
		says    string
		stopped bool
		options testbed.ConverterOptions
		limit   time.Duration
	}{
		"":                           {},
		testbed.FaultDropsField:      {want: []string{"round-trip FAIL"}, says: "lost spec.image in 1 object"},
		testbed.FaultForgetsStatus:   {want: []string{"object-status FAIL", "round-trip FAIL"}, says: "lost status in 1 object"},
		testbed.FaultLosesPrecision:  {want: []string{"round-trip FAIL"}, says: "changed spec.size in 1 object"},
		testbed.FaultStateful:        {want: []string{"no-state FAIL"}, says: "changed spec.image"},
		testbed.FaultChangesKind:     {want: []string{"object-kind FAIL"}, says: "Other instead of CronTab"},
		testbed.FaultChangesName:     {want: []string{"object-name FAIL"}, says: "metadata.name is another one"},
		testbed.FaultChangesSpace:    {want: []string{"object-namespace FAIL"}, says: "metadata.namespace is another one"},
		testbed.FaultChangesUID:      {want: []string{"object-uid FAIL"}, says: "metadata.uid is another one"},
		testbed.FaultFinalizers:      {want: []string{"other-metadata FAIL"}, says: "metadata.finalizers changes"},
		testbed.FaultOmitsLabels:     {want: []string{"labels-and-annotations FAIL"}, says: "metadata.labels are not there any more"},
		testbed.FaultOmitsMetadata:   {want: []string{"metadata FAIL"}, says: "metadata is missing"},
		testbed.FaultHugeAnnotation:  {want: []string{"annotation-size FAIL"}, says: "1500000 bytes in spec.settings"},
		testbed.FaultAddsField:       {want: []string{"partial-objects-additions warning"}, says: "only spec.host: spec.image appears"},
		testbed.FaultUnknownToSchema: {want: []string{"known-fields warning"}, says: "the schema of v1 lacks spec.hostPort"},
		testbed.FaultWrongVersion:    {want: []string{"desired-version FAIL"}, says: "/v2, asked for"},
		testbed.FaultMixed:           {want: []string{"mixed-versions warning"}, says: "not converted as it is alone"},
		testbed.FaultStrict:          {want: []string{"unknown-fields FAIL"}, says: "json: unknown field"},
		testbed.FaultOnlyFull:        {want: []string{"partial-objects FAIL"}, says: "(only metadata, only labels, no metadata and"},
		testbed.FaultRefusesPartial:  {want: []string{"partial-objects FAIL"}, says: "spec and metadata are required"},

		testbed.FaultSwapsOrder:     {want: []string{"object-order FAIL"}, says: "3 objects; 2 of 4 answers"},
		testbed.FaultOneShort:       {want: []string{"object-count FAIL"}, says: "0 objects for 1", stopped: true},
		testbed.FaultWrongUID:       {want: []string{"uid FAIL"}, says: "another uid", stopped: true},
		testbed.FaultOnlyV1beta1:    {want: []string{"review-version FAIL"}, says: "asked in apiextensions.k8s.io/v1", stopped: true},
		testbed.FaultNotJSON:        {want: []string{"content-type FAIL", "json FAIL"}, says: "no JSON: 22 bytes", stopped: true},
		testbed.FaultNoContentType:  {want: []string{"content-type FAIL"}, says: "no Content-Type; the API server does not mind"},
		testbed.FaultNoResponse:     {want: []string{"response FAIL"}, says: "no response", stopped: true},
		testbed.FaultFailedSilently: {want: []string{"failed-message FAIL"}, says: "no message"},
		testbed.FaultFailedObjects:  {want: []string{"failed-objects FAIL"}, says: "1 object, although the conversion failed"},
		testbed.FaultHTTPError:      {want: []string{"unknown-version FAIL"}, says: "HTTP status 500 instead of an answer that says Failed"},
		testbed.FaultAnyVersion:     {want: []string{"unknown-version FAIL"}, says: "Success for a version that does not exist"},
		testbed.FaultCreated:        {want: []string{"http-status warning"}, says: "HTTP status 201"},
		testbed.FaultRedirects:      {want: []string{"http-status FAIL"}, says: "HTTP status 307", stopped: true},
		testbed.FaultAlwaysFails:    {want: []string{"result warning"}, says: "give it real ones with -f", stopped: true},

		testbed.FaultEveryTenth:    {want: []string{"reliability FAIL"}, says: "calls broke down, and were answered when made again"},
		testbed.FaultSlow:          {want: []string{"latency FAIL"}, says: "p99", options: testbed.ConverterOptions{Delay: 350 * time.Millisecond}, limit: time.Second},
		testbed.FaultHangs:         {want: []string{"reachable FAIL"}, says: "no answer within 500ms", stopped: true, limit: 500 * time.Millisecond},
		testbed.FaultManyObjects:   {want: []string{"many-objects FAIL"}, says: "100 objects for 500"},
		testbed.FaultLargeRequest:  {want: []string{"large-object FAIL"}, says: "HTTP status 413"},
		testbed.FaultPanicsOnEmpty: {want: []string{"empty-list FAIL"}, says: "no answer: it breaks off"},
		testbed.FaultNotConcurrent: {want: []string{"concurrent-calls FAIL"}, says: "changed spec.image", options: testbed.ConverterOptions{Delay: 20 * time.Millisecond}},
		testbed.FaultExpired:       {want: []string{"certificate-expiry FAIL"}, says: "it ended on", stopped: true},
		testbed.FaultOtherHost:     {want: []string{"certificate-name FAIL"}, says: "127.0.0.1", stopped: true},
		testbed.FaultOtherCA:       {want: []string{"certificate-chain FAIL"}, says: "x509", stopped: true},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			test.options.Fault = fault
			_, one := start(t, test.options)
			o := options(t, one)
			o.Limit = limit
			if test.limit > 0 {
				o.Limit, o.Calls = test.limit, 3
			}
			report := check(t, o)
			all := text(report)
			if got := results(report); fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
			if !strings.Contains(all, test.says) {
				t.Errorf("%q is not said", test.says)
			}
			if (report.Stopped != "") != test.stopped {
				t.Errorf("stopped: %q, want %t", report.Stopped, test.stopped)
			}
			if t.Failed() {
				t.Log("\n" + all)
			}
		})
	}
}

// TestEveryCheckIsNamed makes sure that whatever is reported can be skipped and
// says what the protocol demands.
func TestEveryCheckIsNamed(t *testing.T) {
	t.Parallel()
	_, one := start(t, testbed.ConverterOptions{}, "v1", "v1beta1")
	report := check(t, options(t, one))
	for _, c := range report.Checks {
		if !slices.Contains(doctor.Names(), c.Name) || c.Protocol == "" || c.Message == "" {
			t.Errorf("%+v", c)
		}
		if c.Result == v1alpha1.CheckSkipped {
			t.Errorf("%s is skipped: %s", c.Name, c.Message)
		}
	}
	for _, name := range doctor.Names() {
		// The other one is told only where objects cannot be read.
		if name != "live-objects" && !slices.ContainsFunc(report.Checks, func(c v1alpha1.WebhookCheck) bool { return c.Name == name }) {
			t.Errorf("%s was not checked", name)
		}
	}
	o := options(t, one)
	o.Skip = doctor.Names()
	if left := check(t, o).Checks; len(left) != 0 {
		t.Errorf("not skipped: %+v", left)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	_, one := start(t, testbed.ConverterOptions{Fault: testbed.FaultHangs})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := doctor.Check(ctx, options(t, one)); err == nil || ctx.Err() == nil {
		t.Errorf("error %v, want one of the context", err)
	}
	if took := time.Since(begin); took > 9*time.Second {
		t.Errorf("took %s", took)
	}
}

func pemOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestUsageOfRequests is about audit logs and metrics as the command takes them. It
// runs before the others: the servers of a process share a registry of metrics,
// which cannot be read to its end any more once one of them has stopped.
func TestUsageOfRequests(t *testing.T) {
	b := start(t, testbed.InProcessOptions{})
	const group = "requests.example.com"
	name := b.createCRD(t, crontabs(group, "v1beta1", "v1"))
	line := func(id int, at time.Time) string {
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"%d","stage":"ResponseComplete","requestURI":"/apis","verb":"list",`+
			`"user":{"username":"alice\u001b[31m","groups":["dev"]},"sourceIPs":["10.0.0.1"],"userAgent":"controller/2 (x)","objectRef":{"resource":"crontabs",`+
			`"apiGroup":"%s","apiVersion":"v1beta1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"%s"}`+"\n",
			id, group, at.UTC().Format("2006-01-02T15:04:05.000000Z"))
	}
	recent := writeFile(t, "audit.log", []byte(line(1, time.Now().Add(-25*time.Hour))+line(2, time.Now())+"{truncated\n"))
	item := b.usage(t, 2, "v1beta1", name, "--audit-log", recent)[0]
	wantUsage(t, item, v1alpha1.UsageInUse, v1alpha1.UsageAudit, "user alice\x1b[31m read 2 requests use")
	wantUnlooked(t, item, v1alpha1.UsageAudit, "1 of 3 lines were skipped")
	r := b.must(t, 2, "usage", "v1beta1", name, "--audit-log", recent, "-o", "wide")
	contains(t, r.stdout, "(controller/2)", "2 list (200); from 10.0.0.1; groups dev", "--audit-log "+recent+" --kubeconfig")
	if strings.Contains(r.stdout, "\x1b") {
		t.Errorf("an escape code of the log is printed: %q", r.stdout)
	}
	old := execute(t.Context(), strings.NewReader(line(1, time.Now().Add(-48*time.Hour))), "usage", "v1beta1", name, "--audit-log", "-", "--kubeconfig", b.kubeconfig)
	contains(t, old.stdout, "v1beta1: probably unused", "is not all of the last 24h0m0s")

	for message, args := range map[string][]string{
		"reading audit log none: stat none: no such file":      {"--audit-log", "none"},
		"no audit events (lines of JSON":                       {"--audit-log", writeFile(t, "x", []byte("x\n"))},
		"--audit-log - is given twice":                         {"--audit-log", "-", "--audit-log", "-"},
		"--watch -1s: it must be longer than 0":                {"--watch", "-1s"},
		"--watch watches the metrics, which --skip leaves out": {"--watch", "1m", "--skip", "metrics"},
		"--audit-log is empty: name a file, a directory or -":  {"--audit-log", ""},
	} {
		r := b.must(t, 1, append([]string{"usage", "v1beta1", name}, args...)...)
		contains(t, r.stderr, message)
		if r.stdout != "" {
			t.Errorf("%q: stdout %s", args, r.stdout)
		}
	}

	// Somebody lists at v1beta1 all the time; Ctrl-C ends the watch.
	watch := func(version string) result {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if _, err := b.objects(t).Resource(resource(group, "v1beta1")).List(ctx, metav1.ListOptions{}); err != nil {
					t.Error(err)
				}
			}
			cancel()
		}()
		return execute(ctx, neverRead{t}, "usage", version, name, "--watch", "10m", "--kubeconfig", b.kubeconfig)
	}
	r = watch("v1beta1")
	if r.code != 2 {
		t.Errorf("want exit code 2, got %s", r)
	}
	contains(t, r.stdout, "client (metrics do not say who)", "v1beta1: in use")
	r = watch("v1")
	if r.code != 130 {
		t.Errorf("want exit code 130, got %s", r)
	}
	contains(t, r.stdout, name+" v1: probably unused")
	contains(t, r.stderr, "error: the watch ended before 10m0s were over: interrupted")
}

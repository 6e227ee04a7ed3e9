package usage_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// metricsServers answers with the metrics of what one server says; requests_full_test.go
// reads those of real ones.
type metricsServers struct {
	cluster.Interface
	servers cluster.APIServers
	text    func() string
	padding int
}

func (s metricsServers) APIServers(context.Context) (cluster.APIServers, error) {
	return s.servers, nil
}

func (s metricsServers) Metrics(_ context.Context, _ string, read func(io.Reader) error) error {
	line := `apiserver_request_duration_seconds_bucket{component="apiserver",group="` + testbed.CronTabGroup + `",resource="crontabs",le="0.1"} 12` + "\n"
	return read(io.MultiReader(&repeat{text: line, n: s.padding}, strings.NewReader(s.text())))
}

// repeat is a text n times.
type repeat struct {
	text string
	n    int
	rest string
}

func (r *repeat) Read(into []byte) (int, error) {
	if r.rest == "" {
		if r.n == 0 {
			return 0, io.EOF
		}
		r.n, r.rest = r.n-1, strings.Repeat(r.text, 100)
	}
	n := copy(into, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func counted(verb, version string, code, n int) string {
	return fmt.Sprintf("apiserver_request_total{code=%q,component=\"apiserver\",dry_run=\"\",group=%q,resource=\"crontabs\",scope=\"resource\",subresource=\"\",verb=%q,version=%q} %d\n",
		fmt.Sprint(code), testbed.CronTabGroup, verb, version, n)
}

// TestMetricsText reads a text of which little matters, and of a server that has
// run for long.
func TestMetricsText(t *testing.T) {
	started := time.Now().Add(-48 * time.Hour).Unix()
	text := func() string {
		return "# TYPE apiserver_request_total counter\n" + counted("APPLY", "v1beta1", 200, 12) + counted("PUT", "v1beta1", 409, 3) +
			counted("LIST", "v1", 200, 1e6) + strings.ReplaceAll(counted("LIST", "v1beta1", 200, 5), "crontabs", "others") +
			"apiserver_requested_deprecated_apis{group=\"" + testbed.CronTabGroup + "\",removed_release=\"\",resource=\"crontabs\",subresource=\"\",version=\"v1beta1\"} 1\n" +
			"apiserver_request_total{" + strings.Repeat("x", 1<<17) + "\n" + fmt.Sprintf("process_start_time_seconds %d.25\n", started)
	}
	servers := metricsServers{servers: cluster.APIServers{Addresses: []string{"192.0.2.1:6443"}, Leases: 1}, text: text, padding: 2000} // 27 MB.
	target := auditTarget("v1beta1")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	metrics, err := usage.ReadMetrics(t.Context(), servers, usage.MetricsOptions{Window: 24 * time.Hour}, []usage.Target{target})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	// All that was allocated, and not only what is kept.
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 100<<20 {
		t.Errorf("%d MiB were allocated", allocated>>20)
	}
	evidence, unlooked, err := metrics.Collect(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range evidence {
		got = append(got, fmt.Sprintf("%s %d %s %s", e.What, e.Count, e.Proves, e.Note))
	}
	since := "since the API server started, " + time.Unix(started, 0).UTC().Format(time.RFC3339) + " (a restart begins anew; this tool's own requests are among them): "
	want := []string{
		"apply 12 past use " + since + "12 apply (200); some while it was deprecated (apiserver_requested_deprecated_apis)",
		"write 3 past use " + since + "3 update (409); some while it was deprecated (apiserver_requested_deprecated_apis)",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	verdict, _ := usage.Judge(evidence, unlooked, 24*time.Hour, time.Now())
	if verdict != v1alpha1.UsageProbablyUnused || len(unlooked) != 1 {
		t.Errorf("%s, %+v", verdict, unlooked)
	}

	broken := metricsServers{text: func() string { return "<html>\n" }}
	if metrics, err = usage.ReadMetrics(t.Context(), broken, usage.MetricsOptions{}, []usage.Target{target}); err != nil {
		t.Fatal(err)
	}
	if _, unlooked, _ := metrics.Collect(t.Context(), target); len(unlooked) != 1 || unlooked[0].Optional || unlooked[0].Why != "the server has no metrics of an API server" {
		t.Errorf("%+v", unlooked)
	}
}

func FuzzMetricsText(f *testing.F) {
	f.Add(counted("GET", "v1beta1", 200, 1) + "process_start_time_seconds 1.7e9\n")
	f.Add("process_start_time_seconds NaN\napiserver_request_total{group=\"" + testbed.CronTabGroup + "\",resource=\"crontabs\"} -1e300\n")
	f.Fuzz(func(t *testing.T, text string) {
		target := auditTarget("v1beta1", "")
		metrics, err := usage.ReadMetrics(t.Context(), metricsServers{text: func() string { return text }}, usage.MetricsOptions{}, []usage.Target{target})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := metrics.Collect(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	})
}

package usage_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// auditRequest is a request as the server logs it.
type auditRequest struct {
	id, stage, verb, uri, user, by, agent, version, subresource, name string
	code                                                              int
	second                                                            int
}

var auditStart = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// line writes the request as kube-apiserver 1.37 does at the level Metadata.
func (r auditRequest) line() string {
	received := auditStart.Add(time.Duration(r.second) * time.Second)
	event := map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": r.id, "stage": r.stage,
		"requestURI": "/apis/" + testbed.CronTabGroup + "/" + r.version + "/namespaces/default/crontabs/" + r.name + r.uri,
		"verb":       r.verb, "user": map[string]any{"username": r.user, "groups": []string{"writers", "system:authenticated"}},
		"sourceIPs": []string{"10.0.0.1", "10.9.9.9"}, "userAgent": r.agent,
		"objectRef": map[string]any{
			"resource": "crontabs", "namespace": "default", "name": r.name, "apiGroup": testbed.CronTabGroup, "apiVersion": r.version,
			"subresource": r.subresource,
		},
		"requestReceivedTimestamp": received.Format("2006-01-02T15:04:05.000000Z"),
		"stageTimestamp":           received.Add(2 * time.Minute).Format("2006-01-02T15:04:05.000000Z"),
	}
	if r.code != 0 {
		event["responseStatus"] = map[string]any{"metadata": map[string]any{}, "code": r.code}
	}
	if r.by != "" {
		event["user"], event["impersonatedUser"] = map[string]any{"username": r.by}, event["user"]
	}
	text, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

func auditTarget(versions ...string) usage.Target {
	return usage.Target{CRD: crd.Live(testbed.CronTabs("v1beta1", "v1")), Versions: versions}
}

func readAudit(t *testing.T, in io.Reader, options usage.AuditOptions, versions ...string) (*usage.Audit, []string, []v1alpha1.Unlooked) {
	t.Helper()
	if in != nil {
		options.Logs, options.Stdin = append(options.Logs, "-"), in
	}
	target := auditTarget(versions...)
	audit, err := usage.ReadAudit(t.Context(), options, []usage.Target{target})
	if err != nil {
		t.Fatal(err)
	}
	evidence, unlooked, err := audit.Collect(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	return audit, requestRows(evidence), unlooked
}

// requestRows writes evidence of requests as lines.
func requestRows(evidence []v1alpha1.UsageEvidence) []string {
	var rows []string
	for _, e := range evidence {
		row := fmt.Sprintf("%s %s %s %s", e.Version, e.Who, e.Requests.UserAgent, e.What)
		if e.Subresource != "" {
			row += "/" + e.Subresource
		}
		row += fmt.Sprintf(" %d", e.Count)
		if e.LastSeen != nil {
			row += " " + e.LastSeen.Format("15:04:05")
		}
		rows = append(rows, row+" "+string(e.Proves)+" "+e.Note)
	}
	return rows
}

func TestAuditCountsRequestsOnce(t *testing.T) {
	t.Parallel()
	const collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	base := auditRequest{stage: "ResponseComplete", verb: "update", user: "alice", agent: "client/1", version: "v1beta1", name: "a", code: 200}
	edit := func(id string, change func(*auditRequest)) string {
		r := base
		r.id = id
		change(&r)
		return r.line()
	}
	same := func(*auditRequest) {}
	stage := func(stage, verb string, code, second int) func(*auditRequest) {
		return func(r *auditRequest) { r.stage, r.verb, r.code, r.second = stage, verb, code, second }
	}
	events := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` +
		strings.TrimSpace(edit("list-1", func(r *auditRequest) { r.user = "list" })) + "," +
		strings.TrimSpace(edit("list-2", func(r *auditRequest) { r.user = "list" })) + "]}\n"
	record, err := json.Marshal(map[string]string{"log": edit("shipped", func(r *auditRequest) { r.user = "shipped" }), "stream": "stdout"})
	if err != nil {
		t.Fatal(err)
	}
	log := strings.Join([]string{
		// Alice: one request in two stages, one of them twice; one of another ID.
		edit("1", stage("RequestReceived", "update", 0, 0)), edit("1", same), edit("1", same),
		edit("2", func(r *auditRequest) { r.second, r.uri = 60, "?dryRun=All&fieldManager=x" }),
		// One whose client sends the same Audit-ID with each request.
		edit("fixed", func(r *auditRequest) { r.user, r.second = "fixed", 1 }), edit("fixed", func(r *auditRequest) { r.user, r.second = "fixed", 2 }),
		edit("3", func(r *auditRequest) { r.verb, r.uri = "patch", "?fieldManager=x&force=false" }),
		edit("4", func(r *auditRequest) { r.subresource = "status" }),
		edit("5", func(r *auditRequest) { r.by = "root" }),
		edit("6", stage("RequestReceived", "get", 0, 0)), edit("6", stage("ResponseComplete", "get", 403, 0)),
		edit("7", stage("ResponseComplete", "get", 404, 0)),
		// Two watches, one of which has ended after two minutes, and a request
		// without an answer.
		edit("8", stage("ResponseStarted", "watch", 200, 10)), edit("8", stage("ResponseComplete", "watch", 200, 10)),
		edit("9", func(r *auditRequest) { stage("ResponseStarted", "watch", 200, 0)(r); r.agent = "informer" }),
		edit("10", func(r *auditRequest) { stage("RequestReceived", "create", 0, 0)(r); r.agent = "hangs" }),
		edit("11", func(r *auditRequest) { r.version = "v1" }),
		edit("12", func(r *auditRequest) { r.agent = "kubectl-crdver/v1.0.0 (linux/amd64)" }),
		edit("13", func(r *auditRequest) { r.user, r.verb = collector, "watch" }),
		edit("14", func(r *auditRequest) { r.user, r.verb = collector, "get" }),
		edit("15", func(r *auditRequest) { r.user = "late"; r.second = 300 }),
		events, string(record) + "\n",
		"2026-11-01T12:00:00.000000000Z stdout F " + edit("cri", func(r *auditRequest) { r.user = "cri" }),
		strings.Replace(edit("old", func(r *auditRequest) { r.user = "old" }), "audit.k8s.io/v1", "audit.k8s.io/v1beta1", 1),
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","requestURI":"/apis/` + testbed.CronTabGroup + `/v1beta1","verb":"get"}` + "\n", // Discovery.
	}, "")
	audit, rows, unlooked := readAudit(t, strings.NewReader(log), usage.AuditOptions{}, "v1beta1")
	want := []string{
		"v1beta1 alice client/1 write 2 12:01:00 use 1 dry run",
		"v1beta1 fixed client/1 write 2 12:00:02 use ",
		"v1beta1 list client/1 write 2 12:00:00 use ",
		"v1beta1 alice client/1 apply 1 12:00:00 use ",
		"v1beta1 alice client/1 read 1 12:00:00 use all answered 404: no such object, or the version was not served",
		"v1beta1 alice client/1 read 1 12:00:00 reference all denied, so that there is nothing to lose",
		"v1beta1 alice client/1 read 1 12:02:10 use ",
		"v1beta1 alice client/1 write 1 12:00:00 use ",
		"v1beta1 alice hangs write 1 12:00:00 use the log has no answer",
		"v1beta1 alice informer read 1 12:05:00 use 1 open at the end of the log",
		"v1beta1 alice kubectl-crdver/v1.0.0 (linux/amd64) write 1 12:00:00 capability this tool: uses the version that discovery prefers, whichever that is",
		"v1beta1 alice client/1 write/status 1 12:00:00 use ",
		"v1beta1 cri client/1 write 1 12:00:00 use ",
		"v1beta1 late client/1 write 1 12:05:00 use ",
		"v1beta1 old client/1 write 1 12:00:00 use ",
		"v1beta1 shipped client/1 write 1 12:00:00 use ",
		"v1beta1 " + collector + " client/1 read 1 12:02:00 capability the garbage collector or the quota controller: uses the version that discovery prefers, whichever that is",
		"v1beta1 " + collector + " client/1 read 1 12:00:00 use the garbage collector, which reads owners at the version that an ownerReference names",
	}
	if diff := cmp.Diff(sorted(want), sorted(rows)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if len(unlooked) != 0 || audit.Stats.Corrupt != 0 {
		t.Errorf("%+v, %+v", unlooked, audit.Stats)
	}
}

func TestAuditSkipsWhatIsCorrupt(t *testing.T) {
	t.Parallel()
	good := auditRequest{id: "1", stage: "ResponseComplete", verb: "get", user: "alice", version: "v1beta1", code: 200}.line()
	long := `{"apiGroup":"` + testbed.CronTabGroup + `","x":"` + strings.Repeat("x", 9<<20) + "\"}\n"
	log := "\ufeff" + good + "\n" + good[:len(good)/2] + "\n" + strings.Replace(good, `"verb":`, `"verb":[`, 1) + "plain text\n" + long +
		strings.Replace(good, `"auditID":"1"`, `"auditID":"2"`, 1) + good[:len(good)-40]
	audit, rows, unlooked := readAudit(t, strings.NewReader(log), usage.AuditOptions{Window: time.Hour, Now: auditStart.Add(3 * time.Hour)}, "v1beta1")
	if want := []string{"v1beta1 alice  read 2 12:00:00 use "}; !cmp.Equal(want, rows) {
		t.Errorf("got %q, want %q", rows, want)
	}
	stats := audit.Stats
	if stats.Lines != 7 || stats.Events != 2 || stats.Corrupt != 3 || stats.TooLong != 1 || stats.CutOff != 1 || stats.Bytes != int64(len(log)) {
		t.Errorf("%+v", stats)
	}
	var why []string
	for _, u := range unlooked {
		why = append(why, fmt.Sprint(u.Optional, " ", u.Why))
	}
	want := []string{
		"false 4 of 7 lines were skipped (3 no audit events, 1 longer than 8 MiB)",
		"true the last line of 1 of the logs is cut off and was skipped",
		"false the log is about 2026-11-01T12:00:00Z to 2026-11-01T12:00:00Z, which is not all of the last 1h0m0s",
	}
	if diff := cmp.Diff(want, why); diff != "" {
		t.Errorf("not looked at (-want +got):\n%s", diff)
	}
	if _, _, unlooked := readAudit(t, strings.NewReader(good), usage.AuditOptions{}); len(unlooked) != 0 {
		t.Errorf("the resource is in the log, at another version: %+v", unlooked)
	}
	other := strings.ReplaceAll(good, "crontabs", "others")
	if _, _, unlooked := readAudit(t, strings.NewReader(other), usage.AuditOptions{}, "v1"); len(unlooked) != 1 {
		t.Errorf("the resource is not in the log: %+v", unlooked)
	}
}

func TestAuditLogs(t *testing.T) {
	t.Parallel()
	line := func(id string) []byte {
		return []byte(auditRequest{id: id, stage: "ResponseComplete", verb: "get", user: "alice", version: "v1beta1", code: 200}.line())
	}
	zip := func(texts ...[]byte) []byte {
		var out bytes.Buffer
		for _, text := range texts { // Members of one file.
			w := gzip.NewWriter(&out)
			_, _ = w.Write(text)
			_ = w.Close()
		}
		return out.Bytes()
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("audit.log", line("1"))
	// Copied in the rotation, so that a request is in two files.
	write("audit-1.log.gz", zip(line("1"), line("2")))
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, rows, unlooked := readAudit(t, bytes.NewReader(zip(line("3"))), usage.AuditOptions{Logs: []string{dir}}, "v1beta1")
	if want := []string{"v1beta1 alice  read 3 12:00:00 use "}; !cmp.Equal(want, rows) || len(unlooked) != 0 {
		t.Errorf("got %q %+v, want %q", rows, unlooked, want)
	}
	zipped := zip(bytes.Repeat(line("4"), 2000))
	write("cut.gz", zipped[:len(zipped)-50])
	write("notes.txt", []byte("not an audit log\n"))
	write("x.zst", []byte("\x28\xb5\x2f\xfd1234"))
	_, rows, unlooked = readAudit(t, nil, usage.AuditOptions{Logs: []string{dir}}, "v1beta1")
	if want := []string{"v1beta1 alice  read 3 12:00:00 use "}; !cmp.Equal(want, rows) {
		t.Errorf("got %q, want %q", rows, want)
	}
	told := fmt.Sprint(unlooked)
	for _, want := range []string{"cut.gz: the compressed data is damaged", "notes.txt: no audit events", "x.zst: it is compressed with zstd"} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in %s", want, told)
		}
	}
	for _, log := range []string{"notes.txt", "x.zst", "missing", "empty"} {
		_, err := usage.ReadAudit(t.Context(), usage.AuditOptions{Logs: []string{filepath.Join(dir, log)}}, []usage.Target{auditTarget("v1")})
		if err == nil || !strings.HasPrefix(err.Error(), "reading audit log "+filepath.Join(dir, log)) {
			t.Errorf("%s: error %v", log, err)
		}
	}
	// An empty one is one that was just rotated.
	if _, err := usage.ReadAudit(t.Context(), usage.AuditOptions{Logs: []string{write("new.log", nil)}}, nil); err != nil {
		t.Error(err)
	}
}

// TestAuditDuring counts the requests that were received at some times only.
func TestAuditDuring(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for second := range 60 {
		log.WriteString(auditRequest{id: fmt.Sprint(second), stage: "ResponseComplete", verb: "get", user: "alice", version: "v1beta1", code: 404, second: second}.line())
	}
	at := func(second int) time.Time { return auditStart.Add(time.Duration(second) * time.Second) }
	for _, test := range []struct {
		during []usage.Span
		want   int
	}{
		{nil, 60},
		{[]usage.Span{}, 0},
		{[]usage.Span{{From: at(10), To: at(12)}, {From: at(20), To: at(20)}, {From: at(58)}}, 3 + 1 + 2},
	} {
		audit, _, _ := readAudit(t, strings.NewReader(log.String()), usage.AuditOptions{During: test.during}, "v1beta1")
		if audit.Stats.Events != int64(test.want) {
			t.Errorf("%v: %d requests, want %d", test.during, audit.Stats.Events, test.want)
		}
	}
}

func ifEmpty(n int) error {
	if n == 0 {
		return io.EOF
	}
	return nil
}

func FuzzAuditLine(f *testing.F) {
	good := auditRequest{id: "1", stage: "ResponseStarted", verb: "watch", user: "alice", version: "v1beta1", code: 200}.line()
	f.Add(good)
	f.Add(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + strings.TrimSpace(good) + `,null,{}]}`)
	f.Add(`{"log":"{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"objectRef\":{\"apiGroup\":\"stable.example.com\"}}"}`)
	f.Add("\x1f\x8b\x08")
	f.Fuzz(func(t *testing.T, text string) {
		target := auditTarget("v1beta1")
		audit, err := usage.ReadAudit(t.Context(), usage.AuditOptions{Logs: []string{"-"}, Stdin: strings.NewReader(good + text)}, []usage.Target{target})
		if err != nil {
			t.Fatal(err) // The first line is good.
		}
		evidence, _, err := audit.Collect(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		var total int64
		for _, e := range evidence {
			total += e.Count
		}
		if total == 0 || total > audit.Stats.Events || audit.Stats.Corrupt+audit.Stats.CutOff > audit.Stats.Lines {
			t.Errorf("%d requests in %+v", total, audit.Stats)
		}
	})
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

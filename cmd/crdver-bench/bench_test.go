package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/bench"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestMain makes this test binary the server and the clients, too.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		err = serve(context.Background(), os.Args[2], os.Stdin, os.Stdout)
	case len(os.Args) == 3 && os.Args[1] == "client":
		err = bench.Main(context.Background(), os.Args[2:], os.Stdout)
	default:
		m.Run()
	}
	if err != nil {
		panic(err) // Who started it sees it fail, and why.
	}
}

func testOptions(t *testing.T, stdout io.Writer) options {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts an API server")
	}
	return options{
		self: []string{os.Args[0]}, client: []string{os.Args[0], "client"}, bed: bedInProcess,
		objectBytes: 2048, idleFor: 100 * time.Millisecond, stdout: stdout, stderr: t.Output(),
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	args := []string{"migrate", "-bed=in-process", "-objects=80", "-rounds=1", "-idle=100ms", "-only=crdver,get-put", "-o=json"}
	if err := run(t.Context(), args, testOptions(t, &stdout)); err != nil {
		t.Fatal(err)
	}
	var results Results
	if err := json.Unmarshal(stdout.Bytes(), &results); err != nil {
		t.Fatal(err)
	}
	if len(results.Tables) != 2 || results.Machine.CPUs == 0 {
		t.Fatalf("%+v", results)
	}
	for _, table := range results.Tables {
		own, serial := table.find(idEngine), table.find("get-put")
		if own == nil || serial == nil {
			t.Fatalf("contestants are missing: %+v", table)
		}
		if own.Median.Objects != 80 || serial.Median.Objects != 20 {
			t.Errorf("%d and %d objects", own.Median.Objects, serial.Median.Objects)
		}
		// Each whole object goes over the wire three times, twice of them back. A
		// small run pays for the handshake, too.
		if m := serial.Median; m.Sent < 2048 || m.Received < 2*2048 || own.Median.bytes() > 1500 {
			t.Errorf("bytes per object: %+v and %.0f", m, own.Median.bytes())
		}
	}
	// Two requests for each object, one after the other.
	if rate := results.Tables[1].find("get-put").Median.ObjectsPerSecond; rate > 1/0.04 {
		t.Errorf("with a round trip of 20 ms, %.0f objects/s are too many", rate)
	}
	if err := results.markdown(&stdout); err != nil || !strings.Contains(stdout.String(), "| serial, GET and PUT |") {
		t.Errorf("%v: %s", err, stdout.String())
	}
}

// Those that stop early leave the objects as the next ones have to find them: each
// run is held against etcd.
func TestScale(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	args := []string{"scale", "-bed=in-process", "-objects=200", "-idle=100ms", "-only=crdver,list-put,version-patch", "-o=json"}
	if err := run(t.Context(), args, testOptions(t, &stdout)); err != nil {
		t.Fatal(err)
	}
	var results ScaleResults
	if err := json.Unmarshal(stdout.Bytes(), &results); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		id        string
		few, many int64
	}{{idEngine, 20, 200}, {"list-put", 2, 2}, {"version-patch", 2, 2}} {
		if len(results.Results) <= i {
			t.Fatalf("%s is missing: %+v", want.id, results)
		}
		result := results.Results[i]
		if result.ID != want.id || len(result.Runs) != 2 || result.Runs[0].Objects != want.few || result.Runs[1].Objects != want.many {
			t.Errorf("%+v, want %+v", result, want)
		}
		for _, run := range result.Runs {
			if run.PeakBytes < 1e6 {
				t.Errorf("%s: a peak of %d bytes", result.ID, run.PeakBytes)
			}
		}
	}
	if err := results.markdown(&stdout); err != nil || !strings.Contains(stdout.String(), "| serial, PUT of the listed object, the first 2 |") {
		t.Errorf("%v: %s", err, stdout.String())
	}
}

// A contestant that leaves objects behind must not get a rate.
func TestVerify(t *testing.T) {
	t.Parallel()
	f, err := prepareField(t.Context(), testOptions(t, io.Discard), t.TempDir(), []share{{shareMost, 6}, {shareFew, 4}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.bed.Stop)
	if err := f.objects.flip(t.Context()); err != nil {
		t.Fatal(err)
	}
	some := contestant{ID: "some", request: bench.Request{Namespace: shareFew}}
	all := contestant{ID: "all"}
	if err := f.check(t.Context(), some, bench.Outcome{Objects: 4, Rewritten: 4}); err == nil || !strings.Contains(err.Error(), "etcd holds map[v1beta1:4]") {
		t.Errorf("nothing was rewritten: %v", err)
	}
	request := bench.Request{Way: bench.WayBare, Workers: 2, Kubeconfig: f.direct, Resource: testbed.CronTabResource("v1"), Namespace: shareFew}
	outcome, err := bench.Run(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.check(t.Context(), all, bench.Outcome{Objects: 10, Rewritten: 10}); err == nil {
		t.Error("only four were rewritten")
	}
	if err := f.check(t.Context(), some, bench.Outcome{Objects: 4, Rewritten: 3}); err == nil {
		t.Error("it says that it rewrote three")
	}
	if err := f.check(t.Context(), some, outcome); err != nil {
		t.Error(err)
	}
}

func TestSynthetic(t *testing.T) {
	t.Parallel()
	server, err := startSynthetic(t.Context(), 1100)
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := testbed.WriteKubeconfig(kubeconfig, server.config()); err != nil {
		t.Fatal(err)
	}
	outcome, err := bench.Run(t.Context(), bench.Request{Way: bench.WayEngine, Kubeconfig: kubeconfig, Resource: testbed.CronTabResource("v1")})
	if err != nil || outcome.Objects != 1100 || outcome.Rewritten != 1100 {
		t.Errorf("%+v, %v", outcome, err)
	}
}

// The proxy delays each way by half the round trip, however much is under way.
func TestRelay(t *testing.T) {
	t.Parallel()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for conn, err := echo.Accept(); err == nil; conn, err = echo.Accept() {
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	const roundTrip, size = 20 * time.Millisecond, 8 << 20
	proxy, err := startRelay(t.Context(), "https://"+echo.Addr().String(), roundTrip)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(proxy.url(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	begin := time.Now()
	go func() { _, _ = conn.Write(make([]byte, size)) }()
	buffer := make([]byte, size)
	if _, err := io.ReadFull(conn, buffer[:1]); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < roundTrip {
		t.Errorf("the first byte took %s", took)
	}
	if _, err := io.ReadFull(conn, buffer[1:]); err != nil {
		t.Fatal(err)
	}
	// Chunks have at most 32 KiB. Would each wait for itself, it took that long.
	if took := time.Since(begin); took > size/(32<<10)*roundTrip/2 {
		t.Errorf("8 MiB took %s", took)
	}
	if proxy.sent.Load() != size || proxy.received.Load() != size {
		t.Errorf("%d bytes sent and %d received", proxy.sent.Load(), proxy.received.Load())
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"bogus"}, {"migrate", "more"}, {"migrate", "-objects=0"}, {"migrate", "-bed=x"}, {"migrate", "-o=x"},
		{"migrate", "-only=x"}, {"check", "-only=crdver"}, {"check"}, {"check", "-rounds=1"}, {"migrate", "-plugin=/nowhere"},
	} {
		if err := run(t.Context(), args, options{stdout: io.Discard, stderr: io.Discard}); err == nil {
			t.Errorf("%q: want an error", args)
		}
	}
}

// The ceiling of a round is that of the generator which is the best in the others.
func TestPartOfCeiling(t *testing.T) {
	t.Parallel()
	result := func(id string, rates ...float64) Result {
		r := Result{ID: id, Ceiling: id != idEngine}
		for _, rate := range rates {
			r.add(Run{ObjectsPerSecond: rate})
		}
		return r
	}
	table := Table{Results: []Result{
		result(idEngine, 90, 80, 95), result("steady", 100, 100, 100), result("lucky", 50, 300, 50),
	}}
	// In the second round "lucky" is the fastest, which nobody knew beforehand; the
	// first and the third one take it for the best, because of the second.
	if part, rate := table.partOfCeiling(); part != 1.8 || rate != 50 {
		t.Errorf("got %v of %v", part, rate)
	}
	table.Results[2] = result("lucky", 50, 120, 50)
	if part, rate := table.partOfCeiling(); part != 0.9 || rate != 100 {
		t.Errorf("got %v of %v", part, rate)
	}
	for _, less := range []Table{{}, {Results: table.Results[1:]}, {Results: []Result{result(idEngine, 1), result("steady", 2)}}} {
		if part, _ := less.partOfCeiling(); part != 0 {
			t.Errorf("got %v of %+v", part, less)
		}
	}
}

// What the README says is what the programs wrote.
func TestReadmeResults(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/bench/*.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(readme, text) {
			t.Errorf("the README does not have the results of %s as they are", file)
		}
	}
}

package usage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// TestAuditInterrupt ends the wait for a pipe that nobody writes to.
func TestAuditInterrupt(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := usage.ReadAudit(ctx, usage.AuditOptions{Logs: []string{"-"}, Stdin: reader}, []usage.Target{auditTarget("v1")})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// auditStream generates an audit log: 1 of 50 lines is about the resource, half
// of these are of clients that never come back.
type auditStream struct {
	left    int64
	n       int
	every   int
	pending []byte
	other   []byte
}

func newAuditStream(size int64) *auditStream {
	other := auditRequest{id: "11111111-1111-4111-8111-111111111111", stage: "ResponseComplete", verb: "get", user: "system:node:worker-1", version: "v1", code: 200}.line()
	other = strings.ReplaceAll(strings.ReplaceAll(other, testbed.CronTabGroup, "coordination.k8s.io"), "crontabs", "leases")
	other = strings.TrimSuffix(other, "}\n") + `,"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"` + strings.Repeat("a long name ", 20) + `\""}}` + "\n"
	return &auditStream{left: size, every: 50, other: []byte(other)}
}

func (s *auditStream) Read(into []byte) (int, error) {
	total := 0
	for total < len(into) {
		if len(s.pending) == 0 {
			if s.left <= 0 {
				return total, ifEmpty(total)
			}
			s.n++
			s.pending = s.other
			if s.n%s.every == 0 {
				user := "regular"
				if s.n%(2*s.every) == 0 {
					user = fmt.Sprintf("user-%d-%s", s.n, strings.Repeat("x", 1000))
				}
				s.pending = []byte(auditRequest{
					id: fmt.Sprint(s.n), stage: "ResponseComplete", verb: "list", user: user, agent: user, version: "v1beta1", code: 200,
				}.line())
			}
			s.left -= int64(len(s.pending))
		}
		n := copy(into[total:], s.pending)
		s.pending = s.pending[n:]
		total += n
	}
	return total, nil
}

// TestAuditMemory reads 200 MB with thousands of clients and looks at the live
// heap meanwhile. It is not parallel: the heap is that of all tests.
func TestAuditMemory(t *testing.T) {
	const size = 200 << 20
	live := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before, most, at := live(), uint64(0), int64(0)
	options := usage.AuditOptions{Progress: func(_ string, read int64) {
		if read-at >= 20<<20 {
			most, at = max(most, live()), read
		}
	}}
	stream := newAuditStream(size)
	audit, rows, _ := readAudit(t, stream, options, "v1beta1")
	if grown := int64(most) - int64(before); grown > 32<<20 {
		t.Errorf("the live heap grew by %d MiB", grown>>20)
	}
	events := int64(stream.n / stream.every)
	if audit.Stats.Lines != int64(stream.n) || audit.Stats.Events != events || audit.Stats.Bytes < size {
		t.Errorf("%+v, want %d lines, %d events", audit.Stats, stream.n, events)
	}
	if len(rows) != 501 || !strings.Contains(strings.Join(rows, "\n"), "(others)") || !strings.HasPrefix(rows[0], fmt.Sprintf("v1beta1 regular regular read %d", (events+1)/2)) {
		t.Errorf("%d rows, the first is %q", len(rows), rows[0])
	}
}

// BenchmarkAudit reads 1 GB of audit log, of which 1 of 50 lines matters.
func BenchmarkAudit(b *testing.B) {
	const size = 1 << 30
	b.SetBytes(size)
	for b.Loop() {
		_, err := usage.ReadAudit(b.Context(), usage.AuditOptions{Logs: []string{"-"}, Stdin: newAuditStream(size)}, []usage.Target{auditTarget("v1beta1")})
		if err != nil {
			b.Fatal(err)
		}
	}
}

package e2e_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestConvertThroughTheCluster converts with the webhook of a live CRD.
func TestConvertThroughTheCluster(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	b.hostPorts(t, "convert.example.com", hook(t, hostPort), 0)
	file := writeFile(t, "objects.yaml", []byte(`
apiVersion: convert.example.com/v1beta1
kind: CronTab
metadata: {name: a}
spec: {hostPort: "localhost:1234", unknown: 1}
---
apiVersion: v1
kind: List
items:
- apiVersion: convert.example.com/v1
  kind: CronTab
  metadata: {name: b}
  spec: {host: localhost, port: "80"}
`))
	got := b.must(t, 0, "convert", "-f", file, "--to", "v1")
	want := `apiVersion: convert.example.com/v1
kind: CronTab
metadata:
  name: a
spec:
  host: localhost
  port: "1234"
---
apiVersion: convert.example.com/v1
kind: CronTab
metadata:
  name: b
spec:
  host: localhost
  port: "80"
`
	if diff := cmp.Diff(want, got.stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	contains(t, got.stderr, "CronTab a: v1beta1 does not know, and the server drops: spec.unknown")
	unknown := writeFile(t, "unknown.yaml", []byte("{apiVersion: convert.example.com/v1, kind: CronTab, metadata: {name: a}}\n---\n{apiVersion: nowhere.example.com/v1, kind: Other, metadata: {name: a}}\n"))
	failed := b.must(t, 1, "convert", "-f", unknown, "--to", "v1beta1")
	if contains(t, failed.stderr, `Other a: no CRD has the kind Other of the group "nowhere.example.com"`); failed.stdout != "" {
		t.Errorf("half of it is printed: %s", failed)
	}
}

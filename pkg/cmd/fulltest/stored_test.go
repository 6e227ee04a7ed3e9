//go:build controlplane

package fulltest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestStoredAtRest: what kube-apiserver persists as CBOR, and what it encrypts, as
// a snapshot tells it.
func TestStoredAtRest(t *testing.T) {
	t.Parallel()
	encryption := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(encryption, []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [crontabs.secret.example.com]
  providers:
  - aescbc: {keys: [{name: key1, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	bed := startFull(t, testbed.FullOptions{APIServerArgs: []string{
		"--encryption-provider-config=" + encryption, "--feature-gates=CBORServingAndStorage=true",
	}})
	s := newSubject(t, bed, "open.example.com", 3, "v1beta1", "v1")
	newSubject(t, bed, "secret.example.com", 2, "v1beta1", "v1")
	snapshot := filepath.Join(t.TempDir(), "snapshot.db")
	if err := testbed.SaveSnapshot(t.Context(), bed.Etcd(), snapshot); err != nil {
		t.Fatal(err)
	}
	got := s.run(t, "stored", "-o", "json", "--etcd-snapshot", snapshot)
	var report v1alpha1.StoredReport
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatalf("%v\n%+v", err, got)
	}
	if sum := report.Summary; sum.CRDs != 2 || sum.Current != 3 || sum.Encrypted != 2 || sum.Objects != 5 || got.code != 0 {
		t.Errorf("%+v", got)
	}
	values, err := bed.Etcd().Get(t.Context(), "/registry/open.example.com/crontabs/", clientv3.WithPrefix())
	if err != nil || len(values.Kvs) != 3 || string(values.Kvs[0].Value[:3]) != "\xd9\xd9\xf7" {
		t.Errorf("the test is not about CBOR: %v, %v", values, err)
	}
}

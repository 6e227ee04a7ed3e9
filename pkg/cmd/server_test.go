package cmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestCompleteOnServer asks a real server, which answers in protobuf.
func TestCompleteOnServer(t *testing.T) {
	bed := startServer(t)
	t.Setenv("KUBECONFIG", bed.kubeconfig)
	t.Setenv("KUBECACHEDIR", t.TempDir())

	crds := testbed.CronTabs("v1beta1", "v1")
	testbed.Version(crds, "v1beta1").Served = true
	testbed.Version(crds, "v1").Served = false
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), crds); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ words, want []string }{
		{[]string{"test-versions", ""}, []string{"v1\t" + testbed.CronTabCRD, "v1beta1\t" + testbed.CronTabCRD, ":36"}},
		{[]string{"test-versions", "v1", ""}, []string{testbed.CronTabCRD, ":4"}},
		{[]string{"test-crds", "cron"}, []string{testbed.CronTabCRD, ":4"}},
	} {
		if got := complete(t, test.words...); !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q, want %q", test.words, got, test.want)
		}
	}

	want := "Client Version: v1.2.3\nServer Version: " + testbed.KubernetesVersion + "\n"
	if got := runPlugin(t, "version"); got.stdout != want || got.stderr != "" || got.code != 0 {
		t.Errorf("got %+v, want %q", got, want)
	}
	if got := runPlugin(t, "version", "-o", "json"); !strings.Contains(got.stdout, `"serverVersion": {`) {
		t.Errorf("no server version in\n%s", got.stdout)
	}
}

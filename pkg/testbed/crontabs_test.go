package testbed_test

import (
	"bytes"
	"os"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// The README names the file for those who go through the runbook by hand.
func TestCronTabsOfTheRunbook(t *testing.T) {
	t.Parallel()
	const name = "../../testdata/crds/crontabs/start/crd.yaml"
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want, err := yaml.Marshal(testbed.CronTabs("v1beta1", "v1"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, append([]byte("# Where the runbook of the README starts: v1beta1 and v1 served, v1beta1 stored.\n"), want...)) {
		t.Errorf("%s is not what the beds load, which is:\n%s", name, want)
	}
}

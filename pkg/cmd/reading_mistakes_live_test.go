package cmd

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestReadingMistakes is must-show 10: a table of what is answered with one line
// on stderr, nothing on stdout, and exit code 1.
func TestReadingMistakes(t *testing.T) {
	s := startServer(t)
	empty := s.must(t, "sort")
	if empty.stdout != "" || empty.stderr != "No resources found\n" {
		t.Errorf("an empty cluster: %+v", empty)
	}
	if got := s.run(t, "status", "crontabs"); got.code != 1 || got.stdout != "" || got.stderr != "error: no CustomResourceDefinition is named \"crontabs\": the cluster has none\n" {
		t.Errorf("a name on an empty cluster: %+v", got)
	}

	s.create(t, testbed.CronTabs("v1"))
	s.create(t, crontabsIn("batch.example.com", "v1"))
	// The kind is taken in the same group: this one is never established.
	conflict := called(testbed.CronTabs("v1"), "cronjobs", "CronTab")
	conflict.Spec.Names.Singular, conflict.Spec.Names.ListKind = "cronjob", "CronJobList"
	if _, err := s.crds(t).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), conflict, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 20e6, 20e9, true, func(ctx context.Context) (bool, error) {
		one, err := s.crds(t).ApiextensionsV1().CustomResourceDefinitions().Get(ctx, conflict.Name, metav1.GetOptions{})
		return err == nil && len(one.Status.Conditions) > 1, err
	})
	if err != nil {
		t.Fatal(err)
	}

	directory := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	broken := write("broken", "clusters: [")
	nowhere := write("nowhere", "current-context: gone\n")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	const usage = "See 'kubectl crdver %s --help' for usage.\n"
	for _, test := range []struct {
		args  []string
		want  string
		usage bool
	}{
		{[]string{"crontabz"}, `no CustomResourceDefinition is named "crontabz"; did you mean crontabs.batch.example.com?`, false},
		{[]string{"crontab.stable.example.org"}, `no CustomResourceDefinition is named "crontab.stable.example.org"; did you mean crontabs.stable.example.com?`, false},
		{[]string{"pods"}, `no CustomResourceDefinition is named "pods"; kubectl crdver status lists them all`, false},
		{[]string{"deployments/x"}, `"deployments/x" is not a CustomResourceDefinition: name one as plural.group, crd/plural.group, plural, kind or short name`, false},
		{[]string{"CronTab"}, `"CronTab" is ambiguous, name one in full: cronjobs.stable.example.com, crontabs.batch.example.com, crontabs.stable.example.com`, false},
		{[]string{"ct"}, `"ct" is ambiguous, name one in full: crontabs.batch.example.com, crontabs.stable.example.com`, false},
		{[]string{"crontabs.stable.example.com", "nothing"}, `no CustomResourceDefinition is named "nothing"; kubectl crdver status lists them all`, false},
		{[]string{"cronjobs"}, `the CRD cronjobs.stable.example.com is not established: NamesAccepted is False ("CronTab" is already in use)`, false},
		{[]string{"crontabs.batch.example.com", "-l", "a=b"}, "CRDs are named or selected with -l, not both", true},
		{[]string{"-l", "a=b=c"}, "invalid --selector: found '=', expected: ',' or 'end of string'", true},
		{[]string{"--sort-by", ".nothing"}, `--sort-by: couldn't find any field with path ".nothing" in the list of objects`, true},
		{[]string{"-o", "custom-columns=X"}, `custom column "X" is not HEADER:.path`, true},
		{[]string{"--kubeconfig", broken}, "kubeconfig: error loading config file \"" + broken + "\": yaml: line 1: did not find expected node content", false},
		{[]string{"--kubeconfig", nowhere}, `kubeconfig: invalid configuration: context was not found for specified context: gone`, false},
		{[]string{"--context", "gone"}, `kubeconfig: context "gone" does not exist`, false},
		{[]string{"--server", "https://" + address}, "listing CRDs: the connection to the server " + address + " was refused (is it the right host and port, and is the server running?)", false},
	} {
		for _, command := range []string{"sort", "status"} {
			t.Run(command+" "+strings.Join(test.args, " "), func(t *testing.T) {
				args := append([]string{command, "--kubeconfig", s.kubeconfig}, test.args...)
				want := result{code: 1, stderr: "error: " + test.want + "\n"}
				if test.usage {
					want.stderr += fmt.Sprintf(usage, command)
				}
				if diff := cmp.Diff(want, runPlugin(t, args...), cmp.AllowUnexported(result{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
	// Without being named, it is shown, with the reason.
	wide := s.must(t, "status", "-o", "wide").stdout
	if !strings.Contains(wide, `condition NamesAccepted is False (KindConflict): "CronTab" is already in use`) || !strings.Contains(wide, "Established:  false") {
		t.Errorf("all:\n%s", wide)
	}
}

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// freezer is an admission plugin that speaks as a ValidatingAdmissionPolicy: it
// refuses updates of the objects up to a number, from the next change of the spec of a CRD on.
type freezer struct {
	upTo  atomic.Int32
	armed atomic.Bool
	on    atomic.Bool
}

func (f *freezer) Handles(operation admission.Operation) bool { return operation == admission.Update }

func (f *freezer) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if changesSpec(a) && f.armed.Load() {
		f.on.Store(true)
	}
	if a.GetResource().Resource == testbed.CronTabPlural && f.on.Load() && a.GetName() < fmt.Sprintf("object-%06d", f.upTo.Load()) {
		return admission.NewForbidden(a, errors.New("ValidatingAdmissionPolicy 'frozen' with binding 'all' denied request: it is frozen"))
	}
	return nil
}

// frozen is a scene with a freezer that refuses n objects once the storage
// version changes.
func frozen(t *testing.T, group string, objects, refused int) (*bed, *freezer, string) {
	t.Helper()
	guard := &freezer{}
	b := start(t, testbed.InProcessOptions{Admission: guard})
	name := b.scene(t, group, objects)
	guard.upTo.Store(int32(refused))
	guard.armed.Store(true)
	return b, guard, name
}

func TestReportAndRetry(t *testing.T) {
	t.Parallel()
	const n, group = 40, "report.example.com"
	b, guard, name := frozen(t, group, n, 4)
	file := writeFile(t, "failures.jsonl", []byte("what was there before"))
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}

	got := b.must(t, 4, "promote", "v1", name, "--yes", "--report", file, "-o", "json")
	var report v1alpha1.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(report.Steps, func(s v1alpha1.StepReport) bool { return s.ID == "migrate" })
	if groups := report.Steps[i].FailureGroups; len(groups) != 1 || groups[0].Count != 4 || groups[0].By != v1alpha1.PartyPolicy ||
		groups[0].ByName != "frozen" || len(groups[0].Examples) != 3 || groups[0].Outcome != "refused" {
		t.Errorf("groups: %+v", groups)
	}
	if counts := report.Steps[i].Objects; counts.Refused != 4 || counts.Failed != 0 || counts.Listed != n {
		t.Errorf("counts: %+v", counts)
	}
	b.wantStored(t, group, map[string]int{"v1": n - 4, "v1beta1": 4})
	uid := string(b.crd(t, name).UID)
	wantFailureFile(t, file, uid, 4)

	// One of them is still refused, the others are rewritten. The barrier rewrites a
	// few, too, so that how many are current differs.
	guard.upTo.Store(1)
	got = b.must(t, 4, "migrate", "--retry-from", file, "--yes")
	contains(t, got.stderr, "send 4 objects of "+file+" again", "status.storedVersions is not trimmed",
		"Rehearsal: 4 of 4 objects, 1 refused") // Not the others, which nothing is done to.
	contains(t, got.stdout, "4 objects: ", ", 1 refused", "admission policy frozen (AdmissionDenied)", "--retry-from "+file)
	b.wantStored(t, group, map[string]int{"v1": n - 1, "v1beta1": 1})

	// Free at last, and one that was deleted meanwhile.
	guard.armed.Store(false)
	guard.on.Store(false)
	if err := b.objects(t).Resource(resource(group, "v1")).Namespace("b").Delete(t.Context(), "object-000001", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.must(t, 3, "migrate", b.scene(t, "other.example.com", 1), "--retry-from", file, "--yes").stdoutEmpty(t)
	if got := b.run(t, "migrate", name, "--retry-from", file, "--rehearse-all", "--dry-run=server"); !strings.Contains(got.stdout, "Rehearsal: 3 of 3 objects, 0 refused") {
		t.Errorf("the rehearsal is not of those in the file that are there: %s", got)
	}
	got = b.must(t, 0, "migrate", name, "--retry-from", file, "--yes")
	contains(t, got.stdout, "partly migrated", "4 objects: ", ", 1 deleted meanwhile", "to continue: kubectl crdver migrate "+name+" --kubeconfig")
	b.wantStored(t, group, map[string]int{"v1": n - 1})
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})
	b.must(t, 0, "migrate", name, "--yes")
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1"})

	// A CRD of the same name is another one.
	if err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for { // It goes when its objects are gone.
		if _, err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.createCRD(t, crontabs(group, "v1beta1", "v1"))
	got = b.must(t, 3, "migrate", "--retry-from", file, "--yes")
	contains(t, got.stderr, "is about another CRD "+name, uid)
}

func (r result) stdoutEmpty(t *testing.T) {
	t.Helper()
	if r.stdout != "" {
		t.Errorf("stdout is not empty: %s", r)
	}
}

// wantFailureFile makes sure of a file of --report.
func wantFailureFile(t *testing.T, file, uid string, objects int) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of --report: %v, %v", info.Mode(), err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) != objects+1 {
		t.Fatalf("%d lines:\n%s", len(lines), data)
	}
	var header v1alpha1.FailureReport
	if err := json.Unmarshal([]byte(lines[0]), &header); err != nil || header.Kind != v1alpha1.KindFailureReport || header.UID != uid ||
		header.StorageVersion != "v1" || header.Verb != v1alpha1.VerbPromote || header.StartedAt.IsZero() {
		t.Errorf("the first line: %s, %v", lines[0], err)
	}
	for _, line := range lines[1:] {
		var object v1alpha1.ObjectReport
		if err := json.Unmarshal([]byte(line), &object); err != nil || object.Kind != v1alpha1.KindObjectReport || object.CRD != header.CRD ||
			object.Step != "migrate" || object.UID == "" || object.ByName != "frozen" || object.Outcome != "refused" || !strings.Contains(object.Message, "it is frozen") {
			t.Errorf("a line: %s, %v", line, err)
		}
	}
}

// TestReportThatCannotBeWritten has a file that cannot be written from the
// start, which must keep everything else from being written, and one that breaks in
// the middle, which must not.
func TestReportThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	const n, group = 30, "full.example.com"
	b, _, name := frozen(t, group, n, 5)
	before := b.revisions(t)
	for path, says := range map[string]string{
		"/dev/full":                       "no space left on device",
		t.TempDir():                       "is a directory",
		filepath.Join(t.TempDir(), "a/b"): "no such file or directory",
		"-":                               "--report needs a file",
	} {
		got := b.must(t, 1, "promote", "v1", name, "--yes", "--report", path)
		contains(t, got.stderr, says)
		got.stdoutEmpty(t)
	}
	b.must(t, 1, "promote", "v1", name, "--report", filepath.Join(t.TempDir(), "x"), "--dry-run=client")
	b.wantUnwritten(t, before)

	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReaderSize(reader, 16).ReadString('\n')
		_ = reader.Close()
		first <- line
	}()
	got := b.must(t, 1, "promote", "v1", name, "--yes", "--report", pipe)
	contains(t, <-first, v1alpha1.KindFailureReport)
	contains(t, got.stdout, "partly promoted", "30 objects: 25 rewritten, 5 refused")
	contains(t, got.stderr, "5 of 30 objects could not be rewritten", "the report of the failures is incomplete", "broken pipe")
	if strings.Count(got.stderr, "Warning: writing the file of --report") != 1 {
		t.Errorf("it does not warn once:\n%s", got.stderr)
	}
	b.wantStored(t, group, map[string]int{"v1": n - 5, "v1beta1": 5})
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})
}

// TestRetryFromBadFiles has files that are none of --report.
func TestRetryFromBadFiles(t *testing.T) {
	t.Parallel()
	const group = "bad.example.com"
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, group, 3)
	header := fmt.Sprintf(`{"apiVersion":"crdver.dev/v1alpha1","kind":"FailureReport","crd":%q,"uid":%q,"verb":"migrate"}`+"\n", name, b.crd(t, name).UID)
	object := func(namespace, object string) string {
		return header + fmt.Sprintf(`{"apiVersion":"crdver.dev/v1alpha1","kind":"ObjectReport","crd":%q,"namespace":%q,"name":%q,"uid":"u"}`+"\n", name, namespace, object)
	}
	before := b.revisions(t)
	for text, says := range map[string]string{
		"":                  "it holds no report",
		"[]\n":              "line 1",
		"{}\n":              `apiVersion is ""`,
		header + "{\n":      "line 2",
		header[:20]:         "it holds no report",
		object("a", "../x"): `cannot be the name of an object`,
		object("..", "x"):   `cannot be the name of an object`,
		object("a", ""):     "it names no object",
		strings.Replace(object("a", "x"), `"ObjectReport","crd":"`, `"ObjectReport","crd":"other`, 1): "has no FailureReport above",
		header + strings.Repeat("x", 2<<20): "longer than",
	} {
		got := b.must(t, 1, "migrate", "--retry-from", writeFile(t, "bad", []byte(text)), "--yes")
		contains(t, got.stderr, says)
		got.stdoutEmpty(t)
	}
	good := writeFile(t, "good", []byte(object("a", "x")))
	for _, args := range [][]string{{"-n", "a"}, {"-l", "a=b"}, {"--force"}, {"--all"}, {"--verify", "none"}, {"--plan-out", "x"}, {"--report", good}} {
		b.must(t, 1, append([]string{"migrate", "--retry-from", good, "--yes"}, args...)...)
	}
	b.must(t, 0, "migrate", "--retry-from", writeFile(t, "none", []byte(header)), "--yes")
	// Where the line that is cut short is the only one, there was something to send.
	cut := b.must(t, 1, "migrate", "--retry-from", writeFile(t, "cut", []byte(header+object("a", "x")[len(header):len(header)+40])), "--yes")
	cut.stdoutEmpty(t)
	contains(t, cut.stderr, "names no object but in its last line", "kubectl crdver migrate "+name)
	b.wantUnwritten(t, before)
	// A torn line is that of a run that was killed.
	got := b.must(t, 0, "migrate", "--retry-from", writeFile(t, "torn", []byte(object("a", "x")+`{"apiV`)), "--yes")
	contains(t, got.stderr, "the last line of ", "is not whole")
	contains(t, got.stdout, "1 object: 1 deleted meanwhile")
}

// TestVerifyModes has the ways to verify less, which never trim and never remove.
func TestVerifyModes(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	for _, mode := range []string{"none", "sample"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			group := mode + ".example.com"
			name := b.scene(t, group, 12)
			got := b.must(t, 0, "promote", "v1", name, "--yes", "--verify", mode)
			contains(t, got.stderr, "--verify="+mode+" proves nothing about all objects")
			contains(t, got.stdout, "partly promoted to v1", "to continue: kubectl crdver promote v1 "+name+" --kubeconfig")
			if strings.Contains(got.stdout, "proof") || (mode == "none") == strings.Contains(got.stdout, "a sample, which proves nothing") {
				t.Errorf("it claims too much: %s", got)
			}
			b.wantStored(t, group, map[string]int{"v1": 12})
			b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})
			b.must(t, 0, "migrate", name, "--yes", "--force", "--verify", mode)
			b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})

			got = b.must(t, 3, "retire", "v1beta1", name, "--yes", "--verify", mode)
			contains(t, got.stderr, "v1beta1 cannot be removed without that proof")
			b.must(t, 1, "retire", "v1beta1", name, "--yes", "--verify", "half")
			b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})
			b.must(t, 0, "migrate", name, "--yes", "--verify", "full")
			b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1"})
		})
	}
}

// TestStatusSignal sends SIGUSR1 to the plugin while it rewrites objects.
func TestStatusSignal(t *testing.T) {
	t.Parallel()
	path := binary(t)
	b := start(t, testbed.InProcessOptions{})
	for _, mode := range []string{"none", "json"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			group := "status-" + mode + ".example.com"
			name := b.scene(t, group, 30)
			var stdout, stderr testbed.Output
			command := exec.CommandContext(t.Context(), path, "promote", "v1", name, "--yes", "--qps", "10", "--progress", mode, "--kubeconfig", b.kubeconfig)
			command.Stdout, command.Stderr = &stdout, &stderr
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			for { // Some are rewritten, and others not.
				counts, err := testbed.CountByVersion(t.Context(), b.Etcd(), group, testbed.CronTabPlural)
				if err != nil {
					t.Fatal(err)
				}
				if counts["v1"] > 12 || stdout.String() != "" {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			if err := command.Process.Signal(syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			if err := command.Wait(); err != nil {
				t.Errorf("%v\n%s%s", err, stdout.String(), stderr.String())
			}
			want := name + " [4/6] migrate: "
			if mode == "json" {
				want = `"type":"Status"`
			}
			if strings.Count(stderr.String(), want) != 1 || !strings.Contains(stderr.String(), "migrate") {
				t.Errorf("%q is not there once:\n%s", want, stderr.String())
			}
		})
	}
}

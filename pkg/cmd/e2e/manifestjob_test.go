package e2e_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/cmd"
	"github.com/crdver/kubectl-crdver/pkg/goldenfile"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestManifestJob compares the manifest with its golden, and reads every document
// the way the server does, where a field that does not exist is an error.
func TestManifestJob(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.createCRD(t, crontabs("job.example.com", "v1beta1", "v1"))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{batchv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	// Nothing to do is no Job, unless it is asked for.
	job := []string{"migrate", name, "--manifest", "job", "--image", "crdver:v1.2.3"}
	got := b.must(t, 0, job...)
	contains(t, got.stderr, "Nothing to migrate: the objects of "+name+" are stored at v1beta1", "--force")
	got.stdoutEmpty(t)
	contains(t, b.must(t, 0, append(job, "--force")...).stdout, "kind: Job", "- --force")
	b.must(t, 0, "promote", "v1", name, "--yes", "--until", "set-storage")
	idle := crontabs("idle.example.com", "v1")
	got = b.must(t, 0, append(job, b.createCRD(t, idle))...)
	contains(t, got.stderr, "Nothing to migrate: the objects of "+idle.Name)
	if strings.Contains(got.stdout, idle.Name) || !strings.Contains(got.stdout, name) {
		t.Errorf("a Job for another CRD: %s", got)
	}

	before := b.crd(t, name).ResourceVersion
	for golden, args := range map[string][]string{
		"testdata/job.yaml":    {"--job-namespace", "crdver", "--qps", "50"},
		"testdata/shards.yaml": {"--shards", "3", "--allow-loss", "spec.$(x)"},
	} {
		got := b.must(t, 0, append([]string{"migrate", name, "--manifest", "job", "--image", "crdver:v1.2.3"}, args...)...)
		goldenfile.Compare(t, *update, golden, got.stdout)
		for document := range strings.SplitSeq(got.stdout, "\n---\n") {
			if _, _, err := decoder.Decode([]byte(document), nil, nil); err != nil {
				t.Errorf("%v\n%s", err, document)
			}
		}
		if got.stderr != "" {
			t.Errorf("stderr: %s", got.stderr)
		}
	}
	if now := b.crd(t, name).ResourceVersion; now != before {
		t.Error("printing a manifest wrote the CRD")
	}
	for _, wrong := range [][]string{
		{"--manifest", "job"},
		{"--manifest", "pod", "--image", "x"},
		{"--manifest", "job", "--image", "x y"},
		{"--manifest", "job", "--image", "x", "--shards", "0"},
		{"--manifest", "job", "--image", "x", "--engine", "in-tree"},
		{"--manifest", "job", "--image", "x", "--job-namespace", "A"},
		{"--manifest", "job", "--image", "x", "-n", "staging"},
		{"--manifest", "job", "--image", "x", "--shards", "2", "--namespaces-first", "a"},
		{"--image", "x"},
	} {
		if got := b.run(t, append([]string{"migrate", name}, wrong...)...); got.code != 1 || got.stdout != "" {
			t.Errorf("%v: %s", wrong, got)
		}
	}
}

// jobs returns the Jobs of a manifest.
func jobs(t *testing.T, manifest string) []batchv1.Job {
	t.Helper()
	var found []batchv1.Job
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		var job batchv1.Job
		if err := yaml.Unmarshal([]byte(document), &job); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if job.Kind == "Job" {
			found = append(found, job)
		}
	}
	return found
}

// argsOf returns the arguments of the pods of a Job.
func argsOf(job batchv1.Job) []string { return job.Spec.Template.Spec.Containers[0].Args }

// TestManifestJobTakesEveryFlag goes over all flags of migrate: with --manifest job,
// the pods get each as it was given, or it is refused. None is dropped.
func TestManifestJobTakesEveryFlag(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, "flags.example.com", 2)
	b.must(t, 0, "promote", "v1", name, "--yes", "--until", "set-storage")
	root := cmd.NewRootCommand(genericiooptions.NewTestIOStreamsDiscard())
	command, _, err := root.Find([]string{"migrate"})
	if err != nil {
		t.Fatal(err)
	}
	own := []string{"manifest", "image", "shards", "job-namespace", "help"}
	values := map[string]string{ // Of those that do not take just anything.
		"dry-run": "client", "output": "json", "progress": "json", "engine": "client", "path": "status", "shard": "0/2", "refused-through": "v1beta1",
		"verify": "sample", "until": "migrate", "max-bandwidth": "2Mi", "qps": "7", "allow-loss": "spec.$(x)", "field-manager": "somebody",
		"etcd-endpoints": "http://127.0.0.1:1", "namespaces-first": "a,b", "accept": writeFile(t, "accept.yaml", []byte("kind: AcceptedDifferences\napiVersion: crdver.dev/v1alpha1\n")),
	}
	with := map[string][]string{ // Those that need another one.
		"etcd-cacert": {"--etcd-endpoints=http://a:1"}, "etcd-cert": {"--etcd-endpoints=http://a:1", "--etcd-key=x"}, "etcd-key": {"--etcd-endpoints=http://a:1", "--etcd-cert=x"},
		"etcd-prefix": {"--etcd-snapshot=x"}, "etcd-skip-checksum": {"--etcd-snapshot=x"},
	}
	var forwarded, refused []string
	seen := func(flag *pflag.Flag) {
		value := values[flag.Name]
		if value == "" {
			switch flag.Value.Type() {
			case "bool":
				value = "true"
			case "int":
				value = "3"
			case "duration":
				value = "5m0s"
			default:
				value = "x"
			}
		}
		args := append([]string{"migrate", name, "--manifest", "job", "--image", "x", "--" + flag.Name + "=" + value}, with[flag.Name]...)
		got := b.run(t, args...)
		if got.code == 1 && got.stdout == "" && strings.Contains(got.stderr, "--manifest cannot be combined with --") {
			refused = append(refused, flag.Name)
			return
		}
		words := []string{"--" + flag.Name, strings.ReplaceAll(value, "$(", "$$(")}
		switch {
		case value == "true":
			words = words[:1]
		case flag.Name == "namespaces-first":
			words = []string{"--namespaces-first", "a", "--namespaces-first", "b"}
		}
		if got.code != 0 || !strings.Contains(" "+strings.Join(argsOf(jobs(t, got.stdout)[0]), " ")+" ", " "+strings.Join(words, " ")+" ") {
			t.Errorf("--%s is neither refused nor does it come to the pods: %s", flag.Name, got)
		}
		forwarded = append(forwarded, flag.Name)
	}
	command.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(own, flag.Name) {
			seen(flag)
		}
	})
	for _, name := range []string{"etcd-endpoints", "etcd-snapshot", "take-over", "report", "until"} {
		if !slices.Contains(refused, name) {
			t.Errorf("--%s is not refused", name)
		}
	}
	for _, name := range []string{"refused-through", "allow-loss", "force", "namespaces-first", "path", "timeout"} {
		if !slices.Contains(forwarded, name) {
			t.Errorf("--%s is not forwarded", name)
		}
	}
}

// TestManifestJobGoesOn runs what a pod would that takes the place of one that was
// killed, where runs are announced on the CRD: because the proof is to be noted there.
func TestManifestJobGoesOn(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "goeson.example.com"
	name := b.trimmedTooEarly(t, group, 6)
	got := b.must(t, 0, "migrate", name, "--manifest", "job", "--image", "x", "--shards", "2")
	contains(t, got.stdout, "- customresourcedefinitions\n  verbs:\n  - get\n  - patch\n", "# of one that was killed goes on only after two minutes")
	found := jobs(t, got.stdout)
	if len(found) != 2 || slices.Contains(argsOf(found[0]), "--take-over") || !slices.Contains(argsOf(found[1]), "--take-over") {
		t.Fatalf("%s", got)
	}
	b.setHold(t, name, elsewhere)
	b.must(t, 3, append(slices.Clone(argsOf(found[0])[:2]), "--yes")...)
	contains(t, b.must(t, 0, argsOf(found[1])...).stderr, "taking over from bob@elsewhere, process 7 if it is not heard of for 2s")
	b.wantStored(t, group, map[string]int{"v1": 6})
	if hold := b.hold(t, name); hold != nil {
		t.Errorf("left behind: %+v", hold)
	}

	// Where the account may not write the CRD, nothing is announced, and nobody else's
	// place is taken.
	other := b.scene(t, "nothold.example.com", 2)
	b.must(t, 0, "promote", "v1", other, "--yes", "--until", "set-storage")
	got = b.must(t, 0, "migrate", other, "--manifest", "job", "--image", "x")
	if strings.Contains(got.stdout, "take-over") {
		t.Errorf("%s", got)
	}
}

// TestManifestJobWaits evaluates the printed condition, as kubectl wait does, on the
// status that a Job has one after the other.
func TestManifestJobWaits(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, "waits.example.com", 2)
	got := b.must(t, 0, "migrate", name, "--force", "--manifest", "job", "--image", "x", "--shards", "2")
	const before = "# " + "  kubectl wait --for=jsonpath='"
	if strings.Count(got.stdout, before) != 2 {
		t.Fatalf("%s", got)
	}
	_, rest, _ := strings.Cut(got.stdout, before)
	path, rest, _ := strings.Cut(rest, "'=True --timeout=-1s ")
	// What kubectl takes for the value comes after the first single "=".
	if strings.Contains(strings.ReplaceAll(path, "==", ""), "=") || !strings.HasPrefix(rest, "-n default job/crdver-migrate-crontabs-") {
		t.Errorf("%s, %s", path, rest)
	}
	at := func(conditions ...batchv1.JobConditionType) (result string) {
		job := batchv1.Job{}
		for _, condition := range conditions {
			status := corev1.ConditionTrue
			if condition == batchv1.JobSuspended {
				status = corev1.ConditionFalse // It was resumed.
			}
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: status})
		}
		text, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		parser := jsonpath.New("wait").AllowMissingKeys(true)
		if err := parser.Parse(path); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := parser.Execute(&out, object); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for _, running := range [][]batchv1.JobConditionType{{}, {batchv1.JobSuspended}, {batchv1.JobSuspended, batchv1.JobSuccessCriteriaMet}, {batchv1.JobFailureTarget}} {
		if met := at(running...); met != "" {
			t.Errorf("%v: %q", running, met)
		}
	}
	for _, done := range [][]batchv1.JobConditionType{
		{batchv1.JobComplete}, {batchv1.JobFailed}, {batchv1.JobSuspended, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete},
		{batchv1.JobFailureTarget, batchv1.JobFailed},
	} {
		if met := at(done...); met != "True" {
			t.Errorf("%v: %q", done, met)
		}
	}
}

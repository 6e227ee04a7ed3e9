//go:build controlplane

package fulltest_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func jobScenarios() []scenario {
	return []scenario{{name: "job", run: testJob}}
}

// testJob applies the manifest of "migrate --manifest job" and runs what its pods
// would, as its account: nothing starts pods here.
func testJob(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "job.example.com", 2, "v1beta1", "v1")
	namespaces := []string{"job-a", "job-b", "job-c", "job-d", "job-e"}
	if err := testbed.CreateNamespaces(t.Context(), bed.Config(), namespaces...); err != nil {
		t.Fatal(err)
	}
	for i, namespace := range namespaces {
		err := testbed.CreateObjects(t.Context(), bed.Config(), s.at("v1beta1"), 2, testbed.ObjectOptions{New: s.object, Namespaces: []string{namespace}})
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	all := 2 + 2*len(namespaces)
	s.run(t, "promote", "v1", s.name, "--yes", "--until", "set-storage").want(t, 0)

	manifest := s.run(t, "migrate", s.name, "--manifest", "job", "--image", "crdver:v1.2.3", "--shards", "3")
	manifest.want(t, 0)
	kubectl, err := bed.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	apply := exec.CommandContext(t.Context(), kubectl, "apply", "--validate=strict", "-f", "-", "--kubeconfig", s.kubeconfig)
	apply.Stdin = strings.NewReader(manifest.stdout)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	jobs, err := kubeClient(t, bed).BatchV1().Jobs("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var shards, finish batchv1.Job
	for _, job := range jobs.Items {
		if job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion {
			shards = job
		} else {
			finish = job
		}
	}
	account := s.account(t, shards.Spec.Template.Spec.ServiceAccountName)
	for i := range *shards.Spec.Completions {
		args := slices.Clone(shards.Spec.Template.Spec.Containers[0].Args)
		for j := range args {
			args[j] = strings.ReplaceAll(args[j], "$(JOB_COMPLETION_INDEX)", fmt.Sprint(i))
		}
		r := s.runAs(t, account, args...)
		r.want(t, 0, "partly migrated")
		r.lacks(t, "could not be")
		if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1beta1 v1]" {
			t.Errorf("a shard trimmed: %s", got)
		}
	}
	s.stored(t, map[string]int{"v1": all})
	s.eachRightCounts(t, shards.Spec.Template.Spec.ServiceAccountName)
	s.runAs(t, account, finish.Spec.Template.Spec.Containers[0].Args...).want(t, 0, "migrated", fmt.Sprintf("migrate: %d objects: %d already current", all, all))
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1]" {
		t.Errorf("storedVersions %s", got)
	}
	s.waitsEnd(t, kubectl, manifest.stdout, finish)
}

// waitsEnd runs the printed commands that wait for the end of a Job, one that failed:
// they come back, and say that it did.
func (s *subject) waitsEnd(t *testing.T, kubectl, manifest string, job batchv1.Job) {
	t.Helper()
	began := metav1.Now()
	job.Status.StartTime = &began
	for _, condition := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue, Reason: "PodFailurePolicy"})
	}
	if _, err := kubeClient(t, s.bed).BatchV1().Jobs(job.Namespace).UpdateStatus(t.Context(), &job, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	var printed []string
	for line := range strings.Lines(manifest) {
		if strings.HasPrefix(line, "#   kubectl wait ") && strings.HasSuffix(line, " job/"+job.Name+"\n") {
			printed = append(printed, strings.TrimPrefix(strings.TrimSpace(line), "#   "))
		}
	}
	if len(printed) != 2 {
		t.Fatalf("%q in\n%s", printed, manifest)
	}
	for i, says := range []string{"condition met", "condition not met"} {
		command := exec.CommandContext(t.Context(), "sh", "-c", printed[i])
		command.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
		out, err := command.CombinedOutput()
		if (err == nil) != (i == 0) || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v\n%s", printed[i], err, out)
		}
	}
}

// account returns a kubeconfig with a token of the account.
func (s *subject) account(t *testing.T, name string) string {
	t.Helper()
	token, err := kubeClient(t, s.bed).CoreV1().ServiceAccounts("default").CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(s.bed.Config())
	config.BearerToken = token.Status.Token
	return kubeconfigOf(t, config)
}

// eachRightCounts takes one right of the account after the other away: each time
// the plan says which.
func (s *subject) eachRightCounts(t *testing.T, account string) {
	t.Helper()
	role, err := kubeClient(t, s.bed).RbacV1().ClusterRoles().Get(t.Context(), account, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]rbacv1.PolicyRule{}
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			one := rule
			one.Verbs = []string{verb}
			all[verb+" "+rule.Resources[0]] = one
		}
	}
	for missing := range all {
		rest := maps.Clone(all)
		delete(rest, missing)
		user := "job-without-" + strings.NewReplacer(" ", "-", "/", "-").Replace(missing)
		config, err := s.bed.User(t.Context(), user, slices.Collect(maps.Values(rest))...)
		if err != nil {
			t.Fatal(err)
		}
		r := s.runAs(t, kubeconfigOf(t, config), "migrate", s.name, "--dry-run=server")
		_, resource, _ := strings.Cut(missing, " ")
		switch {
		case strings.HasSuffix(resource, "configurations"), resource == "storageversionmigrations":
			r.want(t, 0, "Warning: ", resource)
		default:
			r.want(t, 3, missing)
		}
	}
}

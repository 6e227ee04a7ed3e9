package cmd_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	crdver "github.com/crdver/kubectl-crdver/pkg/cmd"
)

// TestReadmeYAML checks every YAML block of README.md as what the comment in its
// first line says that it is, and the commands in it against the real ones.
func TestReadmeYAML(t *testing.T) {
	blocks := readmeBlocks(t, "yaml")
	checks := map[string]func(*testing.T, string){
		"# .crdver.yaml":                    checkConfig,
		"# crds/backups.yaml":               checkIgnore,
		"# .github/workflows/crds.yaml":     checkWorkflow,
		"# .gitlab-ci.yml":                  checkGitLab,
		"# .pre-commit-config.yaml":         checkPreCommit,
		"# crdver-rbac.yaml":                checkObjects,
		"# templates/crdver-preflight.yaml": checkObjects,
		"# crdver-preflight.yaml":           checkObjects,
		"# kustomization.yaml":              checkKustomization,
	}
	for _, block := range blocks {
		name, _, _ := strings.Cut(block, "\n")
		check, ok := checks[name]
		if !ok {
			t.Errorf("nothing checks the YAML block %q of README.md", name)
			continue
		}
		delete(checks, name)
		t.Run(strings.TrimPrefix(name, "# "), func(t *testing.T) { check(t, block) })
	}
	for name := range checks {
		t.Errorf("README.md has no block %q", name)
	}
}

// readmeBlocks returns the blocks of a language.
func readmeBlocks(t *testing.T, language string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(data), "\n```"+language+"\n")[1:] {
		block, _, ended := strings.Cut(part, "\n```\n")
		if !ended {
			t.Fatalf("a block of %s does not end", language)
		}
		blocks = append(blocks, block+"\n")
	}
	return blocks
}

// strict decodes YAML that has no field but those of the type.
func strict(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}

// commands finds the commands of the plugin in a line of shell, checks them, and
// returns how many there were.
func commands(t *testing.T, line string) int {
	t.Helper()
	for _, redirection := range []string{" >> ", " > "} {
		line, _, _ = strings.Cut(line, redirection)
	}
	found := 0
	for part := range strings.SplitSeq(line, " | ") {
		words, err := split(strings.TrimSpace(part))
		if err != nil {
			t.Errorf("%q: %v", part, err)
			continue
		}
		switch {
		case len(words) > 2 && words[0] == "kubectl" && words[1] == "crdver":
			words = words[2:]
		case len(words) > 1 && words[0] == "kubectl-crdver":
			words = words[1:]
		case len(words) > 2 && words[0] == "go" && words[1] == "install":
			path, version, _ := strings.Cut(strings.TrimPrefix(words[2], "github.com/crdver/kubectl-crdver/"), "@")
			if _, err := os.Stat(filepath.Join(root, path, "main.go")); err != nil || !strings.HasPrefix(version, "v") {
				t.Errorf("%q: %v", part, err)
			}
			continue
		default:
			t.Errorf("nothing checks the command %q", part)
			continue
		}
		checkCommand(t, words)
		found++
	}
	return found
}

// checkCommand says that a command exists with its flags and arguments.
func checkCommand(t *testing.T, words []string) {
	t.Helper()
	command, rest, err := crdver.NewRootCommand(genericiooptions.NewTestIOStreamsDiscard()).Find(words)
	if err != nil {
		t.Errorf("%q: %v", words, err)
		return
	}
	if !command.HasParent() || !command.Runnable() {
		t.Errorf("%q is no command", words)
	}
	if err := command.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", words, err)
	}
	if err := command.ValidateFlagGroups(); err != nil {
		t.Errorf("%q: %v", words, err)
	}
	if err := command.ValidateArgs(command.Flags().Args()); err != nil {
		t.Errorf("%q: %v", words, err)
	}
	if output := command.Flags().Lookup("output"); output != nil && output.Changed {
		complete, _ := command.GetFlagCompletionFunc("output")
		if formats, _ := complete(command, nil, ""); !slices.Contains(formats, output.Value.String()) {
			t.Errorf("%q: %s is none of %v", words, output.Value, formats)
		}
	}
}

func checkConfig(t *testing.T, block string) {
	t.Helper()
	file := filepath.Join("testdata", ".crdver.yaml")
	if want, err := os.ReadFile(filepath.Join(root, file)); err != nil || block != string(want) {
		t.Errorf("the block is not %s (%v)", file, err)
	}
	inScratchDir(t)
	out := runConsole(t, "kubectl crdver validate -f testdata/formats/crds --config "+file)
	if !strings.Contains(out, "warning: deprecated version v1beta1 has no deprecationWarning") {
		t.Errorf("the configuration changes nothing:\n%s", out)
	}
}

func checkIgnore(t *testing.T, block string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "testdata", "formats", "crds", "backups.yaml"))
	if _, head, _ := strings.Cut(block, "\n"); err != nil || !strings.HasPrefix(string(text), head) {
		t.Errorf("testdata/formats/crds/backups.yaml does not begin like this (%v):\n%s", err, head)
	}
}

func checkWorkflow(t *testing.T, block string) {
	t.Helper()
	// "on" is a name here, and true to YAML 1.1.
	block = strings.Replace(block, "\non: ", "\n\"on\": ", 1)
	var workflow struct {
		Name        string            `json:"name"`
		On          string            `json:"on"`
		Permissions map[string]string `json:"permissions"`
		Jobs        map[string]struct {
			RunsOn      string            `json:"runs-on"`
			Permissions map[string]string `json:"permissions"`
			Steps       []struct {
				Uses string            `json:"uses"`
				With map[string]string `json:"with"`
				Run  string            `json:"run"`
				If   string            `json:"if"`
			} `json:"steps"`
		} `json:"jobs"`
	}
	strict(t, block, &workflow)
	found := 0
	for name, job := range workflow.Jobs {
		for _, step := range job.Steps {
			if job.RunsOn == "" || (step.Uses == "") == (step.Run == "") {
				t.Errorf("%s: %+v", name, step)
			}
			if step.Run != "" {
				found += commands(t, step.Run)
			}
			if file := step.With["sarif_file"]; file != "" && (!strings.Contains(block, "-o sarif > "+file+"\n") || job.Permissions["security-events"] != "write") {
				t.Errorf("%s: %s is not written, or may not be uploaded", name, file)
			}
		}
	}
	if found != 3 {
		t.Errorf("%d commands", found)
	}
}

func checkGitLab(t *testing.T, block string) {
	t.Helper()
	var jobs map[string]struct {
		Image     string   `json:"image"`
		Script    []string `json:"script"`
		Artifacts struct {
			When    string            `json:"when"`
			Reports map[string]string `json:"reports"`
		} `json:"artifacts"`
	}
	strict(t, block, &jobs)
	found := 0
	for name, job := range jobs {
		for _, line := range job.Script {
			found += commands(t, line)
		}
		if last := job.Script[len(job.Script)-1]; !strings.HasSuffix(last, "-o junit > "+job.Artifacts.Reports["junit"]) || job.Artifacts.When != "always" {
			t.Errorf("%s: %+v", name, job)
		}
	}
	if found != 1 {
		t.Errorf("%d commands", found)
	}
}

func checkPreCommit(t *testing.T, block string) {
	t.Helper()
	var config struct {
		Repos []struct {
			Repo  string `json:"repo"`
			Hooks []struct {
				ID            string `json:"id"`
				Name          string `json:"name"`
				Language      string `json:"language"`
				Entry         string `json:"entry"`
				Files         string `json:"files"`
				PassFilenames *bool  `json:"pass_filenames"`
			} `json:"hooks"`
		} `json:"repos"`
	}
	strict(t, block, &config)
	for _, repo := range config.Repos {
		for _, hook := range repo.Hooks {
			if commands(t, hook.Entry) != 1 || hook.ID == "" || hook.Name == "" || hook.PassFilenames == nil || *hook.PassFilenames {
				t.Errorf("%+v", hook)
			}
		}
	}
}

// checkObjects decodes Kubernetes objects; a line of a Helm template stands for
// what it would put there.
func checkObjects(t *testing.T, block string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(block) {
		if !strings.Contains(line, "{{") {
			lines = append(lines, line)
		}
	}
	for document := range strings.SplitSeq(strings.Join(lines, ""), "\n---\n") {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.APIVersion + " " + kind.Kind {
		case "batch/v1 Job":
			var job batchv1.Job
			strict(t, document, &job)
			checkJob(t, &job, block)
		case "v1 ConfigMap":
			strict(t, document, &corev1.ConfigMap{})
		case "v1 Namespace":
			strict(t, document, &corev1.Namespace{})
		case "v1 ServiceAccount":
			strict(t, document, &corev1.ServiceAccount{})
		case "rbac.authorization.k8s.io/v1 ClusterRole":
			strict(t, document, &rbacv1.ClusterRole{})
		case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
			strict(t, document, &rbacv1.ClusterRoleBinding{})
		default:
			t.Errorf("nothing checks a %s %s", kind.APIVersion, kind.Kind)
		}
	}
}

// checkJob checks what a job runs, and that what it mounts and runs as is there.
func checkJob(t *testing.T, job *batchv1.Job, block string) {
	t.Helper()
	pod := job.Spec.Template.Spec
	for _, container := range pod.Containers {
		checkCommand(t, container.Args)
		for _, mount := range container.VolumeMounts {
			if !slices.Contains(container.Args, mount.MountPath) || !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
				return v.Name == mount.Name && v.ConfigMap != nil && v.ConfigMap.Name == job.Name
			}) {
				t.Errorf("%+v", mount)
			}
		}
	}
	if len(pod.Containers) != 1 || pod.RestartPolicy != corev1.RestartPolicyNever || !hasHook(job.Annotations) {
		t.Errorf("%+v", job)
	}
	account := slices.ContainsFunc(readmeBlocks(t, "yaml"), func(other string) bool {
		return strings.Contains(other, "kind: ServiceAccount\nmetadata:\n  name: "+pod.ServiceAccountName+"\n  namespace: "+job.Namespace+"\n")
	})
	if !account {
		t.Errorf("nothing makes the account %s of\n%s", pod.ServiceAccountName, block)
	}
}

func hasHook(annotations map[string]string) bool {
	return annotations["helm.sh/hook"] == "pre-upgrade" || annotations["argocd.argoproj.io/hook"] == "PreSync"
}

// checkKustomization builds it, with the files that it names.
func checkKustomization(t *testing.T, block string) {
	t.Helper()
	dir := t.TempDir()
	crd, err := os.ReadFile(filepath.Join(root, "testdata", "formats", "crds", "backups.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"kustomization.yaml": []byte(block), "crds/backups.yaml": crd}
	for _, other := range readmeBlocks(t, "yaml") {
		if strings.HasPrefix(other, "# crdver-preflight.yaml\n") {
			files["crdver-preflight.yaml"] = []byte(other)
		}
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.TrimSpace(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := runConsole(t, "kubectl crdver validate --local -k "+dir)
	if !strings.Contains(out, "1 CRD: 1 warning, 1 info (1 suppressed)") || strings.Contains(out, "error:") {
		t.Errorf("the kustomization builds something else:\n%s", out)
	}
}

package e2e_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestMistakes is the table of everything that is answered with one line and
// exit code 1, and changes nothing.
func TestMistakes(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	shops := crontabs("shop.example.com", "v1beta1", "v1")
	b.createCRD(t, shops)
	b.createCRD(t, crontabs("stable.example.com", "v1beta1", "v1"))
	lonely := crontabs("lonely.example.com", "v3alpha1", "v4")
	lonely.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"}
	lonely.Name = "widgets.lonely.example.com"
	b.createCRD(t, lonely)

	// Its kind is taken in its group, so that the server does not accept it.
	crds := b.crds(t).ApiextensionsV1().CustomResourceDefinitions()
	taken := crontabs("stable.example.com", "v1beta1", "v1")
	taken.Spec.Names.Plural, taken.Spec.Names.ShortNames, taken.Name = "cronjobs", nil, "cronjobs.stable.example.com"
	if _, err := crds.Create(t.Context(), taken, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	leaving := crontabs("leaving.example.com", "v1beta1", "v1")
	leaving.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "leavers", Singular: "leaver", Kind: "Leaver", ListKind: "LeaverList"}
	leaving.Name, leaving.Finalizers = "leavers.leaving.example.com", []string{"example.com/hold"}
	b.createCRD(t, leaving)
	if err := crds.Delete(t.Context(), leaving.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		c := b.crd(t, taken.Name)
		return len(c.Status.Conditions) > 0 && b.crd(t, leaving.Name).DeletionTimestamp != nil
	})
	time.Sleep(200 * time.Millisecond) // The server writes the conditions of both.

	manifest := writeFile(t, "empty.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"))
	before := b.revisions(t)
	const stable = "crontabs.stable.example.com"
	for _, test := range []struct {
		args string
		want []string
	}{
		// Names.
		{"promote v1 crontabz.stable.example.com", []string{`no CustomResourceDefinition is named "crontabz.stable.example.com"; did you mean ` + stable + "?"}},
		{"retire v1beta1 widgts", []string{`no CustomResourceDefinition is named "widgts"; did you mean widgets.lonely.example.com?`}},
		{"deprecate v1beta1 nothing-like-it-at-all", []string{`no CustomResourceDefinition is named "nothing-like-it-at-all"; kubectl crdver status lists them all`}},
		{"migrate deployments/x", []string{`"deployments/x" is not a CustomResourceDefinition`}},
		{"promote v1 crd/", []string{"does not name a CustomResourceDefinition"}},
		{"promote v1 CronTab", []string{`"CronTab" is ambiguous, name one in full: ` + taken.Name + `, crontabs.shop.example.com, ` + stable}},
		{"retire v1beta1 ct", []string{`"ct" is ambiguous`, "crontabs.shop.example.com", stable}},
		{"promote v1 " + stable + " --all", []string{"name CRDs or select them with flags, not both"}},
		// Versions.
		{"promote v1beta2 " + stable, []string{stable + ` has no version "v1beta2"; did you mean "v1beta1"?`}},
		{"retire v1beta2 " + stable, []string{`did you mean "v1beta1"?`}},
		{"retire v2 " + stable, []string{`did you mean "v1"?`}},
		{"deprecate v1beta " + stable, []string{`did you mean "v1beta1"?`}},
		{"restore v1betal " + stable, []string{`did you mean "v1beta1"?`}},
		{"deprecate unheardof " + stable, []string{`has no version "unheardof"; it has v1, v1beta1`}},
		{"promote v2 " + stable + " --from v1beta9", []string{`has no version "v1beta9"`, `did you mean "v1beta1"?`}},
		{"restore v2 " + stable, []string{`has no version "v2"`, "-f", "--from"}},
		{"deprecate v1beta1 " + stable + " --replacement v2", []string{`has no version "v2"`}},
		{"deprecate v1beta1 " + stable + " --replacement v1beta1", []string{"--replacement v1beta1 is the version that is to be deprecated"}},
		{"retire V1BETA1 " + stable, []string{`has no version "V1BETA1"; did you mean "v1beta1"?`}},
		// States.
		{"promote v1 " + taken.Name, []string{"the CRD cronjobs.stable.example.com is not established", "CronTab"}},
		{"migrate " + taken.Name, []string{"is not established"}},
		{"promote v1 " + leaving.Name, []string{"the CRD leavers.leaving.example.com is being deleted"}},
		{"retire v1beta1 leaver", []string{"is being deleted"}},
		// None fits, several fit.
		{"promote v9", []string{`none of the 5 CustomResourceDefinitions has a version "v9"; did you mean "v1"?`}},
		{"retire v9 --all", []string{`has a version "v9"; did you mean "v1"?`}},
		{"promote v9 --group shop.example.com", []string{`has a version "v9"; did you mean "v1"?`}},
		{"promote v1 --group nowhere.example.com", []string{"no CustomResourceDefinition is selected"}},
		{"promote v1 -l team=none", []string{"no CustomResourceDefinition is selected"}},
		{"retire v1beta1", []string{
			"4 CustomResourceDefinitions fit, name one:",
			"kubectl crdver retire v1beta1 crontabs.shop.example.com --allow-in-use --kubeconfig " + b.kubeconfig,
			"kubectl crdver retire v1beta1 " + stable + " --allow-in-use --kubeconfig " + b.kubeconfig,
		}},
		{"promote v2 --from v1", []string{"kubectl crdver promote v2 crontabs.shop.example.com --from v1 --kubeconfig "}},
		{"deprecate v1beta1 --message a'b", []string{`--message 'a'\''b'`}},
		// Flags.
		{"promote", []string{"wrong number of arguments (0)"}},
		{"retire", []string{"wrong number of arguments (0)"}},
		{"apply", []string{`required flag(s) "filename" not set`}},
		{"apply -f /nonexistent/plan.yaml", []string{"reading the plan: open /nonexistent/plan.yaml: no such file or directory"}},
		{"apply -f " + manifest, []string{`apiVersion is "v1", not "crdver.dev/v1alpha1"`}},
		{"promote v1 " + stable + " --dry-run", []string{`--dry-run needs a value`}},
		{"promote v1 " + stable + " --dry-run=maybe", []string{`invalid --dry-run "maybe"`}},
		{"promote v1 " + stable + " -o wide", []string{`invalid --output "wide"`}},
		{"promote v1 " + stable + " --until lunch", []string{`unknown step "lunch" for --until of promote`, "set-storage"}},
		{"retire v1beta1 " + stable + " --until set-storage", []string{`unknown step "set-storage" for --until of retire`}},
		{"promote v1 " + stable + " --concurrency -1", []string{"--concurrency must be from 1 to 1024, or 0"}},
		{"promote v1 " + stable + " --concurrency 99999999", []string{"--concurrency must be from 1 to 1024"}},
		{"promote v1 " + stable + " --qps -1", []string{"--qps must be a number that is not negative"}},
		{"promote v1 " + stable + " --qps NaN", []string{"--qps must be a number that is not negative"}},
		{"promote v1 " + stable + " --progress loud", []string{`invalid --progress "loud"`}},
		{"promote v1 " + stable + " --timeout soon", []string{"--timeout"}},
		{"promote v1 " + stable + " --no-such-flag", []string{"unknown flag: --no-such-flag"}},
		{"promote v1 " + stable + " --plan-out x --yes", []string{"--plan-out only saves the plan"}},
		{"promote v1 " + stable + " --plan-out= --yes", []string{"--plan-out is empty: give it a value, or leave it out"}},
		{"promote v1 " + stable + " --plan-out /nonexistent/plan", []string{"saving the plan: open /nonexistent/plan: no such file or directory"}},
		{"promote v2 " + stable + " --from v1 -f " + manifest, []string{"from", "filename"}},
		{"promote v2 " + stable + " -f " + manifest, []string{"empty.yaml"}},
		{"promote v2 " + stable + " -f /nonexistent.yaml", []string{"/nonexistent.yaml"}},
		{"deprecate v1beta1 " + stable + " --undo --message x", []string{"undo", "message"}},
		{"migrate --all --group stable.example.com", []string{"all", "group"}},
		{"migrate " + stable + " -l a=b=c", []string{"a=b=c"}},
		{"promote v1 -l a=b=c", []string{"a=b=c"}},
		{"promote v1 " + stable + " --field-manager=", []string{"--field-manager"}},
		{"promote v1 " + stable + " --context nowhere", []string{`context "nowhere" does not exist`}},
	} {
		t.Run(test.args, func(t *testing.T) {
			got := b.run(t, strings.Fields(test.args)...)
			if got.code != 1 || got.stdout != "" {
				t.Errorf("want exit code 1 and nothing on standard output, got %s", got)
			}
			oneLine(t, got.stderr)
			contains(t, got.stderr, test.want...)
		})
	}
	b.wantUnwritten(t, before)
}

func TestNoCluster(t *testing.T) {
	t.Parallel()
	empty := start(t, testbed.InProcessOptions{})
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := refusing.Addr().String()
	if err := refusing.Close(); err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	broken := file("broken", "{")
	nobody := file("nobody", `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: missing, user: u}}]
`)
	down := file("down", `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "http://`+address+`"}}]
users: [{name: u, user: {}}]
`)
	for _, verb := range []string{"promote v1", "retire v1beta1", "deprecate v1beta1", "migrate", "restore v1"} {
		for _, test := range []struct {
			kubeconfig string
			crd        string
			want       string
		}{
			{empty.kubeconfig, "", "the cluster has no CustomResourceDefinitions"},
			{empty.kubeconfig, "crontabs", `no CustomResourceDefinition is named "crontabs": the cluster has none`},
			{empty.kubeconfig, "--all", "no CustomResourceDefinition"},
			{broken, "crontabs", "kubeconfig: "},
			{nobody, "crontabs", "no cluster is configured"},
			{filepath.Join(directory, "absent"), "crontabs", "absent"},
			{down, "crontabs", "the connection to the server " + address + " was refused"},
			{down, "", "the connection to the server " + address + " was refused"},
		} {
			args := append(strings.Fields(verb), "--yes", "--kubeconfig", test.kubeconfig)
			if test.crd != "" {
				args = append(args, test.crd)
			}
			got := execute(t.Context(), neverRead{t}, args...)
			if got.code != 1 || got.stdout != "" {
				t.Errorf("%q: want exit code 1 and nothing on standard output, got %s", args, got)
			}
			oneLine(t, got.stderr)
			contains(t, got.stderr, test.want)
		}
	}
}

package cmd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// fakeVersion serves /version alone and records the user agent.
func fakeVersion(t *testing.T, gitVersion string) (server string, userAgent *string) {
	t.Helper()
	userAgent = new(string)
	http := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*userAgent = r.UserAgent()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Add("Warning", `299 - "mind the \x1bgap"`)
		if err := json.NewEncoder(w).Encode(map[string]string{"gitVersion": gitVersion}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(http.Close)
	return http.URL, userAgent
}

func TestVersionClient(t *testing.T) {
	// Neither a kubeconfig nor a server is needed.
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	want := result{stdout: "Client Version: v1.2.3\n"}
	if got := runPlugin(t, "version", "--client"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for format, unmarshal := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(text []byte, into any) error { return yaml.UnmarshalStrict(text, into) },
	} {
		got := runPlugin(t, "version", "--client", "-o", format)
		var info versionInfo
		if err := unmarshal([]byte(got.stdout), &info); err != nil {
			t.Fatal(err)
		}
		client := info.ClientVersion
		if client.GitVersion != "v1.2.3" || client.Platform != runtime.GOOS+"/"+runtime.GOARCH || client.GoVersion == "" {
			t.Errorf("-o %s: %+v", format, client)
		}
		if strings.Contains(got.stdout, "serverVersion") {
			t.Errorf("-o %s --client names a server: %s", format, got.stdout)
		}
	}
}

func TestVersionServer(t *testing.T) {
	t.Setenv("KUBECACHEDIR", t.TempDir())
	server, userAgent := fakeVersion(t, "v1.36.9-eks-1a2b3c")
	got := runPlugin(t, "version", "--server", server)
	want := result{
		stdout: "Client Version: v1.2.3\nServer Version: v1.36.9-eks-1a2b3c\n",
		stderr: "Warning: mind the x1bgap\nWarning: the server is Kubernetes 1.36; this plugin is tested on 1.37 and newer\n",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if want := "kubectl-crdver/v1.2.3 (" + runtime.GOOS + "/" + runtime.GOARCH + ")"; *userAgent != want {
		t.Errorf("user agent %q, want %q", *userAgent, want)
	}
}

func TestVersionWithoutServer(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "none")
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("apiVersion: v1\nkind: Config\nclusters: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		kubeconfig string
		args       []string
		want       string
	}{
		"no kubeconfig":      {empty, nil, "error: no cluster is configured: set KUBECONFIG, --kubeconfig or --server\n"},
		"broken kubeconfig":  {broken, nil, "error: kubeconfig: error loading config file "},
		"missing kubeconfig": {empty, []string{"--kubeconfig", "/nonexistent"}, "error: kubeconfig: stat /nonexistent: no such file"},
		"missing context":    {empty, []string{"--context", "prod"}, `error: kubeconfig: context "prod" does not exist`},
		"nobody listens":     {empty, []string{"-s", "127.0.0.1:1"}, "error: reading the server's version: the connection to the server 127.0.0.1:1 was refused ("},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.kubeconfig)
			t.Setenv("KUBECACHEDIR", t.TempDir())
			got := runPlugin(t, append([]string{"version"}, test.args...)...)
			if got.code != 1 || !strings.HasPrefix(got.stderr, test.want) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("got %+v, want %q", got, test.want)
			}
			if got.stdout != "Client Version: v1.2.3\n" {
				t.Errorf("stdout %q", got.stdout)
			}
		})
	}
}

func TestSkewNotice(t *testing.T) {
	for version, want := range map[string]string{
		"v1.37.2":                "",
		"v1.37.0-alpha.1":        "",
		"v1.38.1+k3s1":           "",
		"v2.0.0":                 "",
		"v1.30.4-gke.1348000":    "the server is Kubernetes 1.30; this plugin is tested on 1.37 and newer",
		"v1.9.11":                "the server is Kubernetes 1.9; this plugin is tested on 1.37 and newer",
		"v0.0.0-master+$Format":  "",
		"something else":         "",
		"v1.36.0+\x1b[31mescape": "",
	} {
		if got := skewNotice(version); got != want {
			t.Errorf("skewNotice(%q) = %q, want %q", version, got, want)
		}
	}
}

func TestDescribeBuild(t *testing.T) {
	build := &debug.BuildInfo{
		Main: debug.Module{Version: "v0.9.0"},
		Deps: []*debug.Module{{Path: "k8s.io/client-go", Version: "v0.37.2"}},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}, {Key: "vcs.time", Value: "2026-11-30T00:00:00Z"},
		},
	}
	if got := describeBuild("", build); got.GitVersion != "v0.9.0" || got.GitCommit != "abc" || got.GitTreeState != "dirty" ||
		got.BuildDate != "2026-11-30T00:00:00Z" || got.KubernetesLibraries != "v0.37.2" {
		t.Errorf("got %+v", got)
	}
	if got := describeBuild("v1.0.0", build).GitVersion; got != "v1.0.0" {
		t.Errorf("the release's version is not used: %s", got)
	}
	build.Main.Version = "(devel)"
	for _, version := range []string{"", "v1beta1", "main"} {
		if got := describeBuild(version, build).GitVersion; got != unknownVersion {
			t.Errorf("describeBuild(%q) = %s", version, got)
		}
	}
	if got := describeBuild("", nil).GitVersion; got != unknownVersion {
		t.Errorf("without build information: %s", got)
	}
}

func TestWarningsAreDeduplicatedAndBounded(t *testing.T) {
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	f := NewFactory(streams, "")
	f.warnings.HandleWarningHeader(299, "-", "old version")
	f.warnings.HandleWarningHeader(299, "-", "old version")
	f.warnings.HandleWarningHeader(199, "-", "from a proxy")
	f.Warn("evil \x1b[2J\ntext")
	if want := "Warning: old version\nWarning: evil " + printers.Escape("\x1b[2J") + "; text\n"; errOut.String() != want {
		t.Errorf("printed %q, want %q", errOut.String(), want)
	}
	for i := range 2 * maxWarnings {
		f.Warn(strings.Repeat("x", i))
	}
	if got := strings.Count(errOut.String(), "\n"); got != maxWarnings {
		t.Errorf("printed %d warnings", got)
	}
}

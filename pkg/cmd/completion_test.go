package cmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// crdServer answers lists of CRDs, whole or metadata only, one item a page.
type crdServer struct {
	crds []apiextensionsv1.CustomResourceDefinition
	// hang never answers the pages from this one on; 0 means all answer.
	hang int

	lock sync.Mutex
	// accepted are the Accept headers of the requests.
	accepted []string
}

func (s *crdServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/apis/apiextensions.k8s.io/v1/customresourcedefinitions" {
		http.NotFound(w, r)
		return
	}
	s.lock.Lock()
	s.accepted = append(s.accepted, r.Header.Get("Accept"))
	s.lock.Unlock()
	at := 0
	_, _ = fmt.Sscanf(r.URL.Query().Get("continue"), "page-%d", &at)
	if s.hang > 0 && at >= s.hang {
		<-r.Context().Done()
		return
	}
	next := metav1.ListMeta{}
	if at+1 < len(s.crds) {
		next.Continue = fmt.Sprintf("page-%d", at+1)
	}
	var list any
	if crd := s.crds[at]; strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		list = &metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, ListMeta: next,
			Items: []metav1.PartialObjectMetadata{{ObjectMeta: crd.ObjectMeta}},
		}
	} else {
		list = &apiextensionsv1.CustomResourceDefinitionList{
			TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinitionList"}, ListMeta: next,
			Items: []apiextensionsv1.CustomResourceDefinition{crd},
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

func crdWith(name string, versions ...string) apiextensionsv1.CustomResourceDefinition {
	crd := apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, version := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: version})
	}
	return crd
}

// start serves the CRDs and makes the kubeconfig lead to them.
func (s *crdServer) start(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts:
- {name: test, context: {cluster: test-cluster, user: test-user}}
- {name: prod, context: {cluster: test-cluster, user: test-user}}
clusters:
- {name: test-cluster, cluster: {server: %q}}
users:
- {name: test-user, user: {}}
`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
}

// complete asks as kubectl does and returns the lines of the answer.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	root := NewRootCommand(streams)
	f := NewFactory(streams, "")
	for _, verb := range []*cobra.Command{
		{Use: "test-versions", ValidArgsFunction: completeVersionThenCRDs(f)},
		{Use: "test-crds", ValidArgsFunction: completeCRDs(f)},
	} {
		verb.RunE = func(*cobra.Command, []string) error { return nil }
		verb.Flags().String("dry-run", "", "")
		completeDryRunFlag(verb)
		root.AddCommand(verb)
	}
	got := execute(t, t.Context(), root, out, errOut, append([]string{cobra.ShellCompRequestCmd}, words...)...)
	if got.code != 0 {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	return strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
}

func TestComplete(t *testing.T) {
	server := &crdServer{crds: []apiextensionsv1.CustomResourceDefinition{
		crdWith("crontabs.example.com", "v1alpha1", "v1beta1", "v1"),
		crdWith("backups.example.com", "v1beta1", "foo1"),
		crdWith("zebras.example.org", "v2"),
	}}
	server.start(t)
	const noFiles, keepOrder = ":4", ":36"
	for name, test := range map[string]struct{ words, want []string }{
		"versions": {[]string{"test-versions", ""}, []string{
			"v2\tzebras.example.org", "v1\tcrontabs.example.com", "v1beta1\t2 CRDs",
			"v1alpha1\tcrontabs.example.com", "foo1\tbackups.example.com", keepOrder,
		}},
		"versions with a prefix":      {[]string{"test-versions", "v1b"}, []string{"v1beta1\t2 CRDs", keepOrder}},
		"CRDs of a version":           {[]string{"test-versions", "v1beta1", ""}, []string{"backups.example.com", "crontabs.example.com", noFiles}},
		"CRDs that are not yet given": {[]string{"test-versions", "v1beta1", "backups.example.com", ""}, []string{"crontabs.example.com", noFiles}},
		"CRDs of an unknown version":  {[]string{"test-versions", "v9", ""}, []string{noFiles}},
		"CRDs":                        {[]string{"test-crds", ""}, []string{"backups.example.com", "crontabs.example.com", "zebras.example.org", noFiles}},
		"CRDs with a prefix":          {[]string{"test-crds", "backups.example.com", "c"}, []string{"crontabs.example.com", noFiles}},
		"--dry-run":                   {[]string{"test-crds", "--dry-run", ""}, []string{"none", "client", "server", noFiles}},
		"--output":                    {[]string{"version", "-o", ""}, []string{"json", "yaml", noFiles}},
		"--context":                   {[]string{"version", "--context", ""}, []string{"prod", "test", noFiles}},
		"--cluster":                   {[]string{"version", "--cluster=t"}, []string{"test-cluster", noFiles}},
		"--user":                      {[]string{"version", "--user", "x"}, []string{noFiles}},
		"no arguments":                {[]string{"version", ""}, []string{noFiles}},
		"help":                        {[]string{"help", "vers"}, []string{"version\tPrint the version of the plugin and of the server", noFiles}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := complete(t, test.words...); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestCompleteIsCheap checks what the requests ask for.
func TestCompleteIsCheap(t *testing.T) {
	for verb, want := range map[string]string{
		"test-versions": "application/vnd.kubernetes.protobuf",
		"test-crds":     "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList",
	} {
		server := &crdServer{crds: []apiextensionsv1.CustomResourceDefinition{crdWith("a.example.com", "v1"), crdWith("b.example.com", "v1")}}
		server.start(t)
		complete(t, verb, "")
		for _, accepted := range server.accepted {
			if !strings.HasPrefix(accepted, want) {
				t.Errorf("%s asks for %q, want %q first", verb, accepted, want)
			}
		}
		if len(server.accepted) != len(server.crds) {
			t.Errorf("%s sent %d requests for %d pages", verb, len(server.accepted), len(server.crds))
		}
	}
}

func TestCompleteDoesNotWait(t *testing.T) {
	server := &crdServer{
		crds: []apiextensionsv1.CustomResourceDefinition{crdWith("a.example.com", "v1"), crdWith("b.example.com", "v2")},
		hang: 1,
	}
	server.start(t)
	for verb, want := range map[string][]string{
		"test-versions": {"v1\ta.example.com", ":36"},
		"test-crds":     {"a.example.com", ":4"},
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			if got := complete(t, verb, ""); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if took := time.Since(start); took > 5*completionTimeout {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestCompleteWithoutCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for verb, directive := range map[string]string{"test-versions": ":4", "test-crds": ":4"} {
		if got := complete(t, verb, ""); !slices.Equal(got, []string{directive}) {
			t.Errorf("%s: got %q", verb, got)
		}
	}
}

// TestCompleteFlagValues has what the shell offers for flags whose values the cluster
// knows, and for those whose values nobody does.
func TestCompleteFlagValues(t *testing.T) {
	server := &crdServer{crds: []apiextensionsv1.CustomResourceDefinition{
		crdWith("crontabs.a.example.com", "v1beta1", "v1"), crdWith("jobs.a.example.com", "v2"),
	}}
	server.start(t)
	for line, want := range map[string][]string{
		"promote v3 --from ":               {"v2", "v1", "v1beta1", ":36"},
		"roundtrip --to v1":                {"v1", "v1beta1", ":36"},
		"deprecate v1beta1 --replacement ": {"v2", "v1", "v1beta1", ":36"},
		"stored --at v2":                   {"v2", ":36"},
		"migrate --group ":                 {"a.example.com", ":36"},
		"migrate --timeout ":               {":4"},
		"migrate --qps ":                   {":4"},
		"deprecate v1beta1 --message ":     {":4"},
		"migrate --server ":                {":4"},
		"apply --filename ":                {":0"},
		"migrate --report ":                {":0"},
		"--kubeconfig ":                    {":0"},
	} {
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		root := NewRootCommand(streams)
		words := strings.Split(line, " ")
		root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, words...))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(out.String()); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// TestFlagCompletions checks that every flag with a closed set of values
// offers them, on every command.
func TestFlagCompletions(t *testing.T) {
	root := NewRootCommand(genericiooptions.NewTestIOStreamsDiscard())
	for _, command := range root.Commands() {
		command.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Name != "output" && flag.Name != "dry-run" || flag.Value.Type() == "bool" {
				return
			}
			if _, found := command.GetFlagCompletionFunc(flag.Name); !found {
				t.Errorf("%s --%s has no completion", command.Name(), flag.Name)
			}
		})
		if command.ValidArgsFunction == nil {
			t.Errorf("%s offers files as arguments", command.Name())
		}
	}
}

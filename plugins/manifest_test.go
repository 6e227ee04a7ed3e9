// Package plugins_test checks the krew manifest and, with a control plane,
// installs the plugin as krew's users do.
package plugins_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// manifest is a krew manifest; strict decoding refuses any other field.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Caveats          string     `json:"caveats"`
		Platforms        []platform `json:"platforms"`
	} `json:"spec"`
}

type platform struct {
	Selector struct {
		MatchLabels struct {
			OS   string `json:"os"`
			Arch string `json:"arch"`
		} `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

func readManifest(t *testing.T, path string) (*manifest, []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatal(err)
	}
	return &m, text
}

func TestManifestsAreTheSame(t *testing.T) {
	_, submitted := readManifest(t, filepath.Join("..", "krew-manifest.yaml"))
	_, own := readManifest(t, "crdver.yaml")
	if !bytes.Equal(submitted, own) {
		t.Error("krew-manifest.yaml and plugins/crdver.yaml differ")
	}
	// krew does not follow links in an index.
	if info, err := os.Lstat("crdver.yaml"); err != nil || !info.Mode().IsRegular() {
		t.Errorf("plugins/crdver.yaml is not a regular file (%v)", err)
	}
}

func TestManifest(t *testing.T) {
	m, _ := readManifest(t, "crdver.yaml")
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata.Name != "crdver" {
		t.Errorf("%s %s %q", m.APIVersion, m.Kind, m.Metadata.Name)
	}
	short := m.Spec.ShortDescription
	if short == "" || len(short) > 50 || strings.ContainsAny(short, "\n.") {
		t.Errorf("shortDescription %q: want a few words on one line, without a full stop", short)
	}
	if strings.Contains(m.Spec.Description, "--") {
		t.Error("the description lists flags")
	}
	var platforms []string
	sum := regexp.MustCompile(`^[0-9a-f]{64}$`)
	for _, p := range m.Spec.Platforms {
		labels := p.Selector.MatchLabels
		platforms = append(platforms, labels.OS+"/"+labels.Arch)
		bin, extension := "kubectl-crdver", "tar.gz"
		if labels.OS == "windows" {
			bin, extension = "kubectl-crdver.exe", "zip"
		}
		uri := fmt.Sprintf("%s/releases/download/%s/kubectl-crdver_%s_%s_%s.%s",
			m.Spec.Homepage, m.Spec.Version, m.Spec.Version, labels.OS, labels.Arch, extension)
		if p.Bin != bin || p.URI != uri || !sum.MatchString(p.SHA256) {
			t.Errorf("%s: %+v", platforms[len(platforms)-1], p)
		}
	}
	slices.Sort(platforms)
	want := []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64"}
	if !slices.Equal(platforms, want) {
		t.Errorf("platforms %v, want %v", platforms, want)
	}
}

// TestShim checks what an archive needs of the completion shim.
func TestShim(t *testing.T) {
	info, err := os.Stat("kubectl_complete-crdver")
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&0o111 != 0o111 {
		t.Errorf("mode %s: kubectl only finds executable files", info.Mode())
	}
}

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckVersion(t *testing.T) {
	for _, version := range []string{"v0.1.0", "v1.2.3", "v1.0.0-rc.1"} {
		if err := checkVersion(version); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	for _, version := range []string{"", "1.2.3", "v1", "v1.2", "v1beta1", "v01.2.3", "v1.2.3+build", "v1.2.3 ", "v1.2.3-", "latest"} {
		if err := checkVersion(version); err == nil {
			t.Errorf("%q was accepted", version)
		}
	}
}

// testEntries has what an archive holds, in order.
func testEntries() []entry {
	return []entry{
		{"LICENSE", 0o644, []byte("Apache")},
		{"kubectl-crdver", 0o755, bytes.Repeat([]byte("binary"), 1000)},
		{"kubectl_complete-crdver", 0o755, []byte("#!/bin/sh\n")},
	}
}

func TestPackTarGz(t *testing.T) {
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := packTarGz(out, testEntries()); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of the same files differ")
	}
	compressed, err := gzip.NewReader(&first)
	if err != nil {
		t.Fatal(err)
	}
	if compressed.Name != "" || !compressed.ModTime.IsZero() {
		t.Errorf("gzip header %+v", compressed.Header)
	}
	archive := tar.NewReader(compressed)
	var got []entry
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg || !header.ModTime.Equal(modified()) || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s: %+v", header.Name, header)
		}
		got = append(got, entry{header.Name, os.FileMode(header.Mode), content})
	}
	if diff := cmp.Diff(testEntries(), got, cmp.AllowUnexported(entry{})); diff != "" {
		t.Error(diff)
	}
}

func TestPackZip(t *testing.T) {
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := packZip(out, testEntries()); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of the same files differ")
	}
	archive, err := zip.NewReader(bytes.NewReader(first.Bytes()), int64(first.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var got []entry
	for _, file := range archive.File {
		reader, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if !file.Modified.Equal(modified()) {
			t.Errorf("%s: modified %s", file.Name, file.Modified)
		}
		got = append(got, entry{file.Name, file.Mode(), content})
	}
	if diff := cmp.Diff(testEntries(), got, cmp.AllowUnexported(entry{})); diff != "" {
		t.Error(diff)
	}
}

func TestContents(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"LICENSE":                             "Apache\n",
		"kubectl-crdver":                      "unix",
		"kubectl-crdver.exe":                  "windows",
		"plugins/kubectl_complete-crdver":     "sh\n",
		"plugins/kubectl_complete-crdver.cmd": "cmd\n",
	} {
		writeFile(t, name, content)
	}
	for p, want := range map[platform][]entry{
		{"darwin", "arm64"}: {
			{"LICENSE", 0o644, []byte("Apache\n")},
			{"kubectl-crdver", 0o755, []byte("unix")},
			{"kubectl_complete-crdver", 0o755, []byte("sh\n")},
		},
		{"windows", "arm64"}: {
			{"LICENSE", 0o644, []byte("Apache\n")},
			{"kubectl-crdver.exe", 0o755, []byte("windows")},
			{"kubectl_complete-crdver.cmd", 0o755, []byte("cmd\r\n")},
		},
	} {
		got, err := contents(p, p.bin())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(entry{})); diff != "" {
			t.Errorf("%s: %s", p, diff)
		}
	}
	if _, err := contents(platform{"linux", "amd64"}, "missing"); err == nil {
		t.Error("a missing binary was not noticed")
	}
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func committedManifest(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", manifestFiles()[0]))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRenderEveryPlatform(t *testing.T) {
	text := committedManifest(t)
	m, err := parseManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	built := map[platform]artifact{}
	for i, p := range m.platforms() {
		built[p] = artifact{name: p.archive("v9.8.7"), sha256: strings.Repeat(string(rune('a'+i)), 64)}
	}
	rendered, err := render(text, "v9.8.7", built)
	if err != nil {
		t.Fatal(err)
	}
	// Only the lines of version, address and checksum may differ.
	before, after := strings.Split(string(text), "\n"), strings.Split(string(rendered), "\n")
	if len(before) != len(after) {
		t.Fatalf("%d lines became %d", len(before), len(after))
	}
	changed := 0
	for i := range before {
		if before[i] == after[i] {
			continue
		}
		changed++
		switch key, _, _ := strings.Cut(strings.TrimSpace(after[i]), ":"); key {
		case "version", "uri", "sha256":
		default:
			t.Errorf("line %d became %q", i+1, after[i])
		}
	}
	if want := 1 + 2*len(built); changed != want {
		t.Errorf("%d lines changed, want %d", changed, want)
	}
	if want := "    uri: https://github.com/crdver/kubectl-crdver/releases/download/v9.8.7/kubectl-crdver_v9.8.7_windows_arm64.zip\n"; !strings.Contains(string(rendered), want) {
		t.Errorf("no line %q", want)
	}
}

func TestRenderSomePlatforms(t *testing.T) {
	p := platform{"linux", "arm64"}
	built := map[platform]artifact{p: {name: p.archive("v1.0.0"), sha256: strings.Repeat("0", 64)}}
	rendered, err := render(committedManifest(t), "v1.0.0", built)
	if err != nil {
		t.Fatal(err)
	}
	m, err := parseManifest(rendered)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.platforms(); len(got) != 1 || got[0] != p {
		t.Errorf("platforms %v", got)
	}
}

func TestRenderRefusesAnotherLayout(t *testing.T) {
	p := platform{"linux", "amd64"}
	built := map[platform]artifact{p: {name: p.archive("v1.0.0"), sha256: "00"}}
	for name, change := range map[string][2]string{
		"other indentation": {"  - selector:\n", "  -   selector:\n"},
		"flow style":        {"    uri: ", "    \"uri\": "},
		"other binary":      {"    bin: kubectl-crdver\n", "    bin: crdver\n"},
		"not YAML":          {"spec:\n", "spec: [\n"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.ReplaceAll(string(committedManifest(t)), change[0], change[1])
			if rendered, err := render([]byte(text), "v1.0.0", built); err == nil {
				t.Errorf("rendered as\n%s", rendered)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	manifestText := committedManifest(t)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no version":          {nil, "-version must be"},
		"API version":         {[]string{"-version", "v1beta1"}, "-version"},
		"argument":            {[]string{"-version", "v1.0.0", "now"}, "unexpected argument"},
		"unknown platform":    {[]string{"-version", "v1.0.0", "-platforms", "plan9/mips"}, `"plan9/mips" is not in the manifest`},
		"writing a part":      {[]string{"-version", "v1.0.0", "-platforms", "linux/amd64", "-write"}, "-write needs all platforms"},
		"nothing to build in": {[]string{"-version", "v1.0.0", "-platforms", "linux/amd64"}, "linux/amd64: go build"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			writeFile(t, manifestFiles()[0], string(manifestText))
			err := run(t.Context(), test.args, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if text, err := os.ReadFile(manifestFiles()[0]); err != nil || !bytes.Equal(text, manifestText) {
				t.Errorf("the manifest was changed (%v)", err)
			}
		})
	}
	t.Run("another folder", func(t *testing.T) {
		t.Chdir(t.TempDir())
		if err := run(t.Context(), []string{"-version", "v1.0.0"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "root of the repository") {
			t.Errorf("got %v", err)
		}
	})
}

func TestWriteResults(t *testing.T) {
	text := committedManifest(t)
	t.Chdir(t.TempDir())
	writeFile(t, manifestFiles()[0], "")
	writeFile(t, manifestFiles()[1], "")
	writeFile(t, "dist/keep", "")
	m, err := parseManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	built := map[platform]artifact{}
	for i, p := range m.platforms() {
		built[p] = artifact{name: p.archive("v2.0.0"), sha256: strings.Repeat(string(rune('f'-i)), 64)}
	}
	if err := writeResults(options{version: "v2.0.0", out: "dist", write: true}, text, built); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("dist/crdver.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range manifestFiles() {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) || len(got) == 0 {
			t.Errorf("%s differs from dist/crdver.yaml (%v)", name, err)
		}
	}
	sums, err := os.ReadFile("dist/checksums.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(sums), "\n"), "\n")
	if len(lines) != len(built) || !strings.HasSuffix(lines[0], "  kubectl-crdver_v2.0.0_darwin_amd64.tar.gz") {
		t.Errorf("checksums\n%s", sums)
	}
}

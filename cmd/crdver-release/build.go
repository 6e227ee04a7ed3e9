package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// maxBinary is the budget of the stripped linux/amd64 binary, in bytes.
const maxBinary = 60_000_000

// platform is an operating system and an architecture, in Go's and krew's
// words, which are the same.
type platform struct {
	os, arch string
}

func (p platform) String() string { return p.os + "/" + p.arch }

// bin is the name of the plugin's executable.
func (p platform) bin() string {
	if p.os == "windows" {
		return "kubectl-crdver.exe"
	}
	return "kubectl-crdver"
}

// archive is the file name of the platform's archive.
func (p platform) archive(version string) string {
	extension := "tar.gz"
	if p.os == "windows" {
		extension = "zip"
	}
	return fmt.Sprintf("kubectl-crdver_%s_%s_%s.%s", version, p.os, p.arch, extension)
}

// artifact is an archive that was built.
type artifact struct {
	name       string
	sha256     string
	size       int64
	binarySize int64
}

// release builds the plugin for one platform and packs it.
func release(ctx context.Context, o options, p platform, stderr io.Writer) (artifact, error) {
	work, err := os.MkdirTemp("", "crdver-release-")
	if err != nil {
		return artifact{}, fmt.Errorf("creating a work folder: %w", err)
	}
	// What is left behind in the temporary folder does no harm.
	defer func() { _ = os.RemoveAll(work) }()

	binary := filepath.Join(work, p.bin())
	if err := compile(ctx, o.version, p, binary, stderr); err != nil {
		return artifact{}, err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return artifact{}, fmt.Errorf("looking at the binary: %w", err)
	}
	if p == (platform{"linux", "amd64"}) && info.Size() > maxBinary {
		return artifact{}, fmt.Errorf("the binary has %d bytes, more than the budget of %d", info.Size(), maxBinary)
	}
	entries, err := contents(p, binary)
	if err != nil {
		return artifact{}, err
	}
	a := artifact{name: p.archive(o.version), binarySize: info.Size()}
	a.sha256, a.size, err = writeArchive(filepath.Join(o.out, a.name), p, entries)
	return a, err
}

// compile builds the plugin. Everything in the environment that changes the
// result is set, so that two machines with the same Go agree.
func compile(ctx context.Context, version string, p platform, binary string, stderr io.Writer) error {
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-gcflags", "github.com/google/cel-go/...=-l", // As the Makefile says.
		"-ldflags", "-s -w -X main.version="+version, "-o", binary, "./cmd/kubectl-crdver")
	command.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFLAGS=", "GOWORK=off")
	command.Stderr = stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}

// contents reads what goes into an archive, sorted by name.
func contents(p platform, binary string) ([]entry, error) {
	shim := "kubectl_complete-crdver"
	if p.os == "windows" {
		shim += ".cmd"
	}
	var entries []entry
	for _, file := range []struct {
		path string
		mode os.FileMode
	}{
		{"LICENSE", 0o644},
		{binary, 0o755},
		{filepath.Join("plugins", shim), 0o755},
	} {
		content, err := os.ReadFile(file.path)
		if err != nil {
			return nil, fmt.Errorf("collecting the archive: %w", err)
		}
		if strings.HasSuffix(file.path, ".cmd") {
			content = bytes.ReplaceAll(content, []byte("\n"), []byte("\r\n"))
		}
		entries = append(entries, entry{name: filepath.Base(file.path), mode: file.mode, content: content})
	}
	return entries, nil
}

// writeArchive packs entries into a file and returns its checksum and size.
func writeArchive(path string, p platform, entries []entry) (sum string, size int64, err error) {
	pack := packTarGz
	if p.os == "windows" {
		pack = packZip
	}
	var archive bytes.Buffer
	if err := pack(&archive, entries); err != nil {
		return "", 0, fmt.Errorf("packing %s: %w", filepath.Base(path), err)
	}
	if err := os.WriteFile(path, archive.Bytes(), 0o644); err != nil {
		return "", 0, fmt.Errorf("writing the archive: %w", err)
	}
	digest := sha256.Sum256(archive.Bytes())
	return hex.EncodeToString(digest[:]), int64(archive.Len()), nil
}

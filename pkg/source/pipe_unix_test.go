//go:build unix

package source_test

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

// TestPipeThatNobodyWrites ends with its context: opening such a pipe never
// returns.
func TestPipeThatNobodyWrites(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	files := source.Files{FilenameOptions: resource.FilenameOptions{Filenames: []string{pipe}}}
	_, err := files.Load(ctx, func(crd.CRD) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

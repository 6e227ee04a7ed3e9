package testbed

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// BuildPlugin builds the plugin into a directory and returns its path.
func BuildPlugin(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "kubectl-crdver")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/crdver/kubectl-crdver/cmd/kubectl-crdver").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the plugin: %w: %s", err, out)
	}
	return path, nil
}

package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// SaveSnapshot writes a snapshot of an etcd into a file, as "etcdctl snapshot save"
// does.
func SaveSnapshot(ctx context.Context, etcd *clientv3.Client, path string) error {
	stream, err := etcd.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("taking a snapshot: %w", err)
	}
	defer stream.Close() //nolint:errcheck // Only read.
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("taking a snapshot: %w", err)
	}
	_, err = io.Copy(file, stream)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the snapshot %s: %w", path, err)
	}
	return nil
}

// Package intree has the cluster's own controller rewrite the objects of a
// resource, by way of a StorageVersionMigration. That one has ended proves
// nothing about the objects (facts 1 and 2): whoever calls this verifies them
// afterwards, and looks after status.storedVersions meanwhile.
package intree

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

const (
	// every is how often a migration is looked at.
	every = time.Second
	// settle is how long the controller may take, after a migration has ended, to
	// trim status.storedVersions and to take the condition Running away. The
	// controllers of 1.35 and older leave it as it is.
	settle = 10 * time.Second
	// patience is how long the server may be out of reach.
	patience = 2 * time.Minute
	// idle is how long a migration that nobody takes up is no news.
	idle = 90 * time.Second
)

// Options say how to follow a migration.
type Options struct {
	// APIVersion is that of the API, such as "storagemigration.k8s.io/v1".
	APIVersion string
	// Each is called each time before the migration is looked at, and once more at
	// the end. Its error ends the following.
	Each func(ctx context.Context) error
	// Waiting is told how far the migration is.
	Waiting func(text string)
	// Notice is told what somebody should know.
	Notice func(text string)
}

// Result is how a migration ended.
type Result struct {
	cluster.Migration
	// Gone says that somebody deleted it before it had ended.
	Gone bool
}

// String says it in words.
func (r Result) String() string {
	switch {
	case r.Gone:
		return fmt.Sprintf("StorageVersionMigration %s was deleted before it had ended", r.Name)
	case r.Phase == cluster.MigrationFailed && r.Message != "":
		return fmt.Sprintf("StorageVersionMigration %s failed: %s", r.Name, r.Message)
	}
	return fmt.Sprintf("StorageVersionMigration %s %s", r.Name, r.Phase)
}

// Follow waits until a migration has ended and the controller is done with the
// CRD. A lost connection is waited out for a while.
func Follow(ctx context.Context, svms cluster.SVMs, name string, options Options) (Result, error) {
	f := follower{svms: svms, options: options, began: time.Now()}
	f.result.Name = name
	for {
		over, err := f.look(ctx)
		if err != nil && ctx.Err() != nil {
			return f.result, fmt.Errorf("following StorageVersionMigration %s, which goes on in the server: %w", name, context.Cause(ctx))
		}
		if err != nil || over {
			return f.result, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

type follower struct {
	svms    cluster.SVMs
	options Options
	result  Result

	began time.Time
	// ended is when the migration was first seen to have ended.
	ended time.Time
	// lost is since when the server is out of reach.
	lost time.Time
	// idle says that it was told that nobody takes the migration up.
	idle bool
}

// look looks at the migration once, and tells whether it is over.
func (f *follower) look(ctx context.Context) (over bool, err error) {
	migration, err := f.svms.Get(ctx, f.options.APIVersion, f.result.Name)
	switch {
	case apierrors.IsNotFound(err):
		f.result.Gone = true
	case err == nil:
		f.result.Migration = migration
	}
	// The list is looked after with what was just read in mind: the controller
	// trims it before it says that it is done.
	if err == nil || f.result.Gone {
		err = f.options.Each(ctx)
	}
	if err != nil {
		return false, f.outOfReach(err)
	}
	f.lost = time.Time{}
	return f.over(), nil
}

// over tells whether nothing more is to be expected of the migration.
func (f *follower) over() bool {
	switch {
	case f.result.Gone:
		return true
	case !f.result.Finished():
		f.tell()
		return false
	case f.ended.IsZero():
		f.ended = time.Now()
	}
	return !f.result.Active || time.Since(f.ended) > settle
}

// tell says how far the migration is.
func (f *follower) tell() {
	took := time.Since(f.began).Round(time.Second)
	text := fmt.Sprintf("StorageVersionMigration %s is %s for %s", f.result.Name, f.result.Phase, took)
	if f.result.Message != "" {
		text += ": " + f.result.Message
	}
	f.options.Waiting(text)
	if f.result.Phase == cluster.MigrationPending && took > idle && !f.idle {
		f.idle = true
		f.options.Notice(fmt.Sprintf("StorageVersionMigration %s is pending for %s: the kube-controller-manager may not run the controller "+
			"(feature gate StorageVersionMigrator); end this command and use --engine client if it stays like this", f.result.Name, took))
	}
}

// outOfReach bears with a server that is out of reach for a while.
func (f *follower) outOfReach(err error) error {
	if !cluster.Transient(err) {
		return err
	}
	if f.lost.IsZero() {
		f.lost = time.Now()
	}
	if time.Since(f.lost) > patience {
		return fmt.Errorf("following StorageVersionMigration %s, which goes on in the server: %w", f.result.Name, err)
	}
	return nil
}

package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const (
	// maxRemembered bounds the objects that are remembered so that one which fails
	// in several passes is written once; more than this many may come twice.
	maxRemembered = 100_000
	// writePatience is how long a reader of a pipe may keep the migration waiting.
	writePatience = 10 * time.Second
)

// failureFile is the file of --report: a line for each object that was refused
// or failed, written when it happens. A nil one is none.
type failureFile struct {
	path string
	file *os.File
	seed maphash.Seed

	lock    sync.Mutex
	written map[uint64]struct{}
	broken  error
}

// openFailures opens the file of --report and writes what it is about, before
// anything is written to the cluster.
func (c *change) openFailures(plans []v1alpha1.Plan) error {
	if c.flags.report == "" {
		return nil
	}
	// Without O_NONBLOCK, a pipe that nobody reads would be waited for.
	file, err := os.OpenFile(c.flags.report, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return reportError("opening", c.flags.report, err)
	}
	// One that was there may be readable by others, and this one names objects.
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		if err := file.Chmod(0o600); err != nil {
			return errors.Join(reportError("closing to others", c.flags.report, err), file.Close())
		}
	}
	c.failures = &failureFile{path: c.flags.report, file: file, seed: maphash.MakeSeed(), written: map[uint64]struct{}{}}
	for _, p := range plans {
		err := c.failures.write(v1alpha1.FailureReport{
			TypeMeta:       typeMeta(v1alpha1.KindFailureReport),
			CRD:            p.Target.CRD.Name,
			UID:            p.Target.CRD.UID,
			Verb:           p.Intent.Verb,
			StorageVersion: targetStorage(p),
			StartedAt:      metav1.NewTime(now().UTC().Truncate(time.Second)),
		})
		if err != nil {
			return errors.Join(reportError("writing", c.flags.report, err), file.Close())
		}
	}
	return nil
}

// targetStorage returns the storage version that a plan rewrites objects at.
func targetStorage(p v1alpha1.Plan) string {
	for _, step := range p.Steps {
		if step.Action == v1alpha1.ActionMigrate {
			return step.Version
		}
	}
	return p.Target.CRD.StorageVersion
}

// reportError says what is wrong with the file. It does not hold err: that a pipe
// was closed by its reader must not pass for the end of the command's own output.
func reportError(doing, path string, err error) error {
	var inner *os.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("%s the file of --report, %s: %s", doing, path, err.Error())
}

// write writes one line in one go.
func (f *failureFile) write(line any) error {
	data, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encoding a line: %w", err)
	}
	// Only pipes can wait, and only they have deadlines.
	_ = f.file.SetWriteDeadline(time.Now().Add(writePatience))
	n, err := f.file.Write(append(data, '\n'))
	if err == nil && n <= len(data) {
		err = io.ErrShortWrite
	}
	return err
}

// add returns the function that takes the failures of a CRD down. When the file
// cannot be written any more, it warns once, and the migration goes on.
func (f *failureFile) add(crd string, tell func(v1alpha1.Event)) func(string, v1alpha1.ObjectFailure) {
	if f == nil {
		return nil
	}
	return func(step string, failure v1alpha1.ObjectFailure) {
		f.lock.Lock()
		defer f.lock.Unlock()
		if f.broken != nil || f.again(crd, failure) {
			return
		}
		at := metav1.NewTime(now().UTC().Truncate(time.Second))
		err := f.write(v1alpha1.ObjectReport{
			TypeMeta: typeMeta(v1alpha1.KindObjectReport), CRD: crd, Step: step, Time: at, ObjectFailure: failure,
		})
		if err == nil {
			return
		}
		f.broken = reportError("writing", f.path, err)
		tell(v1alpha1.Event{
			TypeMeta: typeMeta(v1alpha1.KindEvent), Type: v1alpha1.EventWarning, Time: at, CRD: crd, Step: step,
			Message: f.broken.Error() + "; the migration goes on, the file will be incomplete",
		})
	}
}

// again reports whether the object is in the file already.
func (f *failureFile) again(crd string, failure v1alpha1.ObjectFailure) bool {
	key := maphash.Comparable(f.seed, [4]string{crd, failure.Namespace, failure.Name, failure.UID})
	if _, written := f.written[key]; written {
		return true
	}
	if len(f.written) < maxRemembered {
		f.written[key] = struct{}{}
	}
	return false
}

// close closes the file. An incomplete one is an error of the command, beside
// what else went wrong.
func (f *failureFile) close(worst error) error {
	if f == nil {
		return worst
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if err := f.file.Close(); err != nil && f.broken == nil {
		f.broken = reportError("closing", f.path, err)
	}
	if f.broken == nil {
		return worst
	}
	incomplete := &ExitError{Code: ExitFailure, Err: fmt.Errorf("the report of the failures is incomplete: %w", f.broken)}
	if worst == nil {
		return incomplete
	}
	code := ExitCode(worse(worst, incomplete))
	return &ExitError{Code: code, Err: fmt.Errorf("%w; %w", worst, incomplete.Err)}
}

package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

const (
	// maxRetries bounds the objects of --retry-from, which are kept in memory. With
	// more, the whole command is hardly slower.
	maxRetries = 100_000
	// maxReportLine bounds a line of the file.
	maxReportLine = 1 << 20
)

// addRetryFrom adds --retry-from.
func (o *migrateOptions) addRetryFrom(command *cobra.Command) {
	const name = "retry-from"
	command.Flags().StringVar(&o.retryFrom, name, "", "Send only the objects again that this file of --report names; nothing is trimmed")
	for _, other := range []string{"all", "group", "selector", "force", "until", "verify", "plan-out", "engine", "shard", "wait-for-svm", "keep-svm", "etcd-endpoints", "namespaces-first"} {
		command.MarkFlagsMutuallyExclusive(name, other)
	}
}

// retry sends the objects of a report again.
func (o *migrateOptions) retry(ctx context.Context, c *change, args []string) error {
	if c.flags.report != "" && sameFile(c.flags.report, o.retryFrom) {
		return errors.New("--report and --retry-from are the same file: give --report another name")
	}
	report, err := readFailureFile(o.retryFrom)
	if err != nil {
		return err
	}
	if report.torn {
		c.Warn(fmt.Sprintf("the last line of %s is not whole: the run that wrote it was killed, and the object is left out", o.retryFrom))
	}
	if len(args) == 0 {
		args = report.names
	}
	intent := func(one crd.CRD) v1alpha1.Intent {
		return v1alpha1.Intent{
			Verb: v1alpha1.VerbMigrate, AllowLoss: o.loss.paths, Accepted: o.loss.accepted, RehearseAll: o.loss.all, Path: string(o.rewrite.path),
			RefusedThrough: o.rewrite.refusedThrough,
			Retry:          &v1alpha1.RetryIntent{From: o.retryFrom, Objects: int64(len(report.objects[one.Name]))},
		}
	}
	crds, err := c.selected(ctx, args, v1alpha1.Intent{Verb: v1alpha1.VerbMigrate}, func(crd.CRD) bool { return true })
	if err != nil {
		return err
	}
	var concerned []crd.CRD
	for _, one := range crds {
		uid, named := report.uids[one.Name]
		switch {
		case !named:
			return Refused(fmt.Errorf("%s is not about %s", o.retryFrom, one.Name))
		case uid != one.UID:
			return Refused(fmt.Errorf("%s is about another CRD %s (UID %s, not %s): it was deleted and created again; run kubectl crdver migrate %s",
				o.retryFrom, one.Name, uid, one.UID, one.Name))
		case len(report.objects[one.Name]) > 0:
			concerned = append(concerned, one)
		}
	}
	if len(concerned) == 0 && report.torn {
		return fmt.Errorf("%s names no object but in its last line, which is not whole: nothing was sent again; which objects are left is found by: %s",
			o.retryFrom, c.resume(v1alpha1.Intent{Verb: v1alpha1.VerbMigrate}, strings.Join(args, " ")))
	}
	if len(concerned) == 0 {
		c.tell("Nothing to send again: %s names no object.\n", o.retryFrom)
		if c.flags.output == "" {
			return nil
		}
		return c.printReports([]v1alpha1.Report{})
	}
	c.retries = report.objects
	return c.run(ctx, concerned, intent)
}

// failureReport is what a file of --report says.
type failureReport struct {
	// names are the CRDs in the order of the file.
	names   []string
	uids    map[string]types.UID
	objects map[string][]cluster.ObjectID
	seen    map[types.UID]bool
	count   int
	// torn says that the last line is not whole.
	torn bool
}

func readFailureFile(filename string) (*failureReport, error) {
	file, err := os.Open(filename)
	if err != nil {
		return nil, fmt.Errorf("reading the report of an earlier run: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	r := &failureReport{uids: map[string]types.UID{}, objects: map[string][]cluster.ObjectID{}, seen: map[types.UID]bool{}}
	lines := bufio.NewReaderSize(file, maxReportLine)
	for number := 1; ; number++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(r.names) > 0 {
			// Every line is written with its end in one go.
			r.torn = len(line) > 0
			return r, nil
		}
		if err == nil {
			err = r.add(line)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("reading %s: line %d is longer than %d bytes; it is no file of --report", filename, number, maxReportLine)
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("reading %s: it holds no report; name a file that --report wrote", filename)
		case err != nil:
			return nil, fmt.Errorf("reading %s: line %d: %w; name a file that --report wrote", filename, number, err)
		}
	}
}

// add adds a line.
func (r *failureReport) add(line []byte) error {
	var kind v1alpha1.ObjectReport
	if err := json.Unmarshal(line, &kind); err != nil {
		return fmt.Errorf("decoding it: %w", err)
	}
	if kind.APIVersion != v1alpha1.GroupVersion().String() {
		return fmt.Errorf("apiVersion is %q, not %q", kind.APIVersion, v1alpha1.GroupVersion())
	}
	switch kind.Kind {
	case v1alpha1.KindFailureReport:
		uid := types.UID(kind.UID)
		if kind.CRD == "" || uid == "" {
			return errors.New("it names no CRD")
		}
		if _, known := r.uids[kind.CRD]; !known {
			r.names = append(r.names, kind.CRD)
		}
		r.uids[kind.CRD] = uid
		return nil
	case v1alpha1.KindObjectReport:
		return r.addObject(kind)
	}
	return fmt.Errorf("kind is %q, not %q or %q", kind.Kind, v1alpha1.KindFailureReport, v1alpha1.KindObjectReport)
}

func (r *failureReport) addObject(object v1alpha1.ObjectReport) error {
	if _, known := r.uids[object.CRD]; !known {
		return fmt.Errorf("the CRD %q has no %s above", object.CRD, v1alpha1.KindFailureReport)
	}
	// The names become parts of a URL: "../.." would lead to another object.
	for _, name := range []string{object.Namespace, object.Name} {
		if problems := content.IsPathSegmentName(name); len(problems) > 0 {
			return fmt.Errorf("%q cannot be the name of an object: it %s", name, problems[0])
		}
	}
	if object.Name == "" || object.UID == "" {
		return errors.New("it names no object")
	}
	uid := types.UID(object.UID)
	if r.seen[uid] {
		return nil
	}
	if r.count++; r.count > maxRetries {
		return fmt.Errorf("more than %d objects: run kubectl crdver migrate without --retry-from", maxRetries)
	}
	r.seen[uid] = true
	r.objects[object.CRD] = append(r.objects[object.CRD], cluster.ObjectID{
		NamespacedName: types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, UID: uid,
	})
	return nil
}

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

const (
	// maxDocument bounds one document. An API server takes an object of at most
	// 3 MiB; what is larger is a list of many.
	maxDocument = 16 << 20
	// maxInput bounds one file, URL or standard input.
	maxInput = 512 << 20
	// maxErrors is how many broken documents are reported before giving up.
	maxErrors = 10
	// urlTimeout bounds reading a URL.
	urlTimeout = 30 * time.Second
)

// stdin is the file name of standard input.
const stdin = "-"

// Files reads the CRDs of manifests.
type Files struct {
	resource.FilenameOptions

	// Stdin is read for the file name "-".
	Stdin io.Reader
	// Selector selects CRDs by their labels; nil selects all.
	Selector labels.Selector
}

// Summary is what was found in manifests besides the CRDs.
type Summary struct {
	// CRDs is the number of CRDs that were selected.
	CRDs int
	// Skipped is the number of documents that are not CRDs.
	Skipped int
	// WithStatus are the origins of the CRDs that carried a status, which was
	// dropped: a status in a manifest has no effect.
	WithStatus []string
}

// Load calls visit for each CRD, in the order of the files. A broken document
// does not keep the others from being read; the error lists all of them. It is
// an error if there is no CRD at all.
func (f Files) Load(ctx context.Context, visit func(crd.CRD) error) (Summary, error) {
	return f.load(ctx, newDecoder(), visit)
}

func (f Files) load(ctx context.Context, d *decoder, visit func(crd.CRD) error) (Summary, error) {
	l := &loader{files: f, decoder: d, visit: visit}
	if f.Kustomize != "" {
		if err := l.kustomize(f.Kustomize); err != nil {
			return l.summary, err
		}
	}
	for i, name := range f.Filenames {
		if name == stdin && slices.Contains(f.Filenames[:i], stdin) {
			return l.summary, errors.New("standard input can be read only once: name '-' only once")
		}
		if err := l.input(ctx, name); err != nil {
			return l.summary, err
		}
	}
	if len(l.errs) > 0 {
		return l.summary, errors.Join(l.errs...)
	}
	if l.summary.CRDs == 0 && l.unselected == 0 {
		return l.summary, l.nothing()
	}
	return l.summary, nil
}

// loader is one Load.
type loader struct {
	files   Files
	decoder *decoder
	visit   func(crd.CRD) error

	summary    Summary
	unselected int
	read       int
	// known are the files that were read.
	known map[string]bool
	errs  []error
}

// NoCRDsError says that there is no CRD in manifests.
type NoCRDsError struct {
	// Others is how many documents are something else.
	Others  int
	message string
}

// Error says where there is none.
func (e *NoCRDsError) Error() string { return e.message }

// nothing is the error for input without a CRD.
func (l *loader) nothing() error {
	where := strings.Join(append(slices.Clone(l.files.Filenames), l.files.Kustomize), ", ")
	where = strings.Trim(where, ", ")
	e := &NoCRDsError{Others: l.summary.Skipped}
	switch {
	case l.read == 0:
		return fmt.Errorf("no manifests (%s) in %s: -R also looks in its folders", strings.Join(resource.FileExtensions, ", "), where)
	case l.summary.Skipped == 0:
		e.message = fmt.Sprintf("no CustomResourceDefinition in %s: it is empty", where)
	case l.summary.Skipped == 1:
		e.message = fmt.Sprintf("no CustomResourceDefinition in %s: its only document is something else", where)
	default:
		e.message = fmt.Sprintf("no CustomResourceDefinition in %s: all of its %d documents are something else", where, l.summary.Skipped)
	}
	return e
}

// input reads one argument of --filename.
func (l *loader) input(ctx context.Context, name string) error {
	switch {
	case name == stdin:
		return l.stdin(ctx)
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		return l.url(ctx, name)
	}
	paths, err := expand(name)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := l.path(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// stdin reads standard input until it ends or ctx does.
func (l *loader) stdin(ctx context.Context) error {
	reader, writer := io.Pipe()
	go func() {
		_, err := io.Copy(writer, l.files.Stdin)
		_ = writer.CloseWithError(err) // It always returns nil.
	}()
	stop := context.AfterFunc(ctx, func() { _ = reader.CloseWithError(ctx.Err()) })
	defer stop()
	defer func() { _ = reader.Close() }()
	return l.stream(ctx, stdin, reader)
}

// expand returns the path, or the paths that a pattern matches.
func expand(pattern string) ([]string, error) {
	_, err := os.Stat(pattern)
	if err == nil {
		return []string{pattern}, nil
	}
	if !strings.ContainsAny(pattern, "*?[") {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the path %q does not exist", pattern)
		}
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no file matches %q", pattern)
	}
	return paths, nil
}

// path reads a file, or the manifests of a folder.
func (l *loader) path(ctx context.Context, root string) error {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != root && !l.files.Recursive {
				return filepath.SkipDir
			}
			return nil
		}
		if path != root && !l.manifest(path) {
			return nil
		}
		return l.file(ctx, path)
	})
	if err != nil {
		return fmt.Errorf("reading manifests: %w", err)
	}
	return nil
}

// manifest reports whether a file of a folder is to be read: it must have the
// extension of one and be an ordinary file, not a pipe that never ends.
func (l *loader) manifest(path string) bool {
	if !slices.Contains(resource.FileExtensions, filepath.Ext(path)) {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

func (l *loader) file(ctx context.Context, path string) error {
	// A folder can be named by a link.
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return l.path(ctx, path+string(filepath.Separator))
	}
	info, err := os.Stat(path)
	if err != nil {
		return err //nolint:wrapcheck // path wraps it.
	}
	if !info.Mode().IsRegular() {
		return l.pipe(ctx, path)
	}
	if l.twice(path) {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err //nolint:wrapcheck // path wraps it.
	}
	defer func() { _ = file.Close() }() // Only read.
	return l.stream(ctx, path, file)
}

// twice reports whether a file was read before, by this name or another.
func (l *loader) twice(path string) bool {
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		target, err = filepath.Abs(target)
	}
	if err != nil {
		return false // Opening it says why.
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	known := l.known[target]
	l.known[target] = true
	return known
}

// pipe reads a named pipe, or what a shell puts in place of one. Nobody may ever
// write to it: even opening it can last for ever.
func (l *loader) pipe(ctx context.Context, path string) error {
	reader, writer := io.Pipe()
	go func() {
		file, err := os.Open(path)
		if err == nil {
			_, err = io.Copy(writer, file)
			_ = file.Close() // Only read.
		}
		_ = writer.CloseWithError(err) // It always returns nil.
	}()
	stop := context.AfterFunc(ctx, func() { _ = reader.CloseWithError(ctx.Err()) })
	defer stop()
	defer func() { _ = reader.Close() }()
	return l.stream(ctx, path, reader)
}

func (l *loader) url(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, urlTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("reading %s: %w", address, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("reading %s: %w", address, err)
	}
	defer func() { _ = response.Body.Close() }() // Only read.
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("reading %s: the server answered %s", address, response.Status)
	}
	return l.stream(ctx, address, response.Body)
}

// kustomize builds a kustomization as "kubectl apply -k" does. Positions in its
// output say nothing to anybody, so its CRDs have no line.
func (l *loader) kustomize(folder string) error {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return fmt.Errorf("building the kustomization %s: %w", folder, err)
	}
	for _, one := range resources.Resources() {
		text, err := one.MarshalJSON()
		if err != nil {
			return fmt.Errorf("building the kustomization %s: %w", folder, err)
		}
		l.read++
		if err := l.document(document{file: folder, text: text}); err != nil {
			return err
		}
	}
	return nil
}

// stream reads the documents of one input.
func (l *loader) stream(ctx context.Context, name string, from io.Reader) error {
	l.read++
	documents := newSplitter(name, from)
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		doc, err := documents.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			// The rest of this input cannot be told apart any more.
			return l.broken(err)
		}
		if err := l.document(doc); err != nil {
			return err
		}
	}
}

// document decodes one document and hands out its CRDs.
func (l *loader) document(doc document) error {
	found, skipped, errs := l.decoder.decode(doc)
	l.summary.Skipped += skipped
	for _, err := range errs {
		if err := l.broken(err); err != nil {
			return err
		}
	}
	for _, one := range found {
		if l.files.Selector != nil && !l.files.Selector.Matches(labels.Set(one.Labels)) {
			l.unselected++
			continue
		}
		if one.hasStatus {
			l.summary.WithStatus = append(l.summary.WithStatus, one.Origin.String())
		}
		l.summary.CRDs++
		if err := l.visit(one.CRD); err != nil {
			return err
		}
	}
	return nil
}

// broken notes a broken document, and ends the reading after too many.
func (l *loader) broken(err error) error {
	l.errs = append(l.errs, err)
	if len(l.errs) < maxErrors {
		return nil
	}
	return errors.Join(append(l.errs, errors.New("giving up after so many broken documents"))...)
}

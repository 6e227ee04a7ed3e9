package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// Replacement is a document of a file and the text that takes its place.
type Replacement struct {
	Document *crd.Document
	Text     []byte
}

// CanWriteBack returns why the manifest of a CRD cannot be written back, or
// nil.
func CanWriteBack(origin crd.Origin) error {
	switch {
	case origin.Live():
		return errors.New("it was read from a cluster")
	case origin.File == stdin:
		return errors.New("it was read from standard input")
	case strings.HasPrefix(origin.File, "http://"), strings.HasPrefix(origin.File, "https://"):
		return errors.New("it was read from a URL")
	case origin.Document == nil:
		return errors.New("it is the output of a kustomization")
	case origin.Document.Offset < 0:
		return errors.New("the file is in UTF-16")
	}
	return nil
}

// WriteBack replaces documents of a file, each at most once, and no other byte
// of it. It refuses if the file does not hold them any more. The file is
// replaced as a whole, or not at all; a link stays one, and the mode stays.
func WriteBack(file string, replacements []Replacement) error {
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	before, err := os.Stat(target)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if !before.Mode().IsRegular() {
		return fmt.Errorf("writing %s: it is not an ordinary file", file)
	}
	if before.Mode().Perm()&0o222 == 0 {
		// A new file in its place would need no permission to write this one.
		return fmt.Errorf("writing %s: it is read-only", file)
	}
	text, err := os.ReadFile(target)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	after, err := replace(text, replacements)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if bytes.Equal(text, after) {
		return nil
	}
	if err := swap(target, before, after); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// replace puts the new documents in the places of the old ones.
func replace(text []byte, replacements []Replacement) ([]byte, error) {
	changed := errors.New("it changed since it was read: run the command again")
	replacements = slices.Clone(replacements)
	slices.SortFunc(replacements, func(a, b Replacement) int {
		switch {
		case a.Document.Offset < b.Document.Offset:
			return -1
		case a.Document.Offset > b.Document.Offset:
			return 1
		}
		return 0
	})
	var after []byte
	at := 0
	for _, one := range replacements {
		start := int(one.Document.Offset)
		if start < at {
			return nil, errors.New("a document has two replacements")
		}
		if start > len(text) || !bytes.HasPrefix(text[start:], one.Document.Text) {
			return nil, changed
		}
		after = append(append(after, text[at:start]...), one.Text...)
		at = start + len(one.Document.Text)
		if !endsAt(text, at) {
			return nil, changed
		}
	}
	return append(after, text[at:]...), nil
}

// endsAt reports whether a document may end at a byte: at the end of the file,
// at a marker, or after a value of JSON.
func endsAt(text []byte, at int) bool {
	line, _, _ := bytes.Cut(text[at:], []byte{'\n'})
	return at == len(text) || marker(line) || text[at-1] == '}'
}

// swap puts a new file in the place of an old one.
func swap(target string, before os.FileInfo, text []byte) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*")
	if err != nil {
		return err //nolint:wrapcheck // WriteBack wraps it.
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temporary.Name()))
		}
	}()
	err = write(temporary, before.Mode().Perm(), text)
	if err != nil {
		return err
	}
	now, err := os.Stat(target)
	if err != nil {
		return err //nolint:wrapcheck // WriteBack wraps it.
	}
	if !os.SameFile(before, now) || !now.ModTime().Equal(before.ModTime()) || now.Size() != before.Size() {
		return errors.New("it changed while it was written: run the command again")
	}
	return os.Rename(temporary.Name(), target) //nolint:wrapcheck // WriteBack wraps it.
}

// write fills a new file and closes it.
func write(file *os.File, mode os.FileMode, text []byte) error {
	_, err := io.Copy(file, bytes.NewReader(text))
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

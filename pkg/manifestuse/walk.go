package manifestuse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Stdin is the name of standard input.
const Stdin = "-"

// maxFile bounds a file: only one is held at a time.
const maxFile = 64 << 20

// skipped are folders that hold what is not the repository's own.
func skipped() []string { return []string{".git", "node_modules", "vendor"} }

// Tree is files and folders to look through, with all that is below them.
type Tree struct {
	Names []string
	Stdin io.Reader
}

// Walked tells what of a tree was not looked at.
type Walked struct {
	// Files is how many were read.
	Files int64
	// Unread says of each file that could not be read why.
	Unread []string
	// Folders are how many were skipped because of their names, Links how many
	// symbolic links were not followed, Binary how many files are no text.
	Folders, Links, Binary int64
}

// Each calls visit with each file, one at a time.
func (t Tree) Each(ctx context.Context, visit func(file string, content []byte) error) (Walked, error) {
	w := &walk{ctx: ctx, visit: visit, seen: map[string]bool{}}
	for _, name := range t.Names {
		if name == Stdin {
			if err := w.read(Stdin, t.Stdin); err != nil {
				return w.Walked, err
			}
			continue
		}
		if err := w.input(name); err != nil {
			return w.Walked, err
		}
	}
	return w.Walked, nil
}

type walk struct {
	Walked

	ctx   context.Context // One walk is one call.
	visit func(string, []byte) error
	// seen are the files that were looked at: arguments can overlap.
	seen map[string]bool
}

// input looks at what an argument names, which has to be there.
func (w *walk) input(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("reading manifests: %w", err)
	}
	if !info.IsDir() {
		return w.file(name)
	}
	root := name
	if link, err := os.Lstat(name); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		root = name + string(filepath.Separator) // WalkDir does not go into a link.
	}
	//nolint:wrapcheck // It returns what the function returns.
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case w.ctx.Err() != nil:
			return context.Cause(w.ctx)
		case err != nil:
			w.Unread = append(w.Unread, err.Error())
			return nil
		case entry.IsDir() && path != root && slices.Contains(skipped(), entry.Name()):
			w.Folders++
			return filepath.SkipDir
		case entry.Type()&fs.ModeSymlink != 0:
			w.Links++
			return nil
		case !entry.Type().IsRegular():
			return nil
		}
		return w.file(path)
	})
}

func (w *walk) file(path string) error {
	if w.seen[filepath.Clean(path)] {
		return nil
	}
	w.seen[filepath.Clean(path)] = true
	file, err := os.Open(path)
	if err != nil {
		w.Unread = append(w.Unread, err.Error())
		return nil
	}
	defer func() { _ = file.Close() }() // It was only read.
	return w.read(path, file)
}

func (w *walk) read(name string, in io.Reader) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	content, err := readAll(in)
	switch {
	case err != nil:
		w.Unread = append(w.Unread, fmt.Sprintf("%s: %v", name, err))
		return nil
	case bytes.HasPrefix(content, []byte("\xff\xfe")) || bytes.HasPrefix(content, []byte("\xfe\xff")):
		w.Unread = append(w.Unread, name+": it is in UTF-16")
		return nil
	case bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0:
		w.Binary++
		return nil
	}
	w.Files++
	return w.visit(name, content)
}

func readAll(in io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = errors.New("it is larger than 64 MiB")
	}
	return content, err
}

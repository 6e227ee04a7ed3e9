package usage

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// errNoEvents says that a log that is not empty holds no audit event at all: it
// is something else, and telling "no evidence" from it would be wrong.
var errNoEvents = errors.New("no audit events (lines of JSON, apiVersion audit.k8s.io/v1, kind Event) are in it")

// readLog reads what an argument names.
func (a *Audit) readLog(ctx context.Context, log string) error {
	if log == "-" {
		return a.readStream(ctx, log, a.options.Stdin)
	}
	info, err := os.Stat(log)
	if err != nil {
		return err //nolint:wrapcheck // It names the file.
	}
	if !info.IsDir() {
		return a.readFile(ctx, log)
	}
	entries, err := os.ReadDir(log)
	if err != nil {
		return err //nolint:wrapcheck // It names the file.
	}
	read := 0
	for _, entry := range entries {
		path := filepath.Join(log, entry.Name())
		// What links lead to, but no pipes and sockets that happen to be there.
		if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		err := a.readFile(ctx, path)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist): // Rotated away meanwhile.
		case err != nil:
			a.unread = append(a.unread, fmt.Sprintf("%s: %v", path, err))
		default:
			read++
		}
	}
	if read == 0 {
		return errors.New("no audit log is in this directory")
	}
	return nil
}

func (a *Audit) readFile(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err //nolint:wrapcheck // It names the file.
	}
	defer func() { _ = file.Close() }() // It was only read.
	return a.readStream(ctx, path, file)
}

// readStream reads one log, decompressing it if it is compressed. A log that
// cannot be read to its end has been read up to there, which is kept and told.
func (a *Audit) readStream(ctx context.Context, name string, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := decompress(newInterruptible(ctx, in))
	if err != nil {
		return err
	}
	a.Stats.Files++
	lines := a.Stats.Lines
	audit, err := a.read(ctx, name, in)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), isCorruptInput(err):
		a.unread = append(a.unread, fmt.Sprintf("%s: the compressed data is damaged or cut off, the rest of it was not read", name))
	default:
		return err
	}
	if !audit && a.Stats.Lines > lines {
		return errNoEvents
	}
	return nil
}

// decompress returns the text of a stream that may be compressed with gzip. Log
// rotation compresses with nothing else.
func decompress(in io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	start, err := buffered.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err //nolint:wrapcheck // The caller names the log.
	}
	if bytes.HasPrefix(start, []byte("\x1f\x8b")) {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("decompressing: %w", err)
		}
		return unzipped, nil
	}
	for tool, magic := range map[string]string{"zstd": "\x28\xb5\x2f\xfd", "xz": "\xfd7zXZ\x00", "bzip2": "BZh"} {
		if bytes.HasPrefix(start, []byte(magic)) {
			return nil, fmt.Errorf("it is compressed with %s; decompress it and pipe it in: %s -dc FILE | kubectl crdver usage ... --audit-log -", tool, tool)
		}
	}
	return buffered, nil
}

// trim removes the white space around a line, and the byte order mark.
func trim(line []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
}

// maxPrefix is how much a container runtime writes before the text of a line.
const maxPrefix = 128

// whole tells whether a line looks like a JSON object from its beginning to its
// end. That is all that is checked of lines that do not matter.
func whole(line []byte) bool {
	start := bytes.IndexByte(line[:min(len(line), maxPrefix)], '{')
	return start >= 0 && line[len(line)-1] == '}'
}

// isAudit tells whether a line is an audit event, or a log shipper's record of one.
func isAudit(line []byte) bool {
	_, known := decodeEvents(line)
	return known
}

// isCorruptInput tells whether compressed data is damaged.
func isCorruptInput(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.As(err, &corrupt)
}

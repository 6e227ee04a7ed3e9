package usage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// chunkSize is how much is read at a time. Lines up to this length are not copied.
const chunkSize = 1 << 20

// lineReader splits a stream into lines and never holds more than one of a bounded
// length.
type lineReader struct {
	in  *bufio.Reader
	max int
	// long holds a line that is longer than the buffer of in.
	long []byte
	// bytes counts what was read.
	bytes int64
}

func newLineReader(in io.Reader, longest int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, min(chunkSize, longest)), max: longest}
}

// lineState is what is wrong with a line, if anything.
type lineState int

const (
	lineWhole lineState = iota
	// lineUnended is the last one of a stream, without a line feed: it may be cut off.
	lineUnended
	// lineTooLong is one whose text was skipped.
	lineTooLong
)

// next returns the next line without its line feed, valid until the next call.
// At the end of the stream it returns io.EOF and no line.
func (r *lineReader) next() ([]byte, lineState, error) {
	text, err := r.in.ReadSlice('\n')
	r.bytes += int64(len(text))
	if err == nil {
		return text[:len(text)-1], lineWhole, nil
	}
	r.long = append(r.long[:0], text...)
	tooLong := false
	for errors.Is(err, bufio.ErrBufferFull) {
		text, err = r.in.ReadSlice('\n')
		r.bytes += int64(len(text))
		if tooLong = tooLong || len(r.long)+len(text) > r.max+1; !tooLong {
			r.long = append(r.long, text...)
		}
	}
	switch {
	case tooLong && (err == nil || errors.Is(err, io.EOF)):
		r.long = nil // Most lines are short.
		return nil, lineTooLong, nil
	case err == nil:
		return bytes.TrimSuffix(r.long, []byte("\n")), lineWhole, nil
	case errors.Is(err, io.EOF) && len(r.long) > 0:
		return r.long, lineUnended, nil
	default:
		return nil, lineWhole, err //nolint:wrapcheck // The caller knows what is read.
	}
}

// interruptible reads ahead in the background, so that an interrupt ends a wait
// for a pipe or a terminal that nobody writes to, and decompressing overlaps with
// looking.
type interruptible struct {
	ctx     context.Context // An io.Reader cannot be given one.
	chunks  chan chunk
	free    chan []byte
	current chunk
	buffer  []byte
}

type chunk struct {
	text []byte
	err  error
}

// newInterruptible returns a reader of in that ends with ctx. When ctx ends, a
// read that is going on is left behind.
func newInterruptible(ctx context.Context, in io.Reader) *interruptible {
	r := &interruptible{ctx: ctx, chunks: make(chan chunk, 1), free: make(chan []byte, 2)}
	for range 2 {
		r.free <- make([]byte, chunkSize)
	}
	go r.fill(in)
	return r
}

func (r *interruptible) fill(in io.Reader) {
	for {
		var buffer []byte
		select {
		case buffer = <-r.free:
		case <-r.ctx.Done():
			return
		}
		n, err := in.Read(buffer)
		select {
		case r.chunks <- chunk{text: buffer[:n], err: err}:
		case <-r.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// Read implements [io.Reader].
func (r *interruptible) Read(into []byte) (int, error) {
	for len(r.current.text) == 0 {
		if r.current.err != nil {
			return 0, r.current.err
		}
		if r.buffer != nil {
			r.free <- r.buffer[:cap(r.buffer)]
			r.buffer = nil
		}
		select {
		case r.current = <-r.chunks:
			r.buffer = r.current.text
		case <-r.ctx.Done():
			return 0, context.Cause(r.ctx)
		}
	}
	n := copy(into, r.current.text)
	r.current.text = r.current.text[n:]
	return n, nil
}

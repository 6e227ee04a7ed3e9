package testbed

import (
	"bytes"
	"sync"
)

// Output keeps what is written to it, by several goroutines at a time. It can be
// read meanwhile.
type Output struct {
	lock   sync.Mutex
	buffer bytes.Buffer
}

// Write implements [io.Writer].
func (o *Output) Write(p []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.buffer.Write(p)
	return len(p), nil
}

// String returns what was written so far.
func (o *Output) String() string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.buffer.String()
}

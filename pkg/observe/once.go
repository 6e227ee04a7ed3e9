package observe

import (
	"context"
	"fmt"
	"sync"

	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// once holds a value that is read when it is first asked for. Its zero value is
// ready to use. Failures are kept, too: a server that refuses will go on
// refusing, a thousand times.
type once[T any] struct {
	lock  sync.Mutex
	done  bool
	value T
	err   error
}

// get returns the value, reading it if nobody did. A read that its caller
// interrupted does not count.
func (o *once[T]) get(ctx context.Context, read func() (T, error)) (T, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if err := ctx.Err(); err != nil {
		var none T
		return none, fmt.Errorf("reading the cluster: %w", err)
	}
	if !o.done {
		o.value, o.err = read()
		o.done = ctx.Err() == nil
	}
	return o.value, o.err
}

// group is what is known of one API group.
type group struct {
	versions once[groupDocument]
	services once[[]lifecycle.APIService]
}

// groupDocument is what matters of /apis/GROUP.
type groupDocument struct {
	versions  []string
	preferred string
}

// groupCache holds the groups that were asked for.
type groupCache struct {
	lock   sync.Mutex
	groups map[string]*group
}

func (c *groupCache) get(name string) *group {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.groups == nil {
		c.groups = map[string]*group{}
	}
	if c.groups[name] == nil {
		c.groups[name] = &group{}
	}
	return c.groups[name]
}

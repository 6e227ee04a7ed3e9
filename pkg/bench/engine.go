package bench

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
)

// engine is one pass of this tool's engine with its default options.
type engine struct {
	objects   cluster.Objects
	namespace string
}

func newEngine(config *rest.Config, request Request) (way, error) {
	c, err := cluster.New(config, "bench")
	if err != nil {
		return nil, err
	}
	return &engine{objects: c.Objects(request.Resource), namespace: request.Namespace}, nil
}

// prepare connects.
func (e *engine) prepare(ctx context.Context) error {
	_, _, err := e.objects.Count(ctx)
	return err
}

func (e *engine) run(ctx context.Context) (objects, rewritten int64, err error) {
	result, err := storagemigration.Pass(ctx, e.objects, storagemigration.PassOptions{Namespace: e.namespace})
	if n := storagemigration.Unwritten(result.Counts); err == nil && n > 0 {
		err = fmt.Errorf("%d of %d objects failed, the first one: %+v", n, result.Counts.Listed, result.Failures[0])
	}
	return result.Counts.Listed, result.Counts.Rewritten, err
}

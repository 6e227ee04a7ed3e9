package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestTakenOverOutsideOfAPass has another run take over while this one waits for an
// answer, or is about to write the CRD: it is refused, and says by whom.
func TestTakenOverOutsideOfAPass(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) (bool, error){
		"while it asks": func(ctx context.Context) (bool, error) { return false, fmt.Errorf("reading the answer: %w", ctx.Err()) },
		"after it":      func(context.Context) (bool, error) { return true, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := startWithCronTabs(t, 1)
			c := newCluster(t, bed.Config())
			p := planOf(t, c, v1alpha1.Step{ID: "clear", Action: v1alpha1.ActionClear, Patch: patchOf(plan.Annotate("example.com/note", "x"))})
			p.Hold = lifecycle.HoldAnnotation
			report, err := Run(t.Context(), p, Options{
				Cluster: c, FieldManager: "test",
				Hold: &HoldOptions{Hold: v1alpha1.Hold{ID: "1", Holder: "alice"}, Renew: 20 * time.Millisecond},
				Confirm: func(ctx context.Context, _ v1alpha1.Step) (bool, error) {
					body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
						lifecycle.HoldAnnotation: lifecycle.HoldText(v1alpha1.Hold{ID: "2", Holder: "bob"}),
					}}})
					if err != nil {
						return false, fmt.Errorf("encoding: %w", err)
					}
					if _, err := c.CRDs().Patch(t.Context(), testbed.CronTabCRD, cluster.PatchRequest{Type: types.MergePatchType, Body: body}); err != nil {
						return false, err
					}
					<-ctx.Done()
					return answer(ctx)
				},
			})
			var refused *RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "bob took over: this run does nothing more") {
				t.Errorf("%v", err)
			}
			if report.Outcome != v1alpha1.OutcomeRefused || report.Steps[0].Outcome != v1alpha1.OutcomeRefused ||
				!strings.Contains(report.Message, "bob took over") || !strings.Contains(report.Steps[0].Message, "bob took over") {
				t.Errorf("%+v", report)
			}
			found, err := c.CRDs().Get(t.Context(), testbed.CronTabCRD)
			if err != nil || found.Annotations["example.com/note"] != "" {
				t.Errorf("annotations %v, %v", found.Annotations, err)
			}
		})
	}
	// What came of objects stays what it is, and an interrupt is one.
	held, stop := context.WithCancelCause(t.Context())
	stop(refusef("bob took over"))
	for _, err := range []error{nil, &partialError{"2 objects failed"}, refusef("another reason")} {
		if got := takenOver(held, err); got != err { //nolint:errorlint // This very one.
			t.Errorf("%v became %v", err, got)
		}
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if got := takenOver(interrupted, interrupted.Err()); !errors.Is(got, context.Canceled) || refusal(got) != nil {
		t.Errorf("an interrupt became %v", got)
	}
}

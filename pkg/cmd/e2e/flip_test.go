package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

const (
	flipCRDs    = 10
	flipRounds  = 5
	flipObjects = 15
	flipWrites  = 24
)

// TestFlipAndMigrateBackToBack promotes to and fro, 50 times, with a burst of
// writes right at each flip, and etcd has nothing at the old version after any.
func TestFlipAndMigrateBackToBack(t *testing.T) {
	t.Parallel()
	flipped := map[string]chan struct{}{}
	var watch traffic
	b := start(t, testbed.InProcessOptions{Middleware: watch.wrap})
	for i := range flipCRDs {
		flipped[b.scene(t, fmt.Sprintf("flip%d.example.com", i), flipObjects)] = make(chan struct{}, 1)
	}
	watch.stepIn(func(r *http.Request) {
		// The patch of the status, which trims, has another path.
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if patchesCRD(r) && flipped[name] != nil {
			select {
			case flipped[name] <- struct{}{}:
			default: // It was sent again after a conflict.
			}
		}
	})
	var runs errgroup.Group
	for name, flip := range flipped {
		group := strings.TrimPrefix(name, testbed.CronTabPlural+".")
		client := b.objects(t)
		runs.Go(func() error {
			for round := range flipRounds {
				version := []string{"v1", "v1beta1"}[round%2]
				var work crew
				work.begin(t.Context(), func(ctx context.Context) error {
					select {
					case <-flip:
						return burst(client, group, round)
					case <-ctx.Done():
						return nil
					}
				})
				got := b.run(t, "promote", version, name, "--yes")
				if err := work.end(); err != nil {
					return err
				}
				if got.code != 0 {
					return fmt.Errorf("round %d: %s", round, got)
				}
				counts, err := testbed.CountByVersion(t.Context(), b.Etcd(), group, testbed.CronTabPlural)
				if err != nil {
					return err
				}
				if len(counts) != 1 || counts[version] != flipObjects+flipWrites*(round+1) {
					return fmt.Errorf("%w: round %d to %s of %s: stored at %v", errUnexpected, round, version, name, counts)
				}
			}
			return nil
		})
	}
	if err := runs.Wait(); err != nil {
		t.Error(err)
	}
}

// burst creates objects through both versions.
func burst(client dynamic.Interface, group string, round int) error {
	for i := range flipWrites {
		version := []string{"v1", "v1beta1"}[i%2]
		object := newCronTab(group, version, "c", fmt.Sprintf("late-%d-%d", round, i), i)
		_, err := client.Resource(resource(group, version)).Namespace("c").Create(context.Background(), object, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("writing at the flip: %w", err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

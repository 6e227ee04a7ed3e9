package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

const (
	killRuns    = 20
	killObjects = 80
	killWorkers = 5
)

// TestKill kills promote and retire with SIGKILL, each at 20 random instants.
// After each kill the CRD is valid, all objects can be read, and storedVersions
// names every version that etcd holds; and the same command then finishes.
func TestKill(t *testing.T) {
	t.Parallel()
	plugin := binary(t)
	b := start(t, testbed.InProcessOptions{})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var early atomic.Int32
	var runs errgroup.Group
	runs.SetLimit(killWorkers)
	for i := range killRuns {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		group := fmt.Sprintf("kill%02d.example.com", i)
		runs.Go(func() error {
			// Gone when it is done: each retire looks for references everywhere.
			name := b.scene(t, group, killObjects)
			defer func() {
				err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Delete(context.Background(), name, metav1.DeleteOptions{})
				if err != nil {
					t.Error(err)
				}
			}()
			for _, command := range []struct {
				args  []string
				steps int
			}{
				{[]string{"promote", "v1", name, "--yes"}, 6},
				{[]string{"retire", "v1beta1", name, "--yes"}, 8},
			} {
				at, killed, err := b.kill(t.Context(), plugin, random, command.steps, command.args)
				if err == nil {
					err = b.sound(t, group)
				}
				if err != nil {
					return fmt.Errorf("%s %s: %w", strings.Join(command.args, " "), at, err)
				}
				if killed {
					early.Add(1)
				}
				t.Logf("%s %s", strings.Join(command.args[:3], " "), at)
				if got := b.run(t, command.args...); got.code != 0 {
					return fmt.Errorf("again after the kill %s: %s", at, got)
				}
			}
			b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
			b.wantStored(t, group, map[string]int{"v1": killObjects})
			return nil
		})
	}
	if err := runs.Wait(); err != nil {
		t.Error(err)
	}
	if early.Load() < killRuns {
		t.Errorf("only %d of %d runs were killed before they ended: the test tests little", early.Load(), 2*killRuns)
	}
}

// kill runs the binary, waits for the start of a random step and a random time
// more, and kills it. killed is false where it had ended by then.
func (b *bed) kill(ctx context.Context, plugin string, random *rand.Rand, steps int, args []string) (at string, killed bool, err error) {
	step := 1 + random.IntN(steps)
	delay := time.Duration(random.IntN(150)) * time.Millisecond
	if random.IntN(4) == 0 {
		delay = time.Duration(random.IntN(2500)) * time.Millisecond
	}
	command := exec.CommandContext(ctx, plugin, append(allowInUse(args), "--progress", "json", "--kubeconfig", b.kubeconfig)...)
	stderr, err := command.StderrPipe()
	if err != nil {
		return "", false, err
	}
	if err := command.Start(); err != nil {
		return "", false, err
	}
	var timer *time.Timer
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event v1alpha1.Event
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Type != v1alpha1.EventStepStarted {
			continue
		}
		if event.StepNumber >= step && timer == nil {
			at = fmt.Sprintf("killed %s after the start of %s", delay, event.Step)
			timer = time.AfterFunc(delay, func() { _ = command.Process.Kill() })
		}
	}
	err = command.Wait()
	if timer != nil {
		timer.Stop()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "not killed, it was done first", false, nil
	case errors.As(err, &exit) && !exit.Exited():
		return at, true, nil
	default:
		return at, false, err
	}
}

// sound makes sure that the CRD is valid, every object readable at each served
// version, and nothing stored at a version that the CRD does not admit to.
func (b *bed) sound(t *testing.T, group string) error {
	c := b.crd(t, testbed.CronTabPlural+"."+group)
	storage, known := 0, []string{}
	for _, v := range c.Spec.Versions {
		known = append(known, v.Name)
		if v.Storage {
			storage++
			if !slices.Contains(c.Status.StoredVersions, v.Name) {
				return fmt.Errorf("%w: storage version %s is not in storedVersions %q", errUnexpected, v.Name, c.Status.StoredVersions)
			}
		}
		if !v.Served {
			continue
		}
		list, err := b.objects(t).Resource(resource(group, v.Name)).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing at %s: %w", v.Name, err)
		}
		if len(list.Items) != killObjects {
			return fmt.Errorf("%w: %d objects at %s", errUnexpected, len(list.Items), v.Name)
		}
	}
	if storage != 1 {
		return fmt.Errorf("%w: %d storage versions", errUnexpected, storage)
	}
	counts, err := testbed.CountByVersion(t.Context(), b.Etcd(), group, testbed.CronTabPlural)
	if err != nil {
		return err
	}
	for version := range counts {
		if !slices.Contains(known, version) || !slices.Contains(c.Status.StoredVersions, version) {
			return fmt.Errorf("%w: stored at %v, versions %q, storedVersions %q", errUnexpected, counts, known, c.Status.StoredVersions)
		}
	}
	return nil
}

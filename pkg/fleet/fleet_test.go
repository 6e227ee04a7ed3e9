package fleet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/crdver/kubectl-crdver/pkg/fleet"
)

func names(members []fleet.Member) string {
	list := make([]string, len(members))
	for i, one := range members {
		list[i] = one.Name
	}
	return strings.Join(list, " ")
}

func TestChoose(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:eks:us-east-1:123456789012:cluster/prod"
	config := clientcmdapi.NewConfig()
	for _, name := range []string{"prod-eu", "prod-us", "dev", "kind-[1]", "x*", arn} {
		config.Contexts[name] = &clientcmdapi.Context{Cluster: "c"}
	}
	members := fleet.FromConfig(*config)
	for patterns, want := range map[string]string{
		"":               arn + " dev kind-[1] prod-eu prod-us x*",
		"dev":            "dev",
		"prod-*":         "prod-eu prod-us",
		"prod-us,prod-*": "prod-us prod-eu", // Each once, in the order of the patterns.
		"*prod":          arn,               // A star takes slashes.
		"kind-[1]":       "kind-[1]",        // Brackets are brackets.
		"x*":             "x*",
		"d?v":            "dev",
		"*":              arn + " dev kind-[1] prod-eu prod-us x*",
		"p*-*u*s*":       "prod-us",
		"prod-au":        `no context is named "prod-au"; did you mean "prod-eu"?`,
		"staging-*":      `no context matches "staging-*"; there are ` + arn + ", dev, kind-[1], prod-eu, prod-us, x*",
	} {
		var list []string
		if patterns != "" {
			list = strings.Split(patterns, ",")
		}
		chosen, err := fleet.Choose(members, list)
		got := names(chosen)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", patterns, got, want)
		}
	}
}

func TestFromDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, contexts ...string) {
		config := clientcmdapi.NewConfig()
		for _, context := range contexts {
			config.Contexts[context] = &clientcmdapi.Context{Cluster: "c"}
			if context != "a" {
				config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
			}
		}
		if err := clientcmd.WriteToFile(*config, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("a.conf", "admin")
	write("a-b.conf", "a") // Whose cluster is not in it.
	write("b.conf", "admin")
	write("empty.conf")
	write(".hidden", "hidden")
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("# not: [yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("gone", filepath.Join(dir, "link.conf")); err != nil {
		t.Fatal(err)
	}
	members, err := fleet.FromDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(members), "README.md a a.conf:admin b.conf:admin empty.conf link.conf"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, one := range members {
		if broken := slices.Contains([]string{"README.md", "a", "empty.conf", "link.conf"}, one.Name); broken != (one.Err != nil) {
			t.Errorf("%s: %v", one.Name, one.Err)
		}
	}
	// Patterns take the name of the context, too; what cannot be read stays.
	chosen, err := fleet.Choose(members, []string{"admin"})
	if got, want := names(chosen), "a.conf:admin b.conf:admin README.md empty.conf link.conf"; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	if _, err := fleet.FromDir(filepath.Join(dir, "sub")); err == nil || !strings.Contains(err.Error(), "has no kubeconfigs") {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestRun runs on the clock of the test.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errBroken := errors.New("broken")
		var running, most atomic.Int32
		never := make(chan struct{})
		start := time.Now()
		limit := func(int) time.Duration { return 10 * time.Second }
		outcomes := fleet.Run(t.Context(), 20, fleet.Options{Parallel: 4, Limit: limit}, func(ctx context.Context, i int) (int, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			switch i {
			case 0: // Takes no notice of its context, as a credential plugin.
				<-never
				return 0, nil
			case 1:
				<-ctx.Done()
				return 0, ctx.Err()
			case 2:
				return 0, errBroken
			}
			time.Sleep(time.Second)
			return i, nil
		})
		if took := time.Since(start); took > 13*time.Second {
			t.Errorf("one that hangs kept the others for %s", took)
		}
		if most.Load() != 4 {
			t.Errorf("%d ran at a time", most.Load())
		}
		late := new(fleet.TimeoutError)
		if !errors.As(outcomes[0].Err, &late) || !errors.As(outcomes[1].Err, &late) || !errors.Is(outcomes[2].Err, errBroken) {
			t.Errorf("%v, %v, %v", outcomes[0].Err, outcomes[1].Err, outcomes[2].Err)
		}
		for i, outcome := range outcomes[3:] {
			if outcome.Err != nil || outcome.Value != i+3 {
				t.Errorf("%d: %+v", i+3, outcome)
			}
		}
		close(never)
	})
}

// TestRunInterrupted keeps what there is, and says of the others that nobody asked.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		limit := func(int) time.Duration { return time.Hour }
		outcomes := fleet.Run(ctx, 3, fleet.Options{Parallel: 1, Limit: limit}, func(ctx context.Context, i int) (string, error) {
			cancel()
			return "done", nil
		})
		done, not := 0, 0
		for _, outcome := range outcomes {
			switch {
			case outcome.Err == nil && outcome.Value == "done":
				done++
			case errors.Is(outcome.Err, context.Canceled) && strings.HasPrefix(outcome.Err.Error(), "not asked"):
				not++
			}
		}
		if done != 1 || not != 2 {
			t.Errorf("%+v", outcomes)
		}
	})
}

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// manyCRDs is how many CRDs "sort" and "status" are measured with.
const manyCRDs = 1000

// checkCRDs compares sort and status with "kubectl get crd -o json" on a server
// with many CRDs.
func checkCRDs(ctx context.Context, o options, dir string) ([]Budget, error) {
	kubectl, err := findKubectl()
	if err != nil {
		return nil, err
	}
	b, err := startServe(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	defer b.Stop()
	if err := testbed.StoreCRDs(ctx, b.Etcd(), manyCRDs, testbed.OperatorCRD); err != nil {
		return nil, err
	}
	environment := []string{"KUBECONFIG=" + filepath.Join(dir, "kubeconfig"), "KUBECACHEDIR=" + filepath.Join(dir, "cache")}
	clients := map[string][]string{
		"sort": {o.plugin, "sort"}, "status": {o.plugin, "status"}, "kubectl": {kubectl, "get", "crd", "-o", "json"},
	}
	runs := map[string][]usage{}
	// The first run of each is not counted: the server makes ready what it needs
	// for a resource when it is first asked for, which on a real cluster the
	// controllers did long ago, and kubectl fills its cache of discovery.
	for round := -1; round < o.rounds; round++ {
		if round <= 0 {
			if err := waitIdle(ctx, b.ids, 3*time.Minute); err != nil {
				return nil, err
			}
		}
		for name, words := range clients {
			took, err := runProcess(ctx, io.Discard, environment, words...)
			if err != nil {
				return nil, err
			}
			if round >= 0 {
				runs[name] = append(runs[name], took)
			}
		}
	}
	return crdBudgets(runs), nil
}

// crdBudgets compares with kubectl.
func crdBudgets(runs map[string][]usage) []Budget {
	var budgets []Budget
	seconds, peak := median(runs["kubectl"], wallOf), median(runs["kubectl"], peakOf)
	for _, name := range []string{"sort", "status"} {
		mySeconds, myPeak := median(runs[name], wallOf), median(runs[name], peakOf)
		what := fmt.Sprintf("`%s` of %d CRDs of 50 KB", name, manyCRDs)
		budgets = append(budgets,
			atMost(name+"-time", what+", time", mySeconds/seconds, 1, "less than `kubectl get crd -o json`",
				fmt.Sprintf("%.2f s, kubectl %.2f s", mySeconds, seconds)),
			atMost(name+"-memory", what+", memory", myPeak/peak, 1, "less than `kubectl get crd -o json`",
				fmt.Sprintf("%.0f MB, kubectl %.0f MB", myPeak/1e6, peak/1e6)),
		)
	}
	return budgets
}

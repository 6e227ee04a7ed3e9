package usage_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }
	row := func(source v1alpha1.UsageSource, proves v1alpha1.UsageProof, seen *metav1.Time) v1alpha1.UsageEvidence {
		return v1alpha1.UsageEvidence{Who: "x", WhoKind: "manager", Source: source, Proves: proves, LastSeen: seen}
	}
	stale := row(v1alpha1.UsageManagedFields, v1alpha1.ProvesUse, ago(time.Minute))
	stale.Stale = true
	type rows = []v1alpha1.UsageEvidence
	for name, test := range map[string]struct {
		evidence rows
		unlooked []v1alpha1.Unlooked
		want     v1alpha1.UsageVerdict
		why      string
	}{
		"nothing": {nil, nil, v1alpha1.UsageNoEvidence, "all that tells of use was looked at"},
		"nothing, and a source that was not asked for": {
			nil, []v1alpha1.Unlooked{{Source: v1alpha1.UsageHelm, Optional: true}}, v1alpha1.UsageNoEvidence, "",
		},
		"nothing, and a source that could not be looked at": {
			nil, []v1alpha1.Unlooked{{Source: v1alpha1.UsageHelm, Optional: true}, {Source: v1alpha1.UsageMetrics}},
			v1alpha1.UsageProbablyUnused, "metrics could not be looked at",
		},
		"within the window": {
			rows{row(v1alpha1.UsageManagedFields, v1alpha1.ProvesUse, ago(24*time.Hour))}, nil, v1alpha1.UsageInUse, "manager x used it 24h0m0s ago",
		},
		"a second too old": {
			rows{row(v1alpha1.UsageManagedFields, v1alpha1.ProvesUse, ago(24*time.Hour+time.Second))}, nil, v1alpha1.UsageProbablyUnused, "older than 24h0m0s",
		},
		"a clock ahead": {rows{row(v1alpha1.UsageAudit, v1alpha1.ProvesUse, ago(-time.Hour))}, nil, v1alpha1.UsageInUse, "used it 0s ago"},
		"at an unknown time": {
			rows{row(v1alpha1.UsageMetrics, v1alpha1.ProvesUse, nil)}, nil, v1alpha1.UsageInUse, "manager x used it",
		},
		"one that moved on":   {rows{stale}, nil, v1alpha1.UsageProbablyUnused, "record of the past"},
		"past use":            {rows{row(v1alpha1.UsageLastApplied, v1alpha1.ProvesPastUse, ago(time.Minute))}, nil, v1alpha1.UsageProbablyUnused, ""},
		"an owner reference":  {rows{row(v1alpha1.UsageOwnerReference, v1alpha1.ProvesReference, nil)}, nil, v1alpha1.UsageInUse, "names it"},
		"a file":              {rows{row(v1alpha1.UsageManifest, v1alpha1.ProvesReference, nil)}, nil, v1alpha1.UsageInUse, "names it"},
		"a rule of a webhook": {rows{row(v1alpha1.UsageWebhook, v1alpha1.ProvesReference, nil)}, nil, v1alpha1.UsageProbablyUnused, ""},
		"an HPA":              {rows{row(v1alpha1.UsageHPA, v1alpha1.ProvesReference, nil)}, nil, v1alpha1.UsageProbablyUnused, ""},
		"a capability":        {rows{row(v1alpha1.UsageRBAC, v1alpha1.ProvesCapability, nil)}, nil, v1alpha1.UsageNoEvidence, ""},
		"use beats what could not be looked at": {
			rows{stale, row(v1alpha1.UsageAudit, v1alpha1.ProvesUse, ago(time.Minute))}, []v1alpha1.Unlooked{{Source: v1alpha1.UsageMetrics}},
			v1alpha1.UsageInUse, "1m0s ago",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verdict, why := usage.Judge(test.evidence, test.unlooked, 24*time.Hour, now)
			if verdict != test.want || !strings.Contains(why, test.why) {
				t.Errorf("%s (%s), want %s (... %s ...)", verdict, why, test.want, test.why)
			}
		})
	}
}

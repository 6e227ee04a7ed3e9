package printers_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/goldenfile"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// usageReport has evidence of all kinds, some of it hostile.
func usageReport() *v1alpha1.UsageReport {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }
	const crd = "crontabs.stable.example.com"
	could := v1alpha1.UsageEvidence{
		Who: "shop/deployer", WhoKind: "serviceAccount", What: "could", Count: 1, CountOf: "bindings", Source: v1alpha1.UsageRBAC, Proves: v1alpha1.ProvesCapability,
		Examples: []string{"RoleBinding shop/deployer"}, Note: "create, update",
	}
	at := func(version string, e v1alpha1.UsageEvidence) v1alpha1.UsageEvidence {
		e.Version = version
		return e
	}
	unlooked := []v1alpha1.Unlooked{
		{Source: v1alpha1.UsageOwnerReference, Why: "1 of 40 resources could not be listed: secrets (Forbidden)", Command: "kubectl crdver usage " + crd},
		{Source: v1alpha1.UsageHelm, Why: "not asked for", Command: "kubectl crdver usage " + crd + " --helm", Optional: true},
	}
	old := v1alpha1.VersionUsage{
		CRD: crd, Version: "v1beta1", Served: true, Deprecated: true, Objects: new(int64), Verdict: v1alpha1.UsageInUse, Why: "manager kubectl used it 2m0s ago",
		NotLooked: unlooked, Evidence: []v1alpha1.UsageEvidence{
			{
				Version: "v1beta1", Who: "kubectl-client-side-apply", WhoKind: "manager", What: "write", Count: 12, CountOf: "objects", LastSeen: ago(2 * time.Minute),
				Source: v1alpha1.UsageManagedFields, Proves: v1alpha1.ProvesUse, Examples: []string{"a/one", "a/two"},
			},
			{
				Version: "v1beta1", Who: "evil\x1b[31m\u202e\nname", WhoKind: "object", What: "names", Count: 1, CountOf: "objects",
				Source: v1alpha1.UsageArgoCD, Proves: v1alpha1.ProvesReference, Note: "\x1b]0;title\x07", Examples: []string{"a/\x1b[2J"},
			},
			{
				Version: "v1beta1", Who: "cron-operator", WhoKind: "manager", What: "write", Subresource: "status", Count: 3, CountOf: "objects",
				LastSeen: ago(50 * 24 * time.Hour), Source: v1alpha1.UsageManagedFields, Proves: v1alpha1.ProvesPastUse, Stale: true, Examples: []string{"a/one"},
				Note: "has moved on to v1, which it wrote last at 2026-11-30T11:00:00Z",
			},
			at("v1beta1", could),
		},
	}
	for i := range 12 {
		old.Evidence = append(old.Evidence, v1alpha1.UsageEvidence{
			Version: "v1beta1", Who: fmt.Sprintf("shop/release-%02d", i), WhoKind: "release", What: "names", Count: 1, CountOf: "objects",
			Source: v1alpha1.UsageHelm, Proves: v1alpha1.ProvesReference,
		})
	}
	*old.Objects = 12
	current := v1alpha1.VersionUsage{
		CRD: crd, Version: "v1", Served: true, Storage: true, Objects: old.Objects, Verdict: v1alpha1.UsageProbablyUnused,
		Why: "nothing was found, but owner-reference could not be looked at", Evidence: []v1alpha1.UsageEvidence{at("v1", could)}, NotLooked: unlooked,
		Notes: []string{"it is the version that kubectl and other clients that go by discovery use where none is named"},
	}
	return &v1alpha1.UsageReport{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindUsageReport},
		Window:   metav1.Duration{Duration: 24 * time.Hour}, Time: metav1.Time{Time: now}, Items: []v1alpha1.VersionUsage{current, old},
	}
}

// TestWriteUsage compares with testdata/formats/usage*.
func TestWriteUsage(t *testing.T) {
	t.Parallel()
	report := usageReport()
	one := usageReport()
	one.Items = one.Items[1:]
	for name, test := range map[string]struct {
		report *v1alpha1.UsageReport
		format string
		wide   bool
	}{
		"usage.txt": {report: report}, "usage-wide.txt": {report: report, wide: true}, "usage-one.txt": {report: one},
		"usage.yaml": {report: report, format: "yaml"},
	} {
		var out bytes.Buffer
		err := printers.WriteUsage(&out, test.report, printers.TableOptions{Wide: test.wide})
		if test.format != "" {
			out.Reset()
			err = printers.WriteDocument(&out, test.format, test.report)
		}
		if err != nil {
			t.Fatal(err)
		}
		goldenfile.Compare(t, *update, filepath.Join(formats, name), out.String())
	}
}

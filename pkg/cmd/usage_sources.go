package cmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// usageSources are the flags that say where to look for evidence.
type usageSources struct {
	helm  bool
	could bool
	skip  []string
	// requests are those of audit logs and metrics.
	requests usageRequests
	// manifests are those of manifests in files.
	manifests usageManifests
}

func (s *usageSources) add(command *cobra.Command) {
	flags := command.Flags()
	flags.BoolVar(&s.helm, "helm", false, "Look into the releases of Helm, which are Secrets; values are never printed")
	flags.BoolVar(&s.could, "could", false, "Show each subject that could write the objects (RBAC), those of the system, too")
	flags.StringSliceVar(&s.skip, "skip", nil, "Do not look at these sources, as owner-reference, which reads the metadata of all objects of the cluster")
	completeFlag(command, "skip", s.names()...)
	s.requests.add(command)
	s.manifests.add(command)
}

// names are the sources that can be left out.
func (s *usageSources) names() []string {
	var names []string
	for _, collector := range s.around(usage.Around(nil, nil)) {
		names = append(names, string(collector.Source()))
	}
	return append(append([]string{string(v1alpha1.UsageManagedFields)}, names...), string(v1alpha1.UsageMetrics))
}

func (s *usageSources) check(command *cobra.Command) error {
	for _, name := range s.skip {
		if !slices.Contains(s.names(), name) {
			return UsageErrorf(command, "--skip %s: the sources are %s", name, strings.Join(s.names(), ", "))
		}
	}
	if err := s.manifests.check(command); err != nil {
		return err
	}
	return s.requests.check(command, s.skip)
}

// words are the flags for a command to paste.
func (s *usageSources) words() []string {
	var words []string
	if s.helm {
		words = append(words, "--helm")
	}
	return append(append(words, s.requests.words()...), s.manifests.words()...)
}

// around are the collectors of what is around a CRD, without those that are only
// looked at when asked for.
func (s *usageSources) around(surroundings *usage.Surroundings) []usage.Collector {
	return []usage.Collector{
		surroundings.OwnerReferences(), surroundings.ArgoCD(), surroundings.Flux(), surroundings.HPAs(),
		surroundings.Webhooks(), surroundings.Policies(), surroundings.Access(s.could),
	}
}

// collectors returns what looks at the sources of the flags, and the sources that
// nobody looks at.
func (s *usageSources) collectors(client cluster.Interface, targets []usage.Target) ([]usage.Collector, []v1alpha1.Unlooked) {
	surroundings := usage.Around(client, targets)
	all := append([]usage.Collector{&usage.Writers{Client: client}}, s.around(surroundings)...)
	var looking []usage.Collector
	var notLooked []v1alpha1.Unlooked
	for _, collector := range all {
		if slices.Contains(s.skip, string(collector.Source())) {
			notLooked = append(notLooked, v1alpha1.Unlooked{Source: collector.Source(), Why: "left out with --skip"})
			continue
		}
		looking = append(looking, collector)
	}
	if s.requests.skipMetrics {
		notLooked = append(notLooked, v1alpha1.Unlooked{Source: v1alpha1.UsageMetrics, Why: "left out with --skip"})
	}
	if s.helm {
		looking = append(looking, surroundings.Helm())
	}
	return looking, append(notLooked, s.notAsked()...)
}

// notAsked returns the sources that are only looked at when asked for.
func (s *usageSources) notAsked() []v1alpha1.Unlooked {
	var missing []v1alpha1.Unlooked
	if !s.helm {
		missing = append(missing, v1alpha1.Unlooked{Source: v1alpha1.UsageHelm, Why: "not asked for", Command: "--helm", Optional: true})
	}
	return append(missing, s.manifests.unlooked()...)
}

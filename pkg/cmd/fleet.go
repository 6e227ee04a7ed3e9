package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/fleet"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

// maxFailed is how many clusters that could not be asked an error names.
const maxFailed = 10

// answer is what came of one of several clusters.
type answer[T any] struct {
	v1alpha1.FleetCluster

	member member
	value  T
	// err says why there is no value; nil for a context whose cluster was asked
	// through another.
	err error
}

// ok reports whether there is a value.
func (a answer[T]) ok() bool { return a.err == nil && a.SameAs == "" }

// question is what is asked of each cluster: it returns the answer, and the CRDs
// that were named and that the cluster does not have.
type question[T any] func(ctx context.Context, m member) (value T, notFound []string, err error)

// ask asks the clusters of the flags. Contexts that lead to the same cluster are
// asked once. more is added to --cluster-timeout. Standard error gets what was
// told, in the order of the clusters.
func ask[T any](ctx context.Context, f *Factory, o *fleetFlags, more time.Duration, work question[T]) ([]answer[T], error) {
	chosen, err := o.members(f)
	if err != nil {
		return nil, err
	}
	members := make([]member, len(chosen))
	for i, one := range chosen {
		if o.only != nil {
			members[i] = member{Factory: f, Member: one}
			continue
		}
		members[i] = f.on(one)
	}
	met := meet(ctx, o, members)
	groups := sameClusters(members, met)
	type found struct {
		value    T
		notFound []string
		// of is the place in the group of the context that answered.
		of int
	}
	limit := func(i int) time.Duration { return max(o.timeout-met[groups[i][0]].Took, time.Second) + more }
	outcomes := fleet.Run(ctx, len(groups), fleet.Options{Parallel: o.parallel, Limit: limit}, func(ctx context.Context, i int) (found, error) {
		var first error
		for of, at := range groups[i] {
			if first = cmp.Or(first, met[at].Err); met[at].Err != nil {
				continue
			}
			value, notFound, err := work(ctx, members[at])
			if err == nil {
				return found{value, notFound, of}, nil
			}
			// Another context of the same cluster may have more rights.
			if first == nil {
				first = err
			}
			if ctx.Err() != nil {
				break
			}
		}
		return found{}, first
	})
	answers := make([]answer[T], len(members))
	for i, group := range groups {
		outcome := outcomes[i]
		for of, at := range group {
			one := &answers[at]
			one.FleetCluster, one.member = met[at].Value, members[at]
			if of != outcome.Value.of {
				one.SameAs = met[group[outcome.Value.of]].Value.Context
				continue
			}
			one.value, one.NotFound, one.err = outcome.Value.value, outcome.Value.notFound, outcome.Err
			if one.err != nil {
				one.Error = why(one.err, o)
			}
		}
	}
	noteCopies(answers)
	for _, one := range answers {
		if one.member.told != nil {
			f.retell(one.Context, one.member.told.String())
		}
	}
	return answers, nil
}

// meet finds out which cluster each context leads to. That is a request that
// anybody may send, so that one that is down is known to be.
func meet(ctx context.Context, o *fleetFlags, members []member) []fleet.Outcome[v1alpha1.FleetCluster] {
	options := fleet.Options{Parallel: o.parallel, Limit: func(int) time.Duration { return o.timeout }}
	met := fleet.Run(ctx, len(members), options, func(ctx context.Context, i int) (v1alpha1.FleetCluster, error) {
		m := members[i]
		if m.Err != nil {
			return v1alpha1.FleetCluster{}, m.Err
		}
		client, err := m.Cluster()
		if err != nil {
			return v1alpha1.FleetCluster{}, err
		}
		identity, err := client.Identity(ctx)
		if err != nil {
			// That it was kube-system which was read says nothing here.
			return v1alpha1.FleetCluster{}, cmp.Or(errors.Unwrap(err), err)
		}
		return v1alpha1.FleetCluster{Server: identity.Server, KubeSystemUID: identity.KubeSystemUID}, nil
	})
	for i, m := range members {
		met[i].Value.Context, met[i].Value.Kubeconfig = m.Name, m.Kubeconfig
	}
	return met
}

// sameClusters returns the indexes of the contexts, those that lead to the same
// cluster together. A cluster that cannot be asked is alone.
func sameClusters(members []member, met []fleet.Outcome[v1alpha1.FleetCluster]) [][]int {
	var groups [][]int
	for i, one := range met {
		at := slices.IndexFunc(groups, func(group []int) bool {
			// With all of them: one that does not know its UID fits more than one cluster.
			return !slices.ContainsFunc(group, func(j int) bool {
				other := met[j]
				return one.Err != nil || other.Err != nil || members[i].Way != members[j].Way || !sameCluster(one.Value, other.Value)
			})
		})
		if at < 0 {
			groups = append(groups, []int{i})
		} else {
			groups[at] = append(groups[at], i)
		}
	}
	for _, group := range groups {
		// Who may read kube-system is more likely to see all the rest, too.
		slices.SortStableFunc(group, func(a, b int) int { return cmp.Compare(knownUID(met[b]), knownUID(met[a])) })
	}
	return groups
}

// knownUID is 1 if the UID of a cluster is known, and 0 if not.
func knownUID(one fleet.Outcome[v1alpha1.FleetCluster]) int {
	return min(len(one.Value.KubeSystemUID), 1)
}

// sameCluster takes two contexts for the same cluster if they have the same server
// and nothing tells them apart: not everybody may read the UID of kube-system. That
// UID alone is not enough: a cluster that was restored from the backup of another
// has the same, and would hide behind it.
func sameCluster(a, b v1alpha1.FleetCluster) bool {
	return a.Server == b.Server && (a.KubeSystemUID == b.KubeSystemUID || a.KubeSystemUID == "" || b.KubeSystemUID == "")
}

// noteCopies says which clusters have the UID of another one, and were asked
// nevertheless.
func noteCopies[T any](answers []answer[T]) {
	first := map[string]string{}
	for i := range answers {
		one := &answers[i]
		if one.KubeSystemUID == "" || one.SameAs != "" {
			continue
		}
		if other, known := first[one.KubeSystemUID]; known {
			one.Note = fmt.Sprintf("its kube-system has the UID of that of %s: it is the same cluster at another address, or was restored from its backup", other)
			continue
		}
		first[one.KubeSystemUID] = one.Context
	}
}

// why returns in a reader's words why a cluster could not be asked.
func why(err error, o *fleetFlags) string {
	if limit := (*fleet.TimeoutError)(nil); errors.As(err, &limit) {
		return fmt.Sprintf("no answer within %s (--cluster-timeout)", o.timeout)
	}
	return oneLine(sentence(err))
}

// retell writes to standard error what was told of one cluster.
func (f *Factory) retell(context, told string) {
	const warning = "Warning: "
	for line := range strings.Lines(told) {
		if text, isWarning := strings.CutPrefix(line, warning); isWarning {
			f.Warn(context + ": " + strings.TrimSpace(text))
			continue
		}
		f.tell("%s: %s", oneLine(context), line)
	}
}

// withoutUnknown calls try without the names that the cluster has no CRD for, and
// returns these. The first `fixed` arguments are no names. Nothing is tried where no name is left.
func withoutUnknown[T any](args []string, fixed int, try func(args []string) (T, error)) (value T, notFound []string, err error) {
	args = slices.Clone(args)
	for {
		value, err = try(args)
		unknown := (*source.UnknownError)(nil)
		if !errors.As(err, &unknown) {
			return value, notFound, err
		}
		before := len(args)
		args = append(args[:fixed:fixed], slices.DeleteFunc(slices.Clone(args[fixed:]), func(arg string) bool {
			return arg == unknown.Name || strings.HasSuffix(arg, "/"+unknown.Name)
		})...)
		if len(args) == before {
			return value, notFound, err
		}
		notFound = append(notFound, unknown.Name)
		if len(args) == fixed {
			var none T
			return none, notFound, nil
		}
	}
}

// failure returns the error for clusters that could not be asked, or for a name
// that none of them has a CRD for.
func failure[T any](answers []answer[T]) error {
	var failed []string
	clusters, answered := 0, 0
	missing := map[string]int{}
	var names []string
	for _, one := range answers {
		if one.SameAs != "" {
			continue
		}
		clusters++
		if one.err != nil {
			failed = append(failed, one.Context)
			continue
		}
		answered++
		for _, name := range one.NotFound {
			if missing[name]++; missing[name] == 1 {
				names = append(names, name)
			}
		}
	}
	if len(failed) > 0 {
		more := ""
		if len(failed) > maxFailed {
			more = fmt.Sprintf(" and %d more", len(failed)-maxFailed)
		}
		return fmt.Errorf("%d of %s could not be asked: %s%s", len(failed), english.Plural(clusters, "cluster"), strings.Join(failed[:min(len(failed), maxFailed)], ", "), more)
	}
	for _, name := range names {
		if missing[name] == answered {
			return fmt.Errorf("none of the clusters has a CustomResourceDefinition named %q; kubectl crdver status lists them", name)
		}
	}
	return nil
}

// fleetReport returns the document of all clusters. put adds what one answered.
func fleetReport[T any](command *cobra.Command, answers []answer[T], put func(*v1alpha1.FleetItem, T)) *v1alpha1.FleetReport {
	report := &v1alpha1.FleetReport{TypeMeta: typeMeta(v1alpha1.KindFleetReport), Command: command.Name(), Items: []v1alpha1.FleetItem{}}
	for _, one := range answers {
		item := v1alpha1.FleetItem{FleetCluster: one.FleetCluster}
		switch {
		case one.SameAs != "":
			report.Summary.Same++
		case one.err != nil:
			report.Summary.Failed++
		default:
			report.Summary.Answered++
			put(&item, one.value)
		}
		report.Items = append(report.Items, item)
	}
	report.Summary.Clusters = report.Summary.Answered + report.Summary.Failed
	return report
}

package usage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// ownAgent is how the user agent of this tool begins.
const ownAgent = "kubectl-crdver/"

// evidence returns the rows, most requests first. end is the end of the log.
func (c *clientCounter) evidence(end time.Time) []v1alpha1.UsageEvidence {
	var list []v1alpha1.UsageEvidence
	for key, row := range c.clients {
		list = append(list, row.evidence(key, end))
	}
	slices.SortFunc(list, func(a, b v1alpha1.UsageEvidence) int {
		return cmp.Or(
			cmp.Compare(a.Version, b.Version), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Who, b.Who), cmp.Compare(a.What, b.What),
			cmp.Compare(a.Subresource, b.Subresource), cmp.Compare(a.Requests.UserAgent, b.Requests.UserAgent),
			cmp.Compare(a.Requests.ImpersonatedBy, b.Requests.ImpersonatedBy), cmp.Compare(a.Note, b.Note),
		)
	})
	return list
}

func (r *clientRequests) evidence(key clientKey, end time.Time) v1alpha1.UsageEvidence {
	last := r.last
	if last.After(end) {
		last = end
	}
	proves, notes := judgeClient(key)
	if r.open > 0 {
		notes = append(notes, fmt.Sprintf("%d open at the end of the log", r.open))
	}
	if r.dryRun > 0 {
		notes = append(notes, fmt.Sprintf("%d dry run", r.dryRun))
	}
	e := v1alpha1.UsageEvidence{
		Version: key.version, Who: key.user, WhoKind: "user", What: key.what, Subresource: key.subresource,
		Count: r.count, CountOf: "requests", Source: v1alpha1.UsageAudit, Proves: proves, Examples: r.examples,
		LastSeen: Seen(&metav1.Time{Time: last.Truncate(time.Second)}),
		Requests: &v1alpha1.UsageRequests{
			UserAgent: key.agent, ImpersonatedBy: key.by, Groups: r.groups, Addresses: r.addresses,
			Verbs: verbList(r.verbs), DryRun: r.dryRun, Open: r.open,
		},
	}
	if key.others {
		e.Who, e.What = "(others)", "read, write"
		notes = append(notes, fmt.Sprintf("clients beyond the first %d", maxClients))
	}
	e.Note = strings.Join(notes, "; ")
	return e
}

func verbList(verbs map[verbKey]int64) []v1alpha1.UsageVerb {
	var list []v1alpha1.UsageVerb
	for key, count := range verbs {
		list = append(list, v1alpha1.UsageVerb{Verb: key.verb, Code: key.code, Missing: key.missing, Count: count})
	}
	slices.SortFunc(list, func(a, b v1alpha1.UsageVerb) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Code, b.Code), cmp.Compare(fmt.Sprint(a.Missing), fmt.Sprint(b.Missing)))
	})
	return list
}

// judgeClient says how much requests prove, and what there is to know of them.
//
// Requests of this tool, and of controllers that work on every resource, are made
// at the version that discovery prefers: once that is not served, they use another.
// The garbage collector is one of those where it lists and watches; where it gets
// an owner, it does so at the version that an ownerReference names (fact 16).
// A request that was denied is none that would break: authorization knows no
// versions.
func judgeClient(key clientKey) (v1alpha1.UsageProof, []string) {
	var notes []string
	proves := v1alpha1.ProvesUse
	switch key.outcome {
	case outcomeDenied:
		proves = v1alpha1.ProvesReference
		notes = append(notes, "all denied, so that there is nothing to lose")
	case outcomeNotFound:
		notes = append(notes, "all answered 404: no such object, or the version was not served")
	case outcomeMissing:
		notes = append(notes, "all answered 404: no such object")
	case outcomePending:
		notes = append(notes, "the log has no answer")
	case outcomeAnswered:
	}
	switch {
	case key.follows != "":
		return v1alpha1.ProvesCapability, append(notes, key.follows+": uses the version that discovery prefers, whichever that is")
	case collector(key):
		notes = append(notes, "the garbage collector, which reads owners at the version that an ownerReference names")
	case key.user == "system:apiserver":
		notes = append(notes, "the API server itself, for example for the parameters of an admission policy (paramKind)")
	}
	return proves, notes
}

// follows returns who it is, if a client only uses the version that discovery
// prefers for what it does.
func follows(key clientKey, verb string) string {
	if strings.HasPrefix(key.agent, ownAgent) {
		return "this tool"
	}
	for _, name := range []string{"namespace-controller", "resourcequota-controller", "storage-version-migrator-controller"} {
		if controller(key, name) {
			return "the " + name
		}
	}
	informer := collector(key) || manager(key) && strings.HasSuffix(key.agent, "/metadata-informers")
	if informer && (verb == "list" || verb == "watch") {
		return "the garbage collector or the quota controller"
	}
	return ""
}

func collector(key clientKey) bool { return controller(key, "generic-garbage-collector") }

// controller tells whether a client is a controller of kube-controller-manager,
// which has a service account (--use-service-account-credentials) or only a name
// at the end of the user agent. Anybody can choose a user agent, but not a user.
func controller(key clientKey, name string) bool {
	if key.user == "system:serviceaccount:kube-system:"+name {
		return true
	}
	return manager(key) && strings.HasSuffix(key.agent, "/"+name)
}

func manager(key clientKey) bool { return key.user == "system:kube-controller-manager" }

// unlooked says what the logs leave open.
func (a *Audit) unlooked(target Target, counter *clientCounter) []v1alpha1.Unlooked {
	var list []v1alpha1.Unlooked
	tell := func(optional bool, format string, args ...any) {
		list = append(list, v1alpha1.Unlooked{Source: v1alpha1.UsageAudit, Why: fmt.Sprintf(format, args...), Optional: optional})
	}
	for i, unread := range a.unread {
		if i == maxFew {
			tell(false, "and %d more files", len(a.unread)-i)
			break
		}
		tell(false, "%s", unread)
	}
	if skipped := a.Stats.Corrupt + a.Stats.TooLong; skipped > 0 {
		tell(false, "%d of %d lines were skipped (%d no audit events, %d longer than %d MiB)",
			skipped, a.Stats.Lines, a.Stats.Corrupt, a.Stats.TooLong, longestAuditLine>>20)
	}
	if a.Stats.CutOff > 0 {
		// The last line of a log that is being written.
		tell(true, "the last line of %d of the logs is cut off and was skipped", a.Stats.CutOff)
	}
	if counter.all == 0 {
		tell(false, "there is no request for %s at any version in the log: the audit policy may leave them out", target.CRD.Name)
	}
	return append(list, a.uncovered()...)
}

// uncovered says which part of the window the logs are not about.
func (a *Audit) uncovered() []v1alpha1.Unlooked {
	if a.options.Window <= 0 || a.options.Now.IsZero() {
		return nil
	}
	// A quiet API server writes a line every few seconds: health checks, leases.
	const slack = 10 * time.Minute
	begin := a.options.Now.Add(-a.options.Window)
	switch from, to := a.Stats.From, a.Stats.To; {
	case to.IsZero():
		return []v1alpha1.Unlooked{{Source: v1alpha1.UsageAudit, Why: "the log is empty"}}
	case from.After(begin.Add(slack)) || to.Before(a.options.Now.Add(-slack)):
		return []v1alpha1.Unlooked{{Source: v1alpha1.UsageAudit, Why: fmt.Sprintf("the log is about %s to %s, which is not all of the last %s",
			from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339), a.options.Window)}}
	default:
		return nil
	}
}

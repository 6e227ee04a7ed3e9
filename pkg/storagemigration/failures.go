package storagemigration

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

const (
	// groupExamples is how many objects of a group are named.
	groupExamples = 3
	// maxGroups bounds the groups: what tells them apart are names in messages.
	// The groups beyond it are told apart by reason only.
	maxGroups = 100
)

// Unwritten returns the number of objects that could not be rewritten, whatever
// the reason. While there is one, nothing is proven and nothing may be trimmed.
func Unwritten(counts v1alpha1.ObjectCounts) int64 { return counts.Refused + counts.Failed }

func failureOf(object *metav1.PartialObjectMetadata, err error) *v1alpha1.ObjectFailure {
	key := keyOf(object)
	failure := cluster.Explain(err).Object(key, object.UID)
	return &failure
}

// keep takes down an object that could not be rewritten. The lock is held.
func (p *pass) keep(failure v1alpha1.ObjectFailure) {
	if len(p.result.Failures) < v1alpha1.MaxFailures {
		p.result.Failures = append(p.result.Failures, failure)
	}
	p.groups.add(failure)
}

// groupKey is what the objects of a group have in common.
type groupKey struct {
	outcome, reason string
	by              v1alpha1.Party
	name            string
}

// failureGroups counts objects by what went wrong. Its size does not depend on
// their number.
type failureGroups map[groupKey]*failureGroup

type failureGroup struct {
	count    int64
	examples []v1alpha1.ObjectFailure
}

func (g *failureGroups) add(failure v1alpha1.ObjectFailure) {
	if *g == nil {
		*g = failureGroups{}
	}
	key := groupKey{failure.Outcome, failure.Reason, failure.By, failure.ByName}
	if _, known := (*g)[key]; !known && len(*g) >= maxGroups {
		key.name = ""
	}
	group := (*g)[key]
	if group == nil {
		group = &failureGroup{}
		(*g)[key] = group
	}
	group.count++
	// The first by name, not those that happened to come first: two runs then
	// name the same ones.
	at, _ := slices.BinarySearchFunc(group.examples, failure, byName)
	group.examples = slices.Insert(group.examples, at, failure)
	group.examples = group.examples[:min(len(group.examples), groupExamples)]
}

func byName(a, b v1alpha1.ObjectFailure) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// list returns the groups, the largest first.
func (g failureGroups) list() []v1alpha1.FailureGroup {
	var groups []v1alpha1.FailureGroup
	for key, group := range g {
		one := v1alpha1.FailureGroup{
			Outcome: key.outcome, Reason: key.reason, By: key.by, ByName: key.name,
			Count: group.count, Message: group.examples[0].Message,
		}
		for _, example := range group.examples {
			one.Examples = append(one.Examples, display(types.NamespacedName{Namespace: example.Namespace, Name: example.Name}))
		}
		one.Resolve = resolve(one)
		groups = append(groups, one)
	}
	slices.SortFunc(groups, func(a, b v1alpha1.FailureGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.By, b.By), cmp.Compare(a.ByName, b.ByName), cmp.Compare(a.Outcome, b.Outcome))
	})
	return groups
}

// resolve says what to do about the objects of a group. It never suggests
// deleting one: what the server calls corrupt is usually intact (fact 15).
func resolve(group v1alpha1.FailureGroup) string {
	if group.Reason == string(cluster.ReasonFieldLoss) {
		return "add the fields to the schema of the version, remove them from the objects, or pass --allow-loss PATH; the objects were not written"
	}
	switch group.By {
	case v1alpha1.PartySchema:
		return "correct the objects so that they fit the schema of the version, or the schema; it spares unchanged fields, but not " +
			"`required` at its root, nor list-map keys (fact 12)"
	case v1alpha1.PartyWebhook:
		if group.Outcome == v1alpha1.FailureRefused {
			return "let the webhook accept an update that changes nothing; kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations shows whose it is"
		}
		return "bring the service of the webhook back, then run again"
	case v1alpha1.PartyPolicy:
		return "exempt the objects or this user in the policy or its binding until the migration is done; " +
			"kubectl get validatingadmissionpolicies,mutatingadmissionpolicies shows it"
	case v1alpha1.PartyAdmission:
		return "ask who runs the API server which admission plugin this is, and for an exemption"
	case v1alpha1.PartyConversion:
		return "mend the conversion between the versions (kubectl crdver webhook-check tries it); leave the objects as they are, they are usually intact"
	case v1alpha1.PartyQuota:
		return "raise the quota of the namespace until the migration is done; kubectl get resourcequota shows it"
	case v1alpha1.PartySize:
		return "make the objects smaller, large annotations such as last-applied-configuration first, or raise the limit of the server or etcd"
	case v1alpha1.PartyRBAC:
		return "let this user patch the resource in all namespaces, or use another one (--as, --context)"
	}
	if group.Reason == string(cluster.ReasonUnavailable) {
		return "run again when the server answers"
	}
	return "read the message, put right what it says, and run again"
}

package usage

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// unknownClients is who made the requests that metrics count.
const unknownClients = "(metrics do not say who)"

// metricsKey is what a row of the evidence stands for.
type metricsKey struct {
	what, subresource string
	// now is set for what happened while watching, or is open now, and not for what
	// was counted before.
	now bool
}

// metricsRow is a row in the making.
type metricsRow struct {
	clientRequests
	started    time.Time
	deprecated bool
}

// evidence returns the rows of a resource at a version.
//
// What a server has counted since it started is a record of the past: not of when,
// and requests of this tool are among it. What it counted while watching, and a
// watch that is open now, is use.
func (m *Metrics) evidence(resource schema.GroupVersionResource) []v1alpha1.UsageEvidence {
	rows := metricsRows{}
	for _, server := range m.tracks {
		rows.addRequests(server, resource, m.options.Watch > 0)
		rows.addOpen(server.last, resource)
	}
	for _, server := range m.tracks {
		for s := range server.last.deprecated {
			for key, row := range rows {
				row.deprecated = row.deprecated || s.resource == resource && key.subresource == s.subresource
			}
		}
	}
	return m.list(resource.Version, rows)
}

// metricsRows are the rows of a resource at a version.
type metricsRows map[metricsKey]*metricsRow

func (rows metricsRows) row(s series, now bool) *metricsRow {
	key := metricsKey{what: whatOf(s.verb), subresource: s.subresource, now: now}
	if rows[key] == nil {
		rows[key] = &metricsRow{clientRequests: clientRequests{verbs: map[verbKey]int64{}}}
	}
	return rows[key]
}

func (rows metricsRows) addRequests(server *track, resource schema.GroupVersionResource, watched bool) {
	for s, total := range server.last.requests {
		if s.resource != resource {
			continue
		}
		now := int64(0)
		if watched {
			now = server.gained(s)
		}
		if now > 0 {
			row := rows.row(s, true)
			row.add(s.key(), s.dryRun, now)
			row.seen(server.lastSeen[s])
		}
		if before := int64(total) - now; before > 0 {
			row := rows.row(s, false)
			row.add(s.key(), s.dryRun, before)
			row.since(server.last.started)
		}
	}
}

func (rows metricsRows) addOpen(server *serverMetrics, resource schema.GroupVersionResource) {
	for s, open := range server.open {
		if s.resource == resource && open > 0 {
			row := rows.row(s, true)
			row.open += int64(open)
			row.seen(server.at)
		}
	}
}

func (s series) key() verbKey {
	code, _ := strconv.ParseInt(s.code, 10, 32) // 0, unknown, for anything else.
	return verbKey{verb: apiVerb(s.verb), code: int32(code)}
}

// apiVerb returns the verb of the API for one of the metrics, which are those of
// HTTP but for list, watch and apply.
func apiVerb(verb string) string {
	switch verb {
	case "post":
		return "create"
	case "put":
		return "update"
	default:
		return verb
	}
}

func whatOf(verb string) string {
	switch verb {
	case "get", "list", "watch", "head":
		return "read"
	case "post", "put", "patch", "delete", "deletecollection":
		return "write"
	case "apply":
		return "apply"
	default:
		return "other"
	}
}

// since keeps the earliest start of a server.
func (r *metricsRow) since(started time.Time) {
	if r.started.IsZero() || started.Before(r.started) {
		r.started = started
	}
}

func (m *Metrics) list(version string, rows metricsRows) []v1alpha1.UsageEvidence {
	var list []v1alpha1.UsageEvidence
	for key, r := range rows {
		e := v1alpha1.UsageEvidence{
			Version: version, Who: unknownClients, WhoKind: "client", What: key.what, Subresource: key.subresource,
			Count: r.count + r.open, CountOf: "requests", Source: v1alpha1.UsageMetrics, Proves: v1alpha1.ProvesPastUse,
			Requests: &v1alpha1.UsageRequests{Verbs: verbList(r.verbs), DryRun: r.dryRun, Open: r.open},
		}
		if !r.last.IsZero() {
			e.LastSeen = Seen(&metav1.Time{Time: r.last.Truncate(time.Second)})
		}
		if key.now {
			e.Proves = v1alpha1.ProvesUse
		}
		e.Note = m.note(key, r, e.Requests.Verbs)
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b v1alpha1.UsageEvidence) int {
		return cmp.Or(cmp.Compare(b.Proves, a.Proves), cmp.Compare(a.What, b.What), cmp.Compare(a.Subresource, b.Subresource), cmp.Compare(a.Note, b.Note))
	})
	return list
}

func (m *Metrics) note(key metricsKey, r *metricsRow, verbs []v1alpha1.UsageVerb) string {
	var notes []string
	if r.count > 0 {
		notes = append(notes, fmt.Sprintf("%s: %s", m.span(key, r), verbText(verbs)))
	}
	if r.open > 0 {
		notes = append(notes, fmt.Sprintf("%d watches open now; those of the garbage collector and of quotas are at the version that discovery prefers", r.open))
	}
	if r.dryRun > 0 {
		notes = append(notes, fmt.Sprintf("%d dry run", r.dryRun))
	}
	if r.deprecated {
		notes = append(notes, "some while it was deprecated ("+metricDeprecated+")")
	}
	return strings.Join(notes, "; ")
}

// span says which time a count is about.
func (m *Metrics) span(key metricsKey, r *metricsRow) string {
	if key.now {
		return "in " + m.end.Sub(m.begin).Round(time.Second).String()
	}
	return fmt.Sprintf("since the API server started, %s (a restart begins anew; this tool's own requests are among them)", r.started.UTC().Format(time.RFC3339))
}

func verbText(verbs []v1alpha1.UsageVerb) string {
	var texts []string
	for _, verb := range verbs {
		text := fmt.Sprintf("%d %s", verb.Count, verb.Verb)
		if verb.Code != 0 {
			text += fmt.Sprintf(" (%d)", verb.Code)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

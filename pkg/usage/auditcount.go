package usage

import (
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// maxClients is how many rows of a CRD are told one by one.
	maxClients = 500
	// maxFew bounds the lists in a row.
	maxFew = 5
	// maxText bounds the texts that clients choose.
	maxText = 256
	// maxRecent is how many requests are remembered, so as to count each one once.
	maxRecent = 1 << 16
	// longestWatch is how long the server lets a watch go on at the most: twice
	// its --min-request-timeout, which is half an hour. One that is open for longer
	// has ended unseen.
	longestWatch = time.Hour
)

// outcome is how a request ended, as far as it is told apart.
type outcome int

const (
	outcomeAnswered outcome = iota
	outcomeDenied
	outcomeNotFound
	// outcomeMissing is a request for an object that is not there; of outcomeNotFound,
	// that is not known.
	outcomeMissing
	// outcomePending is a request whose answer is not in the log, or not yet.
	outcomePending
)

func outcomeOf(event *auditEvent) outcome {
	switch event.code() {
	case 0:
		return outcomePending
	case http.StatusForbidden, http.StatusUnauthorized:
		return outcomeDenied
	case http.StatusNotFound:
		if event.missing() {
			return outcomeMissing
		}
		return outcomeNotFound
	default:
		return outcomeAnswered
	}
}

// clientKey is what a row of the evidence stands for. Others, with no user, is
// what has no row of its own.
type clientKey struct {
	version, user, by, agent, what, subresource string
	outcome                                     outcome
	// follows is who it is, if the client would use another version. See [follows].
	follows string
	others  bool
}

type verbKey struct {
	verb    string
	code    int32
	missing bool
}

// clientRequests are the requests of a row.
type clientRequests struct {
	count, dryRun, open int64
	last                time.Time
	verbs               map[verbKey]int64
	groups              []string
	addresses           []string
	examples            []string
}

// clientCounter counts the requests for one resource.
type clientCounter struct {
	versions []string
	clients  map[clientKey]*clientRequests
	// all counts events at any version.
	all int64
}

// row returns the requests of a key, or those of all others once there are too
// many.
func (c *clientCounter) row(key clientKey) *clientRequests {
	row := c.clients[key]
	if row == nil && len(c.clients) >= maxClients {
		key = clientKey{version: key.version, outcome: key.outcome, follows: key.follows, others: true}
		row = c.clients[key]
	}
	if row == nil {
		row = &clientRequests{verbs: map[verbKey]int64{}}
		c.clients[key] = row
	}
	return row
}

func (r *clientRequests) add(verb verbKey, dryRun bool, n int64) {
	r.count += n
	r.verbs[verb] += n
	if r.verbs[verb] == 0 {
		delete(r.verbs, verb)
	}
	if dryRun {
		r.dryRun += n
	}
}

func (r *clientRequests) seen(at time.Time) {
	if r.last.Before(at) {
		r.last = at
	}
}

func few(list []string, text string) []string {
	if text == "" || len(list) >= maxFew || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}

// recentRequest is a request that was counted.
type recentRequest struct {
	hash    uint64
	row     *clientRequests
	verb    verbKey
	dryRun  bool
	ended   bool
	watch   bool
	started time.Time
}

// recentRequests remembers the last requests. One request has an event for each
// stage that the policy does not omit, and the same event may be in two files
// after a rotation. The request is counted when its first event is seen, and
// moves to another row when a later stage tells how it ended. Only a request
// whose events are more than maxRecent others apart would be counted twice.
type recentRequests struct {
	seed  maphash.Seed
	index map[uint64]int
	ring  []recentRequest
	next  int
}

func newRecentRequests() *recentRequests {
	return &recentRequests{seed: maphash.MakeSeed(), index: map[uint64]int{}}
}

// find returns the request with an identity, or the place for a new one.
func (r *recentRequests) find(identity string) (request *recentRequest, known bool) {
	hash := maphash.String(r.seed, identity)
	if at, known := r.index[hash]; known {
		return &r.ring[at], true
	}
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, recentRequest{})
	} else {
		r.ring[r.next].close(time.Time{})
		delete(r.index, r.ring[r.next].hash)
	}
	request = &r.ring[r.next]
	*request = recentRequest{hash: hash}
	r.index[hash] = r.next
	r.next = (r.next + 1) % maxRecent
	return request, false
}

// finish counts the watches that are still open at the end of the log.
func (r *recentRequests) finish(end time.Time) {
	for i := range r.ring {
		r.ring[i].close(end)
	}
}

// close ends the account of a watch whose end is not in the log. It was open
// until the end of the log; end is zero where that is not known yet.
func (r *recentRequest) close(end time.Time) {
	if !r.watch || r.ended {
		return
	}
	limit := r.started.Add(longestWatch)
	if end.IsZero() || limit.Before(end) {
		r.row.seen(limit)
		return
	}
	r.row.open++
	r.row.seen(end)
}

// count counts an event of the resource.
func (c *clientCounter) count(event *auditEvent, recent *recentRequests) {
	c.all++
	version := event.ObjectRef.APIVersion
	if !slices.Contains(c.versions, version) {
		return
	}
	ended := event.Stage == stageComplete || event.Stage == stagePanic
	if event.AuditID == "" {
		// Without an ID, stages cannot be put together: the last one counts.
		if ended {
			c.record(event, &recentRequest{})
		}
		return
	}
	request, known := recent.find(event.identity())
	switch {
	case !known:
		c.record(event, request)
	case request.ended:
		return // The same event again.
	default:
		request.row.add(request.verb, request.dryRun, -1)
		if request.row.count == 0 {
			c.drop(request.row)
		}
		c.record(event, request)
	}
	request.ended = ended
}

// drop removes a row that has no requests left.
func (c *clientCounter) drop(row *clientRequests) {
	for key, other := range c.clients {
		if other == row {
			delete(c.clients, key)
			return
		}
	}
}

// record counts a request in the row of its event.
func (c *clientCounter) record(event *auditEvent, request *recentRequest) {
	user, by := event.user()
	key := clientKey{
		version: event.ObjectRef.APIVersion, user: bounded(user.Username), by: bounded(by), agent: bounded(event.UserAgent),
		what: event.what(), subresource: bounded(event.ObjectRef.Subresource), outcome: outcomeOf(event),
	}
	key.follows = follows(key, event.Verb)
	row := c.row(key)
	request.row, request.dryRun = row, event.dryRun()
	request.verb = verbKey{verb: event.verb(), code: event.code(), missing: event.missing()}
	request.watch, request.started = event.Verb == "watch" && event.Stage == stageStarted, event.Received.Time
	row.add(request.verb, request.dryRun, 1)
	row.seen(event.Received.Time)
	if event.Verb == "watch" && event.Stage == stageComplete {
		row.seen(event.StageTime.Time) // It was used until then.
	}
	for _, group := range user.Groups {
		if group != "system:authenticated" {
			row.groups = few(row.groups, bounded(group))
		}
	}
	row.addresses = few(row.addresses, bounded(event.address()))
	row.examples = few(row.examples, bounded(event.example()))
}

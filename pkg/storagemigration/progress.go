package storagemigration

import (
	"slices"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const progressInterval = 100 * time.Millisecond

// reportProgress calls the callback until the function that it returns is
// called, which calls it for the last time.
func (p *pass) reportProgress() (stop func()) {
	if p.options.Progress == nil {
		return func() {}
	}
	return every(progressInterval, func() { p.options.Progress(p.progress()) })
}

func (p *pass) progress() v1alpha1.Progress {
	inFlight, limit := p.gate.state()
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.result.Counts
	rate, left := p.meter.read(time.Now(), counts.Listed, p.total)
	return v1alpha1.Progress{
		Counts:     counts,
		Total:      p.total,
		InFlight:   inFlight,
		Limit:      limit,
		Rate:       rate,
		ETASeconds: left,
		Pass:       p.options.Number,
	}
}

// setTotal corrects the guess at the number of objects: those that were listed,
// and those that are left by what the last page said (fact 10). With a selector,
// the server does not say.
func (p *pass) setTotal(seen int64, remaining *int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = seen
	if remaining != nil {
		p.total += *remaining
	}
}

func (p *pass) countRetry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.Counts.Retries++
}

// finish returns the result, its lists in order.
func (p *pass) finish() PassResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.SortFunc(p.result.Failures, byName)
	p.result.Groups = p.groups.list()
	return p.result
}

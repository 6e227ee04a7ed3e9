package observe

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/conversion/doctor"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/conversion/roundtrip"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// A migration takes at least leastDuration, and rewrites at least slowRate
// objects a second: that is how long a certificate has to last.
const (
	leastDuration = 15 * time.Minute
	slowRate      = 20
	// examined is how many objects, and calls, an examination of the webhook takes.
	examined = 20
)

// webhookEvidence finds out, before a migration, whether the conversion webhook
// will last, and what it loses on the way from the versions that objects are
// persisted at to the endpoint of the migration and back.
func (o *Observer) webhookEvidence(
	ctx context.Context, c crd.CRD, rehearsal conversion.RehearseOptions, objects int64, observations *lifecycle.Observations,
) error {
	converter := o.converter(ctx, c)
	observations.Converter = converter
	observations.ConverterProblem = converterProblem(c, converter, time.Now().Add(expected(objects)))
	if observations.ConverterProblem != "" {
		return nil
	}
	o.examine(ctx, c, observations)
	if observations.ConverterProblem != "" {
		return nil
	}
	for _, from := range persistedAt(c, rehearsal, *observations) {
		trip, err := roundtrip.Run(ctx, o.cluster, roundtrip.ForMigration(c, from, rehearsal))
		if trip != nil {
			addTrip(observations, from, rehearsal, trip, err)
		}
		switch {
		case err != nil && ctx.Err() != nil, cluster.Unanswered(err), cluster.Transient(err): // Another time there is an answer.
			return fmt.Errorf("sending objects from %s to %s and back: %w", from, rehearsal.RequestVersion, err)
		case err != nil:
			observations.ConversionError = cluster.Explain(err).Message
			return nil
		case len(trip.Open) > 0:
			observations.ConversionError = trip.Open[0]
		}
	}
	return nil
}

// persistedAt returns the versions, the endpoint left aside, that objects may be
// persisted at and can be read at. Where status.storedVersions cannot be trusted, that
// is each one that is served (rule 3).
func persistedAt(c crd.CRD, rehearsal conversion.RehearseOptions, observations lifecycle.Observations) []string {
	versions := slices.Clone(rehearsal.CompareVersions)
	if !lifecycle.New(c, observations).Trust.Trusted {
		versions = append(versions, c.Served()...)
	}
	var from []string
	for _, version := range versions {
		if version != rehearsal.RequestVersion && !slices.Contains(from, version) {
			from = append(from, version)
		}
	}
	return from
}

// addTrip adds what came of the objects that were sent from a version; err ended it.
func addTrip(observations *lifecycle.Observations, from string, rehearsal conversion.RehearseOptions, trip *v1alpha1.RoundTrip, err error) {
	var sent, failed int64
	for _, pair := range trip.Pairs {
		sent += pair.Objects // Those that came back.
		for _, failure := range pair.Failures {
			failed += failure.Objects
		}
	}
	found := observations.Conversion
	if found == nil {
		found = &v1alpha1.RehearsedConversion{To: rehearsal.RequestVersion, Sampled: sent, Complete: true}
		observations.Conversion = found
	}
	found.From = append(found.From, from)
	found.Sampled, found.Failed, found.Total = min(found.Sampled, sent), max(found.Failed, failed), max(found.Total, trip.Total)
	found.Complete = found.Complete && err == nil && roundtrip.Whole(trip, rehearsal) && failed == 0 && len(trip.Open) == 0
	found.Lost = merge(found.Lost, roundtrip.Lost(trip))
}

// examine calls the webhook as webhook-check does. What cannot be called from
// here is left to what the server's own reads and dry runs show.
func (o *Observer) examine(ctx context.Context, c crd.CRD, observations *lifecycle.Observations) {
	caller, err := review.CallerFor(o.cluster, c)
	if err != nil {
		observations.ConversionError = err.Error()
		return
	}
	report, err := doctor.Check(ctx, doctor.Options{
		CRD: c, Caller: caller, Source: doctor.NewLive(o.cluster, c, examined), Calls: examined, Skip: doctor.Quick(), Now: time.Now(),
	})
	if err != nil {
		observations.ConversionError = "the conversion webhook could not be examined: " + err.Error()
		return
	}
	for _, check := range doctor.Blocking(report) {
		observations.ConverterProblem = check.Name + ": " + check.Message
		return
	}
}

// expected is how long a migration of so many objects may take.
func expected(objects int64) time.Duration {
	return max(leastDuration, time.Duration(objects/slowRate)*time.Second)
}

// converterProblem says why a conversion webhook will not do until a time.
func converterProblem(c crd.CRD, converter *lifecycle.Converter, until time.Time) string {
	switch {
	case converter == nil:
		return ""
	case converter.TLSError != "":
		return converter.TLSError
	case len(converter.Failures) > 0:
		for _, version := range c.VersionNames() {
			if failure := converter.Failures[version]; failure != "" {
				return fmt.Sprintf("objects cannot be read at %s: %s", version, failure)
			}
		}
	}
	for _, der := range converter.Certificates[:min(len(converter.Certificates), 1)] {
		if leaf, err := x509.ParseCertificate(der); err == nil && leaf.NotAfter.Before(until) {
			return ends("its certificate", leaf.NotAfter)
		}
	}
	if webhook := c.Spec.Conversion.Webhook; webhook != nil && webhook.ClientConfig != nil {
		if last := lastsUntil(webhook.ClientConfig.CABundle); !last.IsZero() && last.Before(until) {
			return ends("the caBundle", last)
		}
	}
	return ""
}

func ends(what string, at time.Time) string {
	return fmt.Sprintf("%s ends at %s, before the migration may be over", what, at.UTC().Format(time.RFC3339))
}

// lastsUntil returns when the last certificate of a bundle ends, and zero if it
// holds none.
func lastsUntil(bundle []byte) time.Time {
	var last time.Time
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil && certificate.NotAfter.After(last) {
			last = certificate.NotAfter
		}
	}
	return last
}

// merge adds differences that are not there yet.
func merge(lost, more []v1alpha1.FieldDifference) []v1alpha1.FieldDifference {
	for _, one := range more {
		if !slices.ContainsFunc(lost, func(known v1alpha1.FieldDifference) bool { return known.Path == one.Path && known.Change == one.Change }) {
			lost = append(lost, one)
		}
	}
	return lost
}

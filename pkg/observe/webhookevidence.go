package observe

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
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
) {
	converter := o.converter(ctx, c)
	observations.Converter = converter
	observations.ConverterProblem = converterProblem(c, converter, time.Now().Add(expected(objects)))
	if observations.ConverterProblem != "" {
		return
	}
	o.examine(ctx, c, observations)
	if observations.ConverterProblem != "" {
		return
	}
	// The versions that objects may be persisted at and can be read at, each once.
	for _, from := range rehearsal.CompareVersions {
		if from == rehearsal.RequestVersion {
			continue
		}
		trip, err := roundtrip.Run(ctx, o.cluster, roundtrip.ForMigration(c, from, rehearsal))
		if err != nil {
			observations.ConversionError = err.Error()
			return
		}
		if len(trip.Open) > 0 {
			observations.ConversionError = trip.Open[0]
		}
		addTrip(observations, from, rehearsal, trip)
	}
}

// addTrip adds what came of the objects that were sent from a version.
func addTrip(observations *lifecycle.Observations, from string, rehearsal conversion.RehearseOptions, trip *v1alpha1.RoundTrip) {
	found := observations.Conversion
	if found == nil {
		found = &v1alpha1.RehearsedConversion{To: rehearsal.RequestVersion, Sampled: trip.Objects, Total: trip.Total, Complete: true}
		observations.Conversion = found
	}
	found.From = append(found.From, from)
	found.Sampled, found.Total = min(found.Sampled, trip.Objects), max(found.Total, trip.Total)
	// Those that were deleted meanwhile are missing from a whole one.
	found.Complete = found.Complete && (trip.Complete || rehearsal.Every)
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

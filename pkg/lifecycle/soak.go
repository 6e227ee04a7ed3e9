package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// The annotations of a CRD that say what a run has begun and another one ends.
const (
	// SoakAnnotation says since when a retirement waits.
	SoakAnnotation = "crdver.dev/soak"
	// BrownoutAnnotation says that a version is not served for a time.
	BrownoutAnnotation = "crdver.dev/brownout"
)

// LongestSoak bounds what a person can have meant.
const LongestSoak = 10 * 365 * 24 * time.Hour

// ReadSoak returns the soak of a CRD, or nil where it has none. One that does not
// make sense, or that somebody else has changed, is an error: a soak must never
// become shorter by an edit.
func ReadSoak(c crd.CRD) (*v1alpha1.Soak, error) {
	soak := new(v1alpha1.Soak)
	if found, err := readMark(c, SoakAnnotation, soak); !found || err != nil {
		return nil, err
	}
	switch {
	case soak.Version == "":
		return nil, fmt.Errorf("the annotation %s has no version", SoakAnnotation)
	case soak.Phase != v1alpha1.SoakDeprecated && soak.Phase != v1alpha1.SoakUnserved:
		return nil, fmt.Errorf("the annotation %s has the phase %q, which is neither %s nor %s",
			SoakAnnotation, soak.Phase, v1alpha1.SoakDeprecated, v1alpha1.SoakUnserved)
	case soak.Since.IsZero() || !soak.Since.Before(&soak.Until):
		return nil, fmt.Errorf("the annotation %s does not end after it begins", SoakAnnotation)
	case soak.Until.Sub(soak.Since.Time) > LongestSoak:
		return nil, fmt.Errorf("the annotation %s lasts more than ten years", SoakAnnotation)
	}
	// Whoever edits the value becomes a manager of it.
	for _, w := range fieldWriters(c, "metadata", "annotations", SoakAnnotation) {
		if w.manager != soak.Manager {
			return nil, fmt.Errorf("the annotation %s was changed by %q%s", SoakAnnotation, w.manager, w.at())
		}
	}
	return soak, nil
}

// ReadBrownout returns the brownout of a CRD, or nil where it has none.
func ReadBrownout(c crd.CRD) (*v1alpha1.Brownout, error) {
	brownout := new(v1alpha1.Brownout)
	if found, err := readMark(c, BrownoutAnnotation, brownout); !found || err != nil {
		return nil, err
	}
	if brownout.Version == "" || brownout.Until.IsZero() {
		return nil, fmt.Errorf("the annotation %s names no version or no time", BrownoutAnnotation)
	}
	return brownout, nil
}

// readMark decodes an annotation strictly: what is not understood may matter.
func readMark(c crd.CRD, key string, into any) (bool, error) {
	text, found := c.Annotations[key]
	if !found {
		return false, nil
	}
	if len(text) > maxHold {
		return true, fmt.Errorf("the annotation %s has %d bytes", key, len(text))
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil && decoder.More() {
		err = errors.New("something follows the value")
	}
	if err != nil {
		return true, fmt.Errorf("the annotation %s cannot be read: %w", key, err)
	}
	return true, nil
}

// MarkText returns the value of one of the annotations.
func MarkText(mark any) string {
	text, err := json.Marshal(mark)
	if err != nil {
		// Only unsupported types fail, and there are none in them.
		panic(fmt.Sprintf("encoding %T: %v", mark, err))
	}
	return string(text)
}

// timeOf writes a time as all of them are written here.
func timeOf(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// DescribeBrownout says how it stands with a brownout, for people.
func DescribeBrownout(brownout v1alpha1.Brownout, now time.Time) string {
	state := "is under way until " + timeOf(brownout.Until.Time)
	if now.After(brownout.Until.Time) {
		state = "was to end at " + timeOf(brownout.Until.Time) + " and is overdue"
	}
	return fmt.Sprintf("a brownout of %s by %s %s", brownout.Version, brownout.By, state)
}

// BrownedOut reports whether a version is not served because of a brownout, which is
// under way or was never ended: then its not being served says nothing of its life.
// An annotation that cannot be read may be about any version.
func (s State) BrownedOut(version string) bool {
	if v := s.Version(version); v == nil || v.Served {
		return false
	}
	about, unreadable := s.MarksOf(version)
	return slices.Contains(about, BrownoutAnnotation) || slices.Contains(unreadable, BrownoutAnnotation)
}

// afterBrownout returns the command that ends a brownout and why, or two empty strings.
// Where the annotation does not say which version it is about, there is no command.
func (s State) afterBrownout() (command, why string) {
	for _, v := range s.Versions {
		if about, _ := s.MarksOf(v.Name); v.Served || !slices.Contains(about, BrownoutAnnotation) {
			continue
		}
		brownout, err := ReadBrownout(s.CRD)
		if err != nil {
			return s.command("restore", v.Name), fmt.Sprintf("%s is not served because of a brownout", v.Name)
		}
		return s.command("restore", v.Name), s.describeBrownout(*brownout)
	}
	return "", ""
}

// describeBrownout says how it stands with a brownout, and whether anybody will end it.
func (s State) describeBrownout(brownout v1alpha1.Brownout) string {
	now := s.Observations.Now
	note := DescribeBrownout(brownout, now)
	if s.Observations.BrownoutGone && !now.After(brownout.Until.Time) {
		note += ", but its process is gone"
	}
	return note
}

// markNotes say what a run has begun and not ended.
func (s State) markNotes() []string {
	now := s.Observations.Now
	var notes []string
	switch brownout, err := ReadBrownout(s.CRD); {
	case err != nil:
		notes = append(notes, fmt.Sprintf("%s; kubectl annotate crd %s %s- removes it", err, s.CRD.Name, BrownoutAnnotation))
	case brownout != nil:
		notes = append(notes, s.describeBrownout(*brownout)+"; to serve it again: "+s.command("restore", brownout.Version))
	}
	switch soak, err := ReadSoak(s.CRD); {
	case err != nil:
		notes = append(notes, fmt.Sprintf("%s; kubectl annotate crd %s %s- removes it", err, s.CRD.Name, SoakAnnotation))
	case soak != nil && now.Before(soak.Until.Time):
		notes = append(notes, fmt.Sprintf("%s soaks (%s since %s); after %s: %s",
			soak.Version, soak.Phase, timeOf(soak.Since.Time), timeOf(soak.Until.Time), s.command("retire", soak.Version)))
	case soak != nil:
		notes = append(notes, fmt.Sprintf("the soak of %s (%s) was over at %s; to go on: %s",
			soak.Version, soak.Phase, timeOf(soak.Until.Time), s.command("retire", soak.Version)))
	}
	return notes
}

// MarksOf returns which of the annotations are about a version, and which cannot be
// read so far that they could be about any.
func (s State) MarksOf(version string) (keys, unreadable []string) {
	for _, key := range []string{BrownoutAnnotation, SoakAnnotation} {
		text, found := s.CRD.Annotations[key]
		if !found {
			continue
		}
		// One that somebody has edited still says which version it is about.
		var about struct {
			Version string `json:"version"`
		}
		switch err := json.Unmarshal([]byte(text), &about); {
		case err != nil || about.Version == "":
			unreadable = append(unreadable, key)
		case about.Version == version:
			keys = append(keys, key)
		}
	}
	return keys, unreadable
}

package lifecycle

import (
	"encoding/json"
	"fmt"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// HoldAnnotation is the annotation of a CRD that says who rewrites its objects.
const HoldAnnotation = "crdver.dev/migration"

// maxHold bounds the annotation that is read, in bytes.
const maxHold = 8 << 10

// ReadHold returns the hold of a CRD, or nil where it has none. An annotation that
// cannot be read is an error: it may be of a later version of this tool.
func ReadHold(annotations map[string]string) (*v1alpha1.Hold, error) {
	text, found := annotations[HoldAnnotation]
	if !found {
		return nil, nil //nolint:nilnil // No hold is no error.
	}
	if len(text) > maxHold {
		return nil, fmt.Errorf("the annotation %s has %d bytes", HoldAnnotation, len(text))
	}
	hold := new(v1alpha1.Hold)
	if err := json.Unmarshal([]byte(text), hold); err != nil {
		return nil, fmt.Errorf("the annotation %s cannot be read: %w", HoldAnnotation, err)
	}
	if hold.ID == "" && hold.Progress == nil {
		return nil, fmt.Errorf("the annotation %s cannot be read: it names nobody", HoldAnnotation)
	}
	return hold, nil
}

// HoldText returns the value of the annotation.
func HoldText(hold v1alpha1.Hold) string {
	text, err := json.Marshal(hold)
	if err != nil {
		// Only unsupported types fail, and there are none in it.
		panic(fmt.Sprintf("encoding %T: %v", hold, err))
	}
	return string(text)
}

// DescribeHold says who holds a CRD, for people.
func DescribeHold(hold v1alpha1.Hold) string { return describeHold(hold, "runs") }

func describeHold(hold v1alpha1.Hold, runs string) string {
	text := fmt.Sprintf("%s %s %q since %s, last heard of at %s", hold.Holder, runs, hold.Command,
		hold.StartedAt.UTC().Format("2006-01-02T15:04:05Z"), hold.RenewedAt.UTC().Format("15:04:05Z"))
	if p := hold.Progress; p != nil && p.Total > 0 {
		text += fmt.Sprintf(", %d of %s", p.Done, english.Plural(p.Total, "object"))
	}
	return text
}

// holdNote says who is at work on a CRD, or how far somebody came.
func (s State) holdNote() string {
	hold, err := ReadHold(s.CRD.Annotations)
	switch {
	case err != nil:
		return err.Error()
	case hold == nil:
		return ""
	case hold.ID != "" && s.Observations.HoldGone:
		return describeHold(*hold, "ran") + ", but its process is gone; the next run takes over"
	case hold.ID != "":
		return "at work: " + DescribeHold(*hold)
	case hold.Progress == nil:
		return ""
	}
	return fmt.Sprintf("%q ended early at %s, after %d of %s", hold.Command,
		hold.RenewedAt.UTC().Format("2006-01-02T15:04:05Z"), hold.Progress.Done, english.Plural(hold.Progress.Total, "object"))
}

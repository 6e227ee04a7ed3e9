package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// describeStatus returns everything about one CRD, as "kubectl describe" would.
func describeStatus(s lifecycle.State, item v1alpha1.CRDStatus) *printers.Description {
	d := &printers.Description{}
	d.Add("Name", item.Name)
	d.Add("Kind", fmt.Sprintf("%s (%s)", item.Kind, item.Scope))
	if s.CRD.Origin.Live() {
		d.Add("Established", printers.Bool(item.Established))
	} else {
		d.Add("Origin", item.Origin)
	}
	d.Add("Served", strings.Join(item.Served, ", "))
	d.Add("Storage", item.StorageVersion)
	if trust := item.StoredVersionsTrust; trust != nil {
		d.Add("Stored", strings.Join(item.StoredVersions, ", "))
		d.Add("Trusted", verdict(*trust)...)
	}
	d.Add("Default", defaultLine(item))
	d.Add("Conversion", conversionLine(s))
	if item.Objects != nil {
		d.Add("Objects", fmt.Sprint(*item.Objects))
	} else if item.ObjectsError != "" {
		d.Add("Objects", "unknown: "+item.ObjectsError)
	}
	d.AddIf("Discovery", discoveryLines(s, item)...)
	d.Add("Managed by", managerLines(item.Managers)...)
	d.AddIf("Notes", item.Notes...)
	d.AddTable("Versions", detailTable(s))
	if s.CRD.Origin.Live() {
		d.AddTable("Stored versions", storedTable(s))
	}
	d.AddIf("Warnings", deprecationLines(s)...)
	if item.Next != nil {
		d.Add("Next", item.Next.Command, "("+item.Next.Why+")")
	} else if s.CRD.Origin.Live() {
		d.Add("Next", "nothing to do")
	}
	return d
}

// verdict says whether storedVersions can be trusted, with a line per reason.
func verdict(trust v1alpha1.Trust) []string {
	word := "no: "
	if trust.Trusted {
		word = "yes: "
	}
	var lines []string
	for _, reason := range trust.Reasons {
		lines = append(lines, word+reason)
		word = strings.Repeat(" ", len(word))
	}
	return lines
}

func defaultLine(item v1alpha1.CRDStatus) string {
	if slices.Contains(item.Deprecated, item.KubectlDefault) {
		return item.KubectlDefault + " (deprecated)"
	}
	return item.KubectlDefault
}

// conversionLine returns the strategy, and where a webhook is.
func conversionLine(s lifecycle.State) string {
	line := string(s.CRD.ConversionStrategy())
	conversion := s.CRD.Spec.Conversion
	if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
		return line
	}
	switch config := conversion.Webhook.ClientConfig; {
	case config.Service != nil:
		return fmt.Sprintf("%s (service %s/%s)", line, config.Service.Namespace, config.Service.Name)
	case config.URL != nil:
		return fmt.Sprintf("%s (%s)", line, *config.URL)
	}
	return line
}

func discoveryLines(s lifecycle.State, item v1alpha1.CRDStatus) []string {
	d := item.Discovery
	if d == nil {
		return nil
	}
	if !d.Agrees {
		return []string{"differs: " + d.Problem}
	}
	lines := []string{fmt.Sprintf("agrees (/apis/%s and the aggregated document)", s.CRD.Spec.Group)}
	if d.Aggregated == nil {
		lines = []string{fmt.Sprintf("agrees (/apis/%s)", s.CRD.Spec.Group)}
	}
	if d.Problem != "" {
		lines = append(lines, d.Problem)
	}
	return lines
}

func managerLines(managers []v1alpha1.Manager) []string {
	var lines []string
	for _, m := range managers {
		line := m.Name
		if m.Instance != "" {
			line += " " + m.Instance
		}
		line += " (" + m.Evidence + ")"
		if m.Reverts {
			line += "; puts its own manifest back"
		}
		lines = append(lines, line)
	}
	return lines
}

// detailTable has a row for each version, with its state and whether it can be
// removed yet.
func detailTable(s lifecycle.State) printers.Table {
	table := printers.Table{Columns: []printers.Column{
		{Header: "VERSION"}, {Header: "PRIORITY"}, {Header: "STABILITY"}, {Header: "STATE"}, {Header: "DEPRECATED"}, {Header: "REMOVABLE"},
	}}
	for _, v := range s.Versions {
		table.Rows = append(table.Rows, []string{
			v.Name, fmt.Sprint(v.Priority), v.Stability.String(), v.State(), printers.Bool(&v.Deprecated), removable(s, v),
		})
	}
	return table
}

// removable says whether a version can be removed from spec.versions, and in a
// few words why not.
func removable(s lifecycle.State, v lifecycle.Version) string {
	if !s.CRD.Origin.Live() {
		return printers.Unknown
	}
	var why []string
	for _, blocker := range s.MayRemove(v.Name) {
		switch blocker.ID {
		case lifecycle.BlockStorageVersion:
			why = append(why, "storage version")
		case lifecycle.BlockOnlyServed:
			why = append(why, "only served version")
		case lifecycle.BlockStillServed:
			why = append(why, "served")
		case lifecycle.BlockBrownout:
			why = append(why, "brownout")
		case lifecycle.BlockStored:
			why = append(why, "in storedVersions")
		default:
			why = append(why, blocker.Message)
		}
	}
	if len(why) == 0 && !s.Trust.Trusted {
		why = append(why, "storedVersions cannot be trusted")
	}
	if len(why) == 0 {
		return "yes"
	}
	return "not yet: " + strings.Join(why, ", ")
}

// storedTable has a row for each stored version, with how many objects are
// persisted at it as far as the API can tell.
func storedTable(s lifecycle.State) printers.Table {
	table := printers.Table{Columns: []printers.Column{
		{Header: "VERSION"}, {Header: "IN-SPEC"}, {Header: "SERVED"}, {Header: "OBJECTS"},
	}}
	for _, name := range s.Stored {
		v := s.Version(name)
		inSpec, served := v != nil, v != nil && v.Served
		table.Rows = append(table.Rows, []string{name, printers.Bool(&inSpec), printers.Bool(&served), persisted(s, name)})
	}
	return table
}

// persisted says how many objects are persisted at a stored version: the API
// converts objects and does not tell, unless there is only one possibility.
func persisted(s lifecycle.State, version string) string {
	objects := s.Observations.Objects
	switch {
	case objects != nil && *objects == 0:
		return "0"
	case objects != nil && s.StoredExactly(version) && s.Trust.Trusted:
		return fmt.Sprint(*objects)
	default:
		return "unknown: the API does not tell; kubectl crdver migrate makes sure"
	}
}

// deprecationLines returns the warnings that clients get, version by version.
func deprecationLines(s lifecycle.State) []string {
	var lines []string
	for _, v := range s.Versions {
		if v.Deprecated {
			lines = append(lines, v.Name+": "+deprecationWarning(s, v))
		}
	}
	return lines
}

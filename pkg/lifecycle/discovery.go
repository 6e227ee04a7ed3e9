package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// DiscoveryProblem says how the server's discovery differs from the CRD: in the
// default version, or anywhere else in the order; "" if it does not, if it was
// not looked at, or if the CRD is not established: it is not in discovery then.
func (s State) DiscoveryProblem() string {
	d := s.Observations.Discovery
	if d == nil || !s.CRD.Established() {
		return ""
	}
	if problem := s.defaultProblem(); problem != "" {
		return problem
	}
	served := s.Served()
	differs := func(document string, order []string) string {
		return fmt.Sprintf("%s lists %s, the order is %s", document, strings.Join(order, ", "), strings.Join(served, ", "))
	}
	switch {
	case !slices.Equal(d.Group, served):
		return differs("/apis/"+s.CRD.Spec.Group, d.Group)
	case d.Aggregated != nil && !slices.Equal(d.Aggregated, served):
		return differs("aggregated discovery", d.Aggregated)
	}
	return ""
}

// defaultProblem says how the server's discovery names another default than the
// CRD, or "".
func (s State) defaultProblem() string {
	d := s.Observations.Discovery
	if d == nil {
		return ""
	}
	if d.Error != "" {
		return "discovery could not be read: " + d.Error
	}
	first := func(list []string) string {
		if len(list) == 0 {
			return "none"
		}
		return list[0]
	}
	want := cmp.Or(s.KubectlDefault, "none")
	switch {
	case first(d.Group) != want:
		return fmt.Sprintf("/apis/%s lists %s first, the CRD's default is %s", s.CRD.Spec.Group, first(d.Group), want)
	case d.Aggregated != nil && first(d.Aggregated) != want:
		return fmt.Sprintf("aggregated discovery lists %s first, the CRD's default is %s", first(d.Aggregated), want)
	}
	return ""
}

// APIServiceProblem says what an APIService that is not the server's own does to
// the versions of the CRD.
func (s State) APIServiceProblem(a APIService) string {
	if a.Service != "" {
		return fmt.Sprintf("APIService %s sends %s to service %s: this CRD does not serve it", a.Name, a.Version, a.Service)
	}
	return fmt.Sprintf("APIService %s is not managed by the server (versionPriority %d): it decides the order in /apis/%s",
		a.Name, a.VersionPriority, s.CRD.Spec.Group)
}

func (s State) discoveryNotes() []string {
	var notes []string
	if problem := s.defaultProblem(); problem != "" {
		notes = append(notes, problem)
	}
	if d := s.Observations.Discovery; d != nil {
		if d.APIServicesError != "" {
			notes = append(notes, "whether an APIService takes a version away from this CRD, or changes the order, is unknown: "+d.APIServicesError)
		}
		for _, a := range d.APIServices {
			notes = append(notes, s.APIServiceProblem(a))
		}
	}
	return notes
}

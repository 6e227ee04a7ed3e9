// Package apiversion parses and orders the names of API versions as the
// Kubernetes API server does (k8s.io/apimachinery/pkg/version).
package apiversion

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// Stability is the class of a version name, which decides its priority first.
type Stability int

// The stabilities, lowest priority first.
const (
	NonConforming Stability = iota
	Alpha
	Beta
	GA
)

// String returns GA, beta, alpha or non-conforming.
func (s Stability) String() string {
	switch s {
	case GA:
		return "GA"
	case Beta:
		return "beta"
	case Alpha:
		return "alpha"
	case NonConforming:
		return "non-conforming"
	}
	return fmt.Sprintf("Stability(%d)", int(s))
}

// Version is a parsed version name.
type Version struct {
	Name      string
	Stability Stability
	// Major is the number after "v", and Minor the one after "alpha" or "beta";
	// both are 0 for a name that does not conform.
	Major, Minor int
}

// Parse reads a version name. Every string is a version: one that is not like
// v1, v1beta1 or v1alpha1, or whose numbers do not fit into an int, does not
// conform, exactly as for the API server.
func Parse(name string) Version {
	// Compiled per call: a package variable would be a global, and names are
	// parsed a few times per CRD.
	match := regexp.MustCompile(`^v(\d+)(?:(alpha|beta)(\d+))?$`).FindStringSubmatch(name)
	if match == nil {
		return Version{Name: name}
	}
	major, err := strconv.Atoi(match[1])
	if err != nil {
		return Version{Name: name}
	}
	if match[2] == "" {
		return Version{Name: name, Stability: GA, Major: major}
	}
	minor, err := strconv.Atoi(match[3])
	if err != nil {
		return Version{Name: name}
	}
	stability := Alpha
	if match[2] == "beta" {
		stability = Beta
	}
	return Version{Name: name, Stability: stability, Major: major, Minor: minor}
}

// Compare returns a positive number if a has the higher priority, a negative
// one if b has, and 0 only for equal names. Names that tie for the API server
// (v1 and v01) are ordered by the shorter, then by the alphabetically first.
func Compare(a, b string) int {
	if order := version.CompareKubeAwareVersionStrings(a, b); order != 0 {
		return order
	}
	if len(a) != len(b) {
		return len(b) - len(a)
	}
	return strings.Compare(b, a)
}

// Tie reports whether two different names have the same priority for the API
// server; its discovery documents may then disagree.
func Tie(a, b string) bool {
	return a != b && version.CompareKubeAwareVersionStrings(a, b) == 0
}

// Sort orders names in place, highest priority first.
func Sort(names []string) {
	slices.SortStableFunc(names, func(a, b string) int { return Compare(b, a) })
}

// Sorted returns the names, highest priority first.
func Sorted(names []string) []string {
	sorted := slices.Clone(names)
	Sort(sorted)
	return sorted
}

// Explain says which rule decides between two names, the higher first.
func Explain(higher, lower string) string {
	h, l := Parse(higher), Parse(lower)
	switch {
	case Tie(higher, lower):
		return fmt.Sprintf("same priority as %s: ordered by name, and undefined for the API server", lower)
	case h.Stability != l.Stability && l.Stability == NonConforming:
		return fmt.Sprintf("%s before a name that does not conform (%s)", h.Stability, lower)
	case h.Stability != l.Stability:
		return fmt.Sprintf("%s before %s (%s)", h.Stability, l.Stability, lower)
	case h.Stability == NonConforming:
		return fmt.Sprintf("not like v1, v1beta1 or v1alpha1: alphabetical before %s", lower)
	case h.Major != l.Major:
		return fmt.Sprintf("major %d > %d (%s)", h.Major, l.Major, lower)
	default:
		return fmt.Sprintf("%s %d > %d (%s)", h.Stability, h.Minor, l.Minor, lower)
	}
}

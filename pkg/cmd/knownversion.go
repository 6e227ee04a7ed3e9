package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// noSuchVersion is the error of a question about a version that nothing knows: the
// answer "nothing" would be true of every mistyped name. have are the versions there
// are, of one CRD or of many.
func noSuchVersion(who, version string, have []string) error {
	have = slices.Compact(slices.Sorted(slices.Values(have)))
	message := fmt.Sprintf("%s a version %q", who, version)
	switch near := lifecycle.Nearest(version, have); {
	case near != "":
		message += fmt.Sprintf("; did you mean %q?", near)
	case len(have) > 0 && len(have) <= 10:
		message += "; there is " + strings.Join(have, ", ")
	}
	return &noVersionError{message: message, have: have}
}

// noneHas says of one or many clusters that they do not have something.
func noneHas(clusters int) string {
	if clusters == 1 {
		return "the cluster does not have"
	}
	return "none of the clusters has"
}

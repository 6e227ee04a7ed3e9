package validate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func deprecationSeenByClients() Rule {
	return Rule{
		ID:       "deprecation-seen-by-clients",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "what clients see when they use a deprecated version",
		Why: "The API server sends a warning with each request at a deprecated version. This is the text as it arrives; a version that sends none " +
			"although it is deprecated is a warning, because its users learn nothing.",
		Fix:      "Nothing, if the text says what it should.",
		LiveOnly: true,
		Check:    checkDeprecationSeenByClients,
	}
}

func checkDeprecationSeenByClients(s *Subject) []Problem {
	return each(func(s *Subject, _ string, e entry) *Problem {
		if !e.Deprecated || !e.Served {
			return nil
		}
		problem := &Problem{Path: e.path("deprecated")}
		if reason := s.Observations.ClientsError[e.Name]; reason != "" {
			problem.Message = fmt.Sprintf("whether clients of %s see a warning could not be found out: %s", s.Names(e.Name), reason)
			problem.Fix = "Try again with an account that may list the objects."
			return problem
		}
		warnings, asked := s.Observations.Clients[e.Name]
		switch {
		case !asked:
			return nil
		case len(warnings) == 0:
			problem.Severity = v1alpha1.SeverityWarning
			problem.Message = fmt.Sprintf("clients of %s see no warning although the version is deprecated", s.Names(e.Name))
			problem.Fix = "See whether an APIService or a proxy answers for the version instead of this CRD: kubectl get --raw /apis/" +
				s.CRD.Spec.Group + "/" + e.Name + " -v=8"
		default:
			quoted := make([]string, 0, len(warnings))
			for _, warning := range warnings {
				quoted = append(quoted, strconv.Quote(warning))
			}
			problem.Message = fmt.Sprintf("clients of %s see: %s", s.Names(e.Name), strings.Join(quoted, ", "))
		}
		return problem
	})(s)
}

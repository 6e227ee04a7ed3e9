package validate

import (
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func printerColumnsDiffer() Rule {
	return Rule{
		ID:       "printer-columns-differ",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "kubectl get shows other columns at one served version than at another",
		Why: "What kubectl get prints changes with the version that it uses, which is the highest-priority served one: serving or deprecating a " +
			"version changes what people and scripts see.",
		Fix:   "Give the served versions the same additionalPrinterColumns, with the paths of each version.",
		Check: checkPrinterColumnsDiffer,
	}
}

func checkPrinterColumnsDiffer(s *Subject) []Problem {
	var preferred entry
	entries := s.entries()
	for _, e := range entries {
		if e.Served && e.Name == s.KubectlDefault {
			preferred = e
			break
		}
	}
	if preferred.CustomResourceDefinitionVersion == nil {
		return nil
	}
	var problems []Problem
	for _, e := range entries {
		if !e.Served || e.Name == preferred.Name || reflect.DeepEqual(e.AdditionalPrinterColumns, preferred.AdditionalPrinterColumns) {
			continue
		}
		if differ := differentColumns(e.AdditionalPrinterColumns, preferred.AdditionalPrinterColumns); differ != "" {
			problems = append(problems, Problem{
				Version: e.Name,
				Path:    e.path("additionalPrinterColumns"),
				Message: "kubectl get shows other columns at " + e.Name + " than at " + preferred.Name + ": " + differ,
			})
		}
	}
	return problems
}

// differentColumns says which columns are more or fewer. A path may differ, as
// where a field has another name, and a description is not printed.
func differentColumns(columns, preferred []apiextensionsv1.CustomResourceColumnDefinition) string {
	var parts []string
	if more := onlyIn(columns, preferred); len(more) > 0 {
		parts = append(parts, "also "+listed(more))
	}
	if fewer := onlyIn(preferred, columns); len(fewer) > 0 {
		parts = append(parts, "not "+listed(fewer))
	}
	return strings.Join(parts, ", ")
}

func onlyIn(columns, others []apiextensionsv1.CustomResourceColumnDefinition) []string {
	known := map[string]bool{}
	for _, column := range others {
		known[strings.ToUpper(column.Name)] = true
	}
	var names []string
	for _, column := range columns {
		if name := strings.ToUpper(column.Name); !known[name] {
			known[name] = true
			names = append(names, name)
		}
	}
	return names
}

package printers_test

import (
	"bytes"
	"encoding/xml"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// junitCounts is what the attributes of a report and of its suites say.
type junitCounts struct {
	Name     string `xml:"name,attr"`
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Skipped  int    `xml:"skipped,attr"`
}

type junitReport struct {
	junitCounts

	Suites []struct {
		junitCounts

		Cases []struct {
			Name    string    `xml:"name,attr"`
			Class   string    `xml:"classname,attr"`
			Failure *struct{} `xml:"failure"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// TestJUnitCounts says that the report is well-formed, that its counts are those
// of its tests, and that no test has the names of another: GitLab drops those.
func TestJUnitCounts(t *testing.T) {
	t.Parallel()
	report := read[v1alpha1.ValidationReport](t, "findings.yaml")
	// The findings of a CRD that is there by another name than its own are told
	// with that name.
	report.CRDs[3].Name = report.Findings[4].CRD
	report.CRDs = append(report.CRDs, v1alpha1.CheckedCRD{Name: "evils.example.com"})
	var out bytes.Buffer
	if err := printers.WriteJUnit(&out, "kubectl crdver", printers.JUnitCases(report.CRDs, report.Findings, failing)); err != nil {
		t.Fatal(err)
	}
	var read junitReport
	decoder := xml.NewDecoder(&out)
	decoder.Strict = true
	if err := decoder.Decode(&read); err != nil {
		t.Fatal(err)
	}
	// All findings, and a test for the CRD without any.
	if want := len(report.Findings) + 1; read.Tests != want {
		t.Errorf("%d tests, want %d", read.Tests, want)
	}
	tests, failures := 0, 0
	names := map[[2]string]bool{}
	for _, suite := range read.Suites {
		failed, skipped := 0, 0
		for _, one := range suite.Cases {
			if one.Failure != nil {
				failed++
			}
			if one.Skipped != nil {
				skipped++
			}
			if key := [2]string{one.Class, one.Name}; names[key] {
				t.Errorf("there are two tests %q", key)
			} else {
				names[key] = true
			}
			if one.Class != suite.Name {
				t.Errorf("the test %s of %s has the class %s", one.Name, suite.Name, one.Class)
			}
		}
		if suite.Tests != len(suite.Cases) || suite.Failures != failed || suite.Skipped != skipped || suite.Errors != 0 {
			t.Errorf("%s: %+v, but %d failed and %d were skipped of %d", suite.Name, suite.junitCounts, failed, skipped, len(suite.Cases))
		}
		tests, failures = tests+suite.Tests, failures+suite.Failures
	}
	if read.Tests != tests || read.Failures != failures || failures != 5 {
		t.Errorf("%+v, but the suites have %d tests, %d failures", read.junitCounts, tests, failures)
	}
}

// TestJUnitOfACRDThatIsThereTwice says that it is no passing test as well.
func TestJUnitOfACRDThatIsThereTwice(t *testing.T) {
	t.Parallel()
	crds := []v1alpha1.CheckedCRD{{Name: "a"}, {Name: "b"}, {Name: "a"}}
	findings := []v1alpha1.Finding{{CRD: "a", Rule: "r", Severity: v1alpha1.SeverityError, Message: "m"}}
	cases := printers.JUnitCases(crds, findings, failing)
	if len(cases) != 2 || cases[0].Failure != "m" || cases[1].Name != "no findings" || cases[1].Suite != "b" {
		t.Errorf("%+v", cases)
	}
}

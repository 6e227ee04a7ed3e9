package printers

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// JUnitCase is one test of a suite: a finding, or that there is none.
type JUnitCase struct {
	// Suite is the CRD, Name the rule and the field that it is about.
	Suite, Name string
	// Failure is empty for what passed; Details are shown with it.
	Failure, Type, Details string
	// Skipped is why a finding does not count.
	Skipped string
	// File and Line are where it is.
	File string
	Line int
}

// The elements of a JUnit report, as GitLab, Jenkins and GitHub read it.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		ClassName string        `xml:"classname,attr"`
		Time      string        `xml:"time,attr"`
		File      string        `xml:"file,attr,omitempty"`
		Line      int           `xml:"line,attr,omitempty"`
		Skipped   *junitSkipped `xml:"skipped,omitempty"`
		Failure   *junitFailure `xml:"failure,omitempty"`
		SystemOut string        `xml:"system-out,omitempty"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnitCases returns the findings of CRDs as tests: those that count fail, the
// others pass and say what they found, and a CRD without findings is one test
// that passes.
func JUnitCases(crds []v1alpha1.CheckedCRD, findings []v1alpha1.Finding, counts func(v1alpha1.Severity) bool) []JUnitCase {
	of := map[string][]v1alpha1.Finding{}
	for _, f := range findings {
		of[f.CRD] = append(of[f.CRD], f)
	}
	var cases []JUnitCase
	done := map[string]bool{}
	for _, crd := range crds {
		if done[crd.Name] {
			continue // A CRD can be there twice: its findings are all told.
		}
		done[crd.Name] = true
		if len(of[crd.Name]) == 0 {
			cases = append(cases, JUnitCase{Suite: crd.Name, Name: "no findings"})
		}
		for _, f := range of[crd.Name] {
			cases = append(cases, junitFinding(f, counts(f.Severity)))
		}
	}
	return cases
}

func junitFinding(f v1alpha1.Finding, counts bool) JUnitCase {
	c := JUnitCase{Suite: f.CRD, Name: strings.TrimSpace(f.Rule + " " + f.Path), Type: string(f.Severity)}
	if l := f.Location; l != nil && l.File != "-" {
		c.File, c.Line = l.File, l.Line
	}
	c.Details = fmt.Sprintf("%s: %s: %s", place(f), f.Severity, f.Message)
	if f.Fix != "" {
		c.Details += "\nfix: " + f.Fix
	}
	switch {
	case f.Suppressed != nil:
		c.Skipped = "ignored"
		if f.Suppressed.Reason != "" {
			c.Skipped += ": " + f.Suppressed.Reason
		}
	case counts:
		c.Failure = f.Message
	}
	return c
}

// WriteJUnit writes tests as a JUnit report, a suite for each CRD. GitLab shows
// the class name as the suite, and drops a test that has the class and the name
// of another: so the class is the CRD, and names that come again are numbered.
func WriteJUnit(w io.Writer, name string, cases []JUnitCase) error {
	suites := junitSuites{Name: name, Suites: []junitSuite{}}
	seen := map[[2]string]int{}
	for _, c := range cases {
		if last := len(suites.Suites) - 1; last < 0 || suites.Suites[last].Name != xmlText(c.Suite) {
			suites.Suites = append(suites.Suites, junitSuite{Name: xmlText(c.Suite), Time: "0"})
		}
		suite := &suites.Suites[len(suites.Suites)-1]
		one := junitCase{Name: xmlText(c.Name), ClassName: suite.Name, Time: "0", File: xmlText(c.File), Line: c.Line}
		key := [2]string{one.ClassName, one.Name}
		if seen[key]++; seen[key] > 1 {
			one.Name = fmt.Sprintf("%s (%d)", one.Name, seen[key])
		}
		suite.Tests++
		suites.Tests++
		switch {
		case c.Skipped != "":
			suite.Skipped++
			one.Skipped = &junitSkipped{Message: xmlText(c.Skipped)}
		case c.Failure != "":
			suite.Failures++
			suites.Failures++
			one.Failure = &junitFailure{Message: xmlText(c.Failure), Type: c.Type, Text: xmlText(c.Details)}
		default:
			one.SystemOut = xmlText(c.Details)
		}
		suite.Cases = append(suite.Cases, one)
	}
	text, err := xml.MarshalIndent(suites, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the JUnit report: %w", err)
	}
	return written(io.WriteString(w, xml.Header+string(text)+"\n"))
}

// xmlText escapes each line: XML cannot hold control characters at all.
func xmlText(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Escape(lines[i])
	}
	return strings.Join(lines, "\n")
}

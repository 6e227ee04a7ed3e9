package printers_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// sarif is what of SARIF 2.1.0 is used. Decoding knows no other fields: what is
// added must be looked up in the standard and added here.
type sarif struct {
	Schema  string `json:"$schema"`
	Version string `json:"version"`
	Runs    []struct {
		Tool struct {
			Driver struct {
				Name            string `json:"name"`
				Version         string `json:"version"`
				SemanticVersion string `json:"semanticVersion"`
				InformationURI  string `json:"informationUri"`
				Rules           []struct {
					ID               string            `json:"id"`
					ShortDescription map[string]string `json:"shortDescription"`
					FullDescription  map[string]string `json:"fullDescription"`
					Help             map[string]string `json:"help"`
					HelpURI          string            `json:"helpUri"`
					Default          struct {
						Level string `json:"level"`
					} `json:"defaultConfiguration"`
				} `json:"rules"`
			} `json:"driver"`
		} `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	} `json:"runs"`
}

type sarifResult struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    *int              `json:"ruleIndex"`
	Level        string            `json:"level"`
	Message      map[string]string `json:"message"`
	Fingerprints map[string]string `json:"partialFingerprints"`
	Locations    []struct {
		Physical *struct {
			Artifact struct {
				URI       string `json:"uri"`
				URIBaseID string `json:"uriBaseId"`
			} `json:"artifactLocation"`
			Region *struct {
				StartLine   int  `json:"startLine"`
				StartColumn *int `json:"startColumn"`
			} `json:"region"`
		} `json:"physicalLocation"`
		Logical []struct {
			Name string `json:"fullyQualifiedName"`
			Kind string `json:"kind"`
		} `json:"logicalLocations"`
	} `json:"locations"`
	Suppressions []struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	} `json:"suppressions"`
}

// TestSARIF checks what the standard asks of a log, and GitHub of a result.
func TestSARIF(t *testing.T) {
	t.Parallel()
	report := read[v1alpha1.ValidationReport](t, "findings.yaml")
	var out bytes.Buffer
	tool := printers.SARIFTool{Name: "kubectl-crdver", Version: "v1.2.3", URI: "https://example.com", HelpURI: "https://example.com#rules", Rules: rules()}
	if err := printers.WriteSARIF(&out, tool, report.Findings); err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(&out)
	decoder.DisallowUnknownFields()
	var log sarif
	if err := decoder.Decode(&log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || !strings.HasSuffix(log.Schema, "sarif-2.1.0.json") || len(log.Runs) != 1 || log.Runs[0].ColumnKind != "unicodeCodePoints" {
		t.Errorf("%+v", log)
	}
	driver := log.Runs[0].Tool.Driver
	if driver.Name != "kubectl-crdver" || driver.Version != "1.2.3" || driver.SemanticVersion != "1.2.3" {
		t.Errorf("%+v", driver)
	}
	levels := []string{"none", "note", "warning", "error"}
	for _, rule := range driver.Rules {
		if rule.ID == "" || rule.HelpURI == "" || rule.Help["text"] == "" || rule.Help["markdown"] == "" || rule.ShortDescription["text"] == "" ||
			rule.FullDescription["text"] == "" || !slices.Contains(levels, rule.Default.Level) {
			t.Errorf("%+v", rule)
		}
	}
	if len(log.Runs[0].Results) != len(report.Findings) {
		t.Fatalf("%d results", len(log.Runs[0].Results))
	}
	fingerprints := map[string]bool{}
	for i, result := range log.Runs[0].Results {
		if index := result.RuleIndex; index != nil && driver.Rules[*index].ID != result.RuleID || index == nil && result.RuleID != "not-a-rule-of-the-list" {
			t.Errorf("the rule %s has the index %v", result.RuleID, index)
		}
		if !slices.Contains(levels, result.Level) || result.Message["text"] == "" || len(result.Locations) != 1 {
			t.Errorf("%+v", result)
		}
		for _, print := range result.Fingerprints {
			if fingerprints[print] {
				t.Errorf("%s has the fingerprint of another", result.Message["text"])
			}
			fingerprints[print] = true
		}
		if strings.Contains(result.Message["text"], "](") {
			t.Errorf("untrusted text is a link: %s", result.Message["text"])
		}
		if suppressed := report.Findings[i].Suppressed != nil; suppressed != (len(result.Suppressions) == 1 && result.Suppressions[0].Kind == "inSource") {
			t.Errorf("suppressed %t: %+v", suppressed, result.Suppressions)
		}
		checkSARIFPlace(t, report.Findings[i], result)
	}
}

func checkSARIFPlace(t *testing.T, finding v1alpha1.Finding, result sarifResult) {
	t.Helper()
	place := result.Locations[0]
	if len(place.Logical) != 1 || !strings.Contains(place.Logical[0].Name, finding.CRD[:4]) {
		t.Errorf("%+v", place.Logical)
	}
	if finding.Location == nil || finding.Location.File == "-" {
		if place.Physical != nil {
			t.Errorf("%s has no file, but %+v", finding.CRD, place.Physical)
		}
		return
	}
	artifact := place.Physical.Artifact
	uri, err := url.Parse(artifact.URI)
	if err != nil || uri.IsAbs() != (artifact.URIBaseID == "") {
		t.Errorf("%q relative to %q: %v", artifact.URI, artifact.URIBaseID, err)
	}
	if !uri.IsAbs() && strings.TrimPrefix(uri.Path, "./") != finding.Location.File {
		t.Errorf("%q is not %q", uri.Path, finding.Location.File)
	}
	if region := place.Physical.Region; region.StartLine != finding.Location.Line || region.StartColumn != nil && *region.StartColumn != finding.Location.Column {
		t.Errorf("%+v of %+v", region, finding.Location)
	}
}

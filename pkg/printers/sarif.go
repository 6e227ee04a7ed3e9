package printers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// The parts of SARIF 2.1.0 that findings need.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name            string      `json:"name"`
		Version         string      `json:"version,omitempty"`
		SemanticVersion string      `json:"semanticVersion,omitempty"`
		InformationURI  string      `json:"informationUri"`
		Rules           []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string             `json:"id"`
		ShortDescription     sarifText          `json:"shortDescription"`
		FullDescription      sarifText          `json:"fullDescription"`
		Help                 sarifText          `json:"help"`
		HelpURI              string             `json:"helpUri"`
		DefaultConfiguration sarifConfiguration `json:"defaultConfiguration"`
	}
	sarifText struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown,omitempty"`
	}
	sarifConfiguration struct {
		Level string `json:"level"`
	}
	sarifResult struct {
		RuleID              string             `json:"ruleId"`
		RuleIndex           *int               `json:"ruleIndex,omitempty"`
		Level               string             `json:"level"`
		Message             sarifText          `json:"message"`
		Locations           []sarifLocation    `json:"locations"`
		PartialFingerprints map[string]string  `json:"partialFingerprints"`
		Suppressions        []sarifSuppression `json:"suppressions,omitempty"`
	}
	sarifLocation struct {
		PhysicalLocation *sarifPhysical `json:"physicalLocation,omitempty"`
		LogicalLocations []sarifLogical `json:"logicalLocations"`
	}
	sarifPhysical struct {
		ArtifactLocation sarifArtifact `json:"artifactLocation"`
		Region           *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI       string `json:"uri"`
		URIBaseID string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
		Kind               string `json:"kind"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification,omitempty"`
	}
)

// SARIFTool is what made a report. URI is its page, HelpURI that of its rules.
type SARIFTool struct {
	Name, Version, URI, HelpURI string
	Rules                       []v1alpha1.Rule
}

// WriteSARIF writes findings as SARIF 2.1.0. Paths are relative to the root of
// the sources (%SRCROOT%) unless they are absolute. A finding of a live CRD has a
// logical location only.
func WriteSARIF(w io.Writer, tool SARIFTool, findings []v1alpha1.Finding) error {
	version := strings.TrimPrefix(tool.Version, "v") // A version of SARIF starts with a number.
	run := sarifRun{
		Tool: sarifTool{Driver: sarifDriver{
			Name: tool.Name, Version: version, SemanticVersion: version,
			InformationURI: tool.URI, Rules: []sarifRule{},
		}},
		ColumnKind: "unicodeCodePoints", Results: []sarifResult{},
	}
	index := map[string]int{}
	for i, rule := range tool.Rules {
		index[rule.ID] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: rule.ID, ShortDescription: sarifText{Text: rule.Summary}, FullDescription: sarifText{Text: rule.Why},
			Help:                 sarifText{Text: rule.Fix, Markdown: fmt.Sprintf("**Why:** %s\n\n**Fix:** %s", rule.Why, rule.Fix)},
			HelpURI:              tool.HelpURI,
			DefaultConfiguration: sarifConfiguration{Level: sarifLevel(rule.Severity)},
		})
	}
	seen := map[string]int{}
	for _, f := range findings {
		result := sarifFinding(f, seen)
		if known, ok := index[f.Rule]; ok {
			result.RuleIndex = &known
		}
		run.Results = append(run.Results, result)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	log := sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
	if err := encoder.Encode(log); err != nil {
		return fmt.Errorf("writing SARIF: %w", err)
	}
	return nil
}

func sarifFinding(f v1alpha1.Finding, seen map[string]int) sarifResult {
	message := f.CRD + ": " + f.Message
	if f.Fix != "" {
		message += ". " + f.Fix
	}
	name := f.CRD
	if f.Path != "" {
		name += "/" + f.Path
	}
	location := sarifLocation{LogicalLocations: []sarifLogical{{FullyQualifiedName: xmlText(name), Kind: "member"}}}
	if l := f.Location; l != nil && l.File != "-" {
		location.PhysicalLocation = &sarifPhysical{ArtifactLocation: artifact(l.File)}
		if l.Line > 0 {
			location.PhysicalLocation.Region = &sarifRegion{StartLine: l.Line, StartColumn: l.Column}
		}
	}
	result := sarifResult{
		RuleID: f.Rule, Level: sarifLevel(f.Severity), Message: sarifText{Text: sarifMessage(message)},
		Locations: []sarifLocation{location}, PartialFingerprints: map[string]string{"crdver/v1": fingerprint(f, seen)},
	}
	if f.Suppressed != nil {
		result.Suppressions = []sarifSuppression{{Kind: "inSource", Justification: sarifMessage(f.Suppressed.Reason)}}
	}
	return result
}

// fingerprint tells findings apart without their lines, which move.
func fingerprint(f v1alpha1.Finding, seen map[string]int) string {
	text := strings.Join([]string{f.Rule, f.CRD, f.Version, f.Message}, "\x00")
	seen[text]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", text, seen[text]))
	return hex.EncodeToString(sum[:16])
}

func sarifLevel(severity v1alpha1.Severity) string {
	if severity == v1alpha1.SeverityInfo {
		return "note"
	}
	return string(severity)
}

// sarifMessage returns untrusted text as a message. In SARIF "[text](target)" is
// a link even in plain text, and there is no way to write it that is none.
func sarifMessage(text string) string {
	return strings.ReplaceAll(xmlText(text), "](", "] (")
}

// artifact returns a file as a URI.
func artifact(file string) sarifArtifact {
	if from, err := url.Parse(file); err == nil && from.Host != "" {
		// What browsers take in a query and RFC 3986 does not.
		from.RawQuery = strings.NewReplacer("[", "%5B", "]", "%5D").Replace(from.RawQuery)
		return sarifArtifact{URI: from.String()}
	}
	path := filepath.ToSlash(filepath.Clean(file))
	if filepath.IsAbs(file) {
		return sarifArtifact{URI: (&url.URL{Scheme: "file", Path: path}).String()}
	}
	// String writes "./" before a path that would be read as a scheme.
	return sarifArtifact{URI: (&url.URL{Path: path}).String(), URIBaseID: "%SRCROOT%"}
}

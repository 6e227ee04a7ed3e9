package main

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// manifest is the part of a krew manifest that a release has to do with.
type manifest struct {
	Spec struct {
		Version   string             `json:"version"`
		Homepage  string             `json:"homepage"`
		Platforms []manifestPlatform `json:"platforms"`
	} `json:"spec"`
}

type manifestPlatform struct {
	Selector struct {
		MatchLabels struct {
			OS   string `json:"os"`
			Arch string `json:"arch"`
		} `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

func (p manifestPlatform) platform() platform {
	return platform{p.Selector.MatchLabels.OS, p.Selector.MatchLabels.Arch}
}

func parseManifest(text []byte) (*manifest, error) {
	var m manifest
	if err := yaml.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("parsing the manifest: %w", err)
	}
	if len(m.Spec.Platforms) == 0 {
		return nil, errors.New("the manifest has no platforms")
	}
	return &m, nil
}

func (m *manifest) platforms() []platform {
	var all []platform
	for _, p := range m.Spec.Platforms {
		all = append(all, p.platform())
	}
	return all
}

// choose returns the platforms with the given names in the manifest's order;
// without names, all.
func (m *manifest) choose(names []string) ([]platform, error) {
	if len(names) == 0 {
		return m.platforms(), nil
	}
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var chosen []platform
	for _, p := range m.platforms() {
		if wanted[p.String()] {
			chosen = append(chosen, p)
			delete(wanted, p.String())
		}
	}
	for name := range wanted {
		return nil, fmt.Errorf("-platforms: %q is not in the manifest", name)
	}
	return chosen, nil
}

// platformStart is how each platform begins in the manifest's text.
const platformStart = "  - selector:\n"

// render returns the manifest's text for a release: the version, and for each
// platform that was built its address and checksum. Platforms that were not
// built are left out. The rest of the text, comments too, stays as it is.
func render(text []byte, version string, built map[platform]artifact) ([]byte, error) {
	m, err := parseManifest(text)
	if err != nil {
		return nil, err
	}
	blocks := strings.Split(string(text), platformStart)
	if len(blocks) != len(m.Spec.Platforms)+1 {
		return nil, fmt.Errorf("the manifest has %d platforms, but %d of them begin with %q", len(m.Spec.Platforms), len(blocks)-1, platformStart)
	}
	var out strings.Builder
	out.WriteString(setField(blocks[0], "  version: ", version))
	for i, p := range m.platforms() {
		a, ok := built[p]
		if !ok {
			continue
		}
		block := setField(blocks[i+1], "    uri: ", address(m, version, a))
		out.WriteString(platformStart + setField(block, "    sha256: ", `"`+a.sha256+`"`))
	}
	rendered := []byte(out.String())
	return rendered, check(rendered, version, built)
}

// address is where a release is downloaded from.
func address(m *manifest, version string, a artifact) string {
	return fmt.Sprintf("%s/releases/download/%s/%s", m.Spec.Homepage, version, a.name)
}

// setField sets the value of the line that starts with key.
func setField(text, key, value string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, key) {
			lines[i] = key + value + "\n"
		}
	}
	return strings.Join(lines, "")
}

// check makes sure that the text was really changed as intended.
func check(rendered []byte, version string, built map[platform]artifact) error {
	m, err := parseManifest(rendered)
	if err != nil {
		return err
	}
	if m.Spec.Version != version || len(m.Spec.Platforms) != len(built) {
		return fmt.Errorf("the manifest came out as version %q with %d platforms", m.Spec.Version, len(m.Spec.Platforms))
	}
	for _, p := range m.Spec.Platforms {
		a := built[p.platform()]
		if p.SHA256 != a.sha256 || p.URI != address(m, version, a) || p.Bin != p.platform().bin() {
			return fmt.Errorf("the manifest came out wrong for %s", p.platform())
		}
	}
	return nil
}

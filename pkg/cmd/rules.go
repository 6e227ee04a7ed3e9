package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/preflight"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// configFile is the configuration that is read when it is in the working
// directory and no other is named.
const configFile = ".crdver.yaml"

// maxConfig bounds the configuration file.
const maxConfig = 1 << 20

// allRules returns the rules of validate and preflight, by which findings,
// flags, the configuration and annotations can name them.
func allRules() []validate.Rule { return slices.Concat(validate.Rules(), preflight.Rules()) }

// ruleFlags choose the rules and what their findings do to the exit code.
type ruleFlags struct {
	rules    []string
	skip     []string
	severity map[string]string
	failOn   string
	config   string
}

func (o *ruleFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringSliceVar(&o.rules, "rules", nil, "Apply only these rules")
	flags.StringSliceVar(&o.skip, "skip", nil, "Do not apply these rules")
	flags.StringToStringVar(&o.severity, "severity", nil, "Change the severity of a rule's findings, as in RULE=warning; error, warning or info")
	flags.StringVar(&o.failOn, "fail-on", string(v1alpha1.SeverityError), "Exit with code 2 if there is a finding of this severity or worse: error, warning or info")
	flags.StringVar(&o.config, "config", "", "File with the same settings; "+configFile+" in the working directory if it is there")
	completeFlag(command, "fail-on", string(v1alpha1.SeverityError), string(v1alpha1.SeverityWarning), string(v1alpha1.SeverityInfo))
	ids := ruleIDs()
	completeFlag(command, "rules", ids...)
	completeFlag(command, "skip", ids...)
	// The only error is about a flag that does not exist.
	_ = command.MarkFlagFilename("config", "yaml", "yml")
}

func ruleIDs() []string {
	var ids []string
	for _, rule := range allRules() {
		ids = append(ids, rule.ID)
	}
	slices.Sort(ids)
	return ids
}

// ruleSettings are the flags and the configuration file, put together and
// checked.
type ruleSettings struct {
	// rules are those to apply, of both commands.
	rules  []validate.Rule
	failOn v1alpha1.Severity
}

// of returns the rules of one command.
func (s ruleSettings) of(command string) []validate.Rule {
	var rules []validate.Rule
	for _, rule := range s.rules {
		if rule.Document().Command == command {
			rules = append(rules, rule)
		}
	}
	return rules
}

// counts reports whether a finding of a severity makes the exit code 2.
func (s ruleSettings) counts(severity v1alpha1.Severity) bool {
	return validate.AtLeast(severity, s.failOn)
}

// settings reads the configuration file and puts the flags on top: --rules and
// --fail-on replace what it says, --skip and --severity add to it.
func (o *ruleFlags) settings(command *cobra.Command) (ruleSettings, error) {
	config, err := o.readConfig(command)
	if err != nil {
		return ruleSettings{}, err
	}
	settings := validate.Settings{Only: config.Rules, Skip: slices.Concat(config.Skip, o.skip), Severity: config.Severity}
	if command.Flags().Changed("rules") {
		settings.Only = o.rules
	}
	if settings.Severity == nil {
		settings.Severity = map[string]v1alpha1.Severity{}
	}
	for _, id := range slices.Sorted(maps.Keys(o.severity)) {
		severity, err := validate.ParseSeverity(o.severity[id])
		if err != nil {
			return ruleSettings{}, UsageErrorf(command, "--severity %s=%s: %w", id, o.severity[id], err)
		}
		settings.Severity[id] = severity
	}
	result := ruleSettings{failOn: config.FailOn}
	if result.failOn == "" || command.Flags().Changed("fail-on") {
		if result.failOn, err = validate.ParseSeverity(o.failOn); err != nil {
			return ruleSettings{}, UsageErrorf(command, "--fail-on: %w", err)
		}
	}
	if result.rules, err = validate.Select(allRules(), settings); err != nil {
		return ruleSettings{}, UsageError(command, err)
	}
	return result, nil
}

// readConfig reads the configuration file; without one all is as the flags say.
func (o *ruleFlags) readConfig(command *cobra.Command) (v1alpha1.ValidationConfig, error) {
	var config v1alpha1.ValidationConfig
	name, named := o.config, command.Flags().Changed("config")
	if !named {
		name = configFile
	}
	if name == "" {
		return config, UsageErrorf(command, "--config is empty: name a file")
	}
	info, err := os.Stat(name)
	if _, linkErr := os.Lstat(name); !named && errors.Is(err, fs.ErrNotExist) && errors.Is(linkErr, fs.ErrNotExist) {
		return config, nil
	}
	switch {
	case err != nil:
		return config, fmt.Errorf("reading the configuration: %w", err)
	case !info.Mode().IsRegular():
		return config, fmt.Errorf("the configuration %s is not a file", name)
	case info.Size() > maxConfig:
		return config, fmt.Errorf("the configuration %s is larger than %d MiB", name, maxConfig>>20)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return config, fmt.Errorf("reading the configuration: %w", err)
	}
	if !utf8.Valid(text) {
		return config, fmt.Errorf("the configuration %s is not a text in UTF-8", name)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return config, fmt.Errorf("the configuration %s is empty", name)
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return config, fmt.Errorf("the configuration %s: %s", name, strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "))
	}
	if config.APIVersion != "" || config.Kind != "" {
		if want := typeMeta(v1alpha1.KindValidationConfig); config.TypeMeta != want {
			return config, fmt.Errorf("the configuration %s: it is %s %s, not %s %s", name, config.APIVersion, config.Kind, want.APIVersion, want.Kind)
		}
	}
	if _, err := validate.Select(allRules(), validate.Settings{Only: config.Rules, Skip: config.Skip, Severity: config.Severity}); err != nil {
		return config, fmt.Errorf("the configuration %s: %w", name, err)
	}
	for id, severity := range config.Severity {
		if config.Severity[id], err = validate.ParseSeverity(string(severity)); err != nil {
			return config, fmt.Errorf("the configuration %s: severity of %s: %w", name, id, err)
		}
	}
	if config.FailOn != "" {
		if config.FailOn, err = validate.ParseSeverity(string(config.FailOn)); err != nil {
			return config, fmt.Errorf("the configuration %s: failOn: %w", name, err)
		}
	}
	return config, nil
}

// ruleDocuments returns the rules as they are printed, by id.
func ruleDocuments(rules []validate.Rule) []v1alpha1.Rule {
	documents := make([]v1alpha1.Rule, 0, len(rules))
	for _, rule := range rules {
		documents = append(documents, rule.Document())
	}
	slices.SortFunc(documents, func(a, b v1alpha1.Rule) int { return strings.Compare(a.ID, b.ID) })
	return documents
}

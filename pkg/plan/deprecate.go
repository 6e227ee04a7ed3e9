package plan

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
)

// maxWarning is the longest deprecationWarning that the server takes, in bytes
// although its message says characters (validateDeprecationWarning).
const maxWarning = 256

// deprecate plans: VERSION deprecated, with a warning that names it and its
// replacement; or, with --undo, neither.
func (b *builder) deprecate() error {
	version := b.intent.Version
	v := b.state.Version(version)
	if v == nil {
		return b.unknownVersion(version)
	}
	if b.intent.Undo {
		b.undeprecate(version)
		return nil
	}
	warning, err := b.warning(version, b.intent.Replacement)
	if err != nil {
		return err
	}
	if v.Deprecated && v.Warning != "" && b.intent.Message == "" && b.intent.Replacement == "" {
		// Already deprecated with somebody's own words: not ours to replace unasked.
		return nil
	}
	if b.state.Replacement(version) == "" && b.intent.Message == "" {
		b.warn("no other version is served and not deprecated: the warning can name no replacement")
	}
	b.deprecateStep(v1alpha1.ActionDeprecate, version, warning)
	return nil
}

// gvk names a version as the server's own warnings do.
func (b *builder) gvk(version string) string {
	return fmt.Sprintf("%s/%s %s", b.state.CRD.Spec.Group, version, b.state.CRD.Spec.Names.Kind)
}

// warning returns the deprecationWarning of a version; replacement may be empty.
func (b *builder) warning(version, replacement string) (string, error) {
	if message := b.intent.Message; message != "" {
		return message, b.checkMessage(message, version)
	}
	if replacement == "" {
		replacement = b.state.Replacement(version)
	} else if err := b.checkReplacement(version, replacement); err != nil {
		return "", err
	}
	text := b.gvk(version) + " is deprecated"
	if replacement != "" {
		text += "; use " + b.gvk(replacement)
	}
	if len(text) > maxWarning {
		// Without a text of its own the server makes up its default, which may be longer.
		return "", nil
	}
	return text, nil
}

// checkReplacement refuses a replacement that clients could not move to.
func (b *builder) checkReplacement(version, replacement string) error {
	entry := b.after.Version(replacement)
	switch {
	case entry == nil:
		return b.unknownVersion(replacement)
	case replacement == version:
		return inputErrorf("--replacement %s is the version that is to be deprecated", replacement)
	case !entry.Served:
		return inputErrorf("--replacement %s is not served; serve it first: %s", replacement, b.command("restore", replacement))
	case entry.Deprecated:
		return inputErrorf("--replacement %s is itself deprecated", replacement)
	}
	return nil
}

// checkMessage applies the server's rules (validation-rules 3.2 to 3.4) and
// ours: a warning that names neither version helps nobody.
func (b *builder) checkMessage(message, version string) error {
	if len(message) > maxWarning {
		return inputErrorf("--message is %d bytes long; the server takes at most %d", len(message), maxWarning)
	}
	if !utf8.ValidString(message) {
		return inputErrorf("--message is not valid UTF-8")
	}
	for i, r := range message {
		if !unicode.IsPrint(r) {
			return inputErrorf("--message has a character at byte %d that cannot be printed; the server refuses it", i)
		}
	}
	replacement := b.intent.Replacement
	if replacement == "" {
		replacement = b.state.Replacement(version)
	}
	versions, names := []string{version}, []string{b.gvk(version)}
	if replacement != "" {
		versions, names = append(versions, replacement), append(names, b.gvk(replacement))
	}
	for _, v := range versions {
		if hasWord(message, b.state.CRD.Spec.Group+"/"+v) && hasWord(message, b.state.CRD.Spec.Names.Kind) {
			return nil
		}
	}
	return inputErrorf("--message names neither %s: clients would not know what is meant", strings.Join(quoteAll(names), " nor "))
}

// hasWord reports whether a text has a name as a whole: v1 is not in v1beta1.
func hasWord(text, name string) bool {
	inName := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for rest := text; ; {
		at := strings.Index(rest, name)
		if at < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(rest[:at])
		after, _ := utf8.DecodeRuneInString(rest[at+len(name):])
		if !inName(before) && !inName(after) && before != '.' && before != '-' {
			return true
		}
		rest = rest[at+1:]
	}
}

func quoteAll(names []string) []string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return quoted
}

// deprecateStep sets deprecated and deprecationWarning.
func (b *builder) deprecateStep(action v1alpha1.Action, version, warning string) {
	i, entry := b.index(version)
	undo := fmt.Sprintf("kubectl crdver deprecate %s --undo %s", version, b.state.CRD.Name)
	switch {
	case entry.Deprecated && entry.DeprecationWarning != nil:
		undo = fmt.Sprintf("kubectl crdver deprecate %s --message %q %s", version, *entry.DeprecationWarning, b.state.CRD.Name)
	case entry.Deprecated:
		undo = "" // The server's own text comes back only with an edit of the CRD.
	}
	operations, changes := setDeprecated(i, entry, true, warning)
	if len(changes) == 0 {
		return
	}
	if to := b.state.Replacement(version); to != "" && b.intent.Message == "" && b.intent.Replacement == "" && apiversion.Compare(version, to) > 0 {
		b.warn("%s comes before its replacement %s in priority: are you sure that clients should move to %s?", version, to, to)
	}
	step := v1alpha1.Step{
		Action:     action,
		Version:    version,
		Title:      fmt.Sprintf("deprecate %s", version),
		Why:        "clients of this version get a Warning header with each answer, and the server counts them",
		Patch:      jsonPatch("", operations...),
		Changes:    changes,
		Verify:     []v1alpha1.Check{{ID: "deprecated", Description: "the CRD has the flag and the warning"}},
		Reversible: true,
		Undo:       undo,
	}
	if entry.Served {
		step.Verify = append(step.Verify, v1alpha1.Check{
			ID: "warning", Description: "one request at this version gets the warning",
		})
	}
	b.add(step)
}

// undeprecate takes a deprecation back.
func (b *builder) undeprecate(version string) {
	i, entry := b.index(version)
	undo := b.command("deprecate", version)
	if entry.DeprecationWarning != nil {
		undo = fmt.Sprintf("kubectl crdver deprecate %s --message %q %s", version, *entry.DeprecationWarning, b.state.CRD.Name)
	}
	operations, changes := setDeprecated(i, entry, false, "")
	if len(changes) == 0 {
		return
	}
	b.add(v1alpha1.Step{
		Action:     v1alpha1.ActionUndeprecate,
		Version:    version,
		Title:      fmt.Sprintf("take the deprecation of %s back", version),
		Why:        "asked for with --undo",
		Patch:      jsonPatch("", operations...),
		Changes:    changes,
		Verify:     []v1alpha1.Check{{ID: "not-deprecated", Description: "requests at this version get no warning"}},
		Reversible: true,
		Undo:       undo,
	})
}

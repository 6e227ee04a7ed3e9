package printers

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// WriteGitHub writes the findings as workflow commands of GitHub Actions, which
// shows them beside the lines of a pull request.
func WriteGitHub(w io.Writer, findings []v1alpha1.Finding) error {
	var out strings.Builder
	for _, f := range findings {
		if f.Suppressed != nil {
			continue
		}
		command := map[v1alpha1.Severity]string{
			v1alpha1.SeverityError: "error", v1alpha1.SeverityWarning: "warning", v1alpha1.SeverityInfo: "notice",
		}[f.Severity]
		var properties []string
		add := func(name, value string) { properties = append(properties, name+"="+githubProperty(value)) }
		if l := f.Location; l != nil && l.File != "-" {
			add("file", l.File)
			if l.Line > 0 {
				add("line", fmt.Sprint(l.Line))
			}
			if l.Column > 0 {
				add("col", fmt.Sprint(l.Column))
			}
		}
		add("title", f.Rule)
		message := joinPath(f.CRD, f.Path) + ": " + f.Message
		if f.Fix != "" {
			message += "\n" + f.Fix
		}
		fmt.Fprintf(&out, "::%s %s::%s\n", cmp.Or(command, "notice"), strings.Join(properties, ","), githubData(message))
	}
	return written(io.WriteString(w, out.String()))
}

// githubData escapes a message as the runner reads it; whatever else a terminal
// would obey is escaped, too, because logs are shown on terminals.
func githubData(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Escape(strings.TrimSuffix(lines[i], "\r"))
	}
	text = strings.ReplaceAll(strings.Join(lines, "\n"), "%", "%25")
	return strings.ReplaceAll(text, "\n", "%0A")
}

func githubProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(githubData(text))
}

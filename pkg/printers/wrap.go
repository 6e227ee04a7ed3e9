package printers

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/mitchellh/go-wordwrap"
	"k8s.io/kubectl/pkg/util/term"
)

// TerminalWidth returns the number of columns of the terminal that w is, and 0
// where it is none.
func TerminalWidth(w io.Writer) int {
	size := term.TTY{Out: w}.GetSize()
	if size == nil {
		return 0
	}
	return int(size.Width)
}

// Wrap breaks a text into lines of a width, each of them indented.
func Wrap(text, indent string, width int) string {
	wrapped := wordwrap.WrapString(text, uint(max(width-len(indent), 1))) //nolint:gosec // At least 1.
	return indent + strings.ReplaceAll(wrapped, "\n", "\n"+indent)
}

// textWriter collects lines. Everything that is not ours passes through Escape.
type textWriter struct {
	strings.Builder

	// width is that of the terminal, which lines are broken to fit; 0 leaves them as
	// they are.
	width int
}

func (t *textWriter) line(indent int, format string, args ...any) {
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = Escape(s)
		}
	}
	t.WriteString(hang(strings.Repeat(" ", indent)+fmt.Sprintf(format, args...), t.width))
	t.WriteByte('\n')
}

// hang breaks a line to fit a width. What follows the first line is indented as what
// comes after the label of the line, such as "why     " or "[2/6] ". A command is not
// broken: the half of it that is pasted into a shell would be another one.
func hang(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	label := regexp.MustCompile(`^(\[\d+/\d+\] |\d+\. |[-+~] |\S+ {2,})`).FindString(text)
	follow := max(indent+len(label), indent+2)
	if follow > width/2 {
		follow = indent + 2
	}
	whole := regexp.MustCompile(`kubectl (?:'[^']*'|[^',;()]|[,;]\S)+`).ReplaceAllStringFunc(text[len(label):], func(command string) string {
		return strings.ReplaceAll(command, " ", unbroken)
	})
	wrapped := Wrap(whole, strings.Repeat(" ", follow), width)
	return line[:indent+len(label)] + strings.ReplaceAll(strings.TrimLeft(wrapped, " "), unbroken, " ")
}

// unbroken stands for a space where a line is not broken. It is of no language.
const unbroken = "\ue000"

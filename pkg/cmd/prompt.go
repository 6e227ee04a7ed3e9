package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	cliprinters "k8s.io/cli-runtime/pkg/printers"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// ask asks whether the plans may be carried out. It asks nothing when nothing
// would change, and refuses where nobody is there to answer (rule 2).
func (c *change) ask(ctx context.Context, plans []v1alpha1.Plan) error {
	if todo(plans) == 0 {
		return blocked(plans)
	}
	if c.flags.yes {
		return nil
	}
	if !cliprinters.IsTerminal(c.In) {
		return Refused(errors.New("there is no terminal to ask on: nothing was changed; pass --yes to go on without asking"))
	}
	target := plans[0].Target.Cluster
	question := fmt.Sprintf("\nDo this on %s", printers.Escape(target.Server))
	if target.Context != "" {
		question += fmt.Sprintf(" (context %s)", printers.Escape(target.Context))
	}
	if n := todo(plans); n < len(plans) {
		question += fmt.Sprintf(", for %d of %d CRDs", n, len(plans))
	}
	answer, err := c.question(ctx, question+"? [y/N] ")
	if err != nil {
		return err
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		return nil
	}
	return Refused(errors.New("declined: nothing was changed"))
}

// confirmStep asks again before a step that cannot be undone; the answer must
// be the word yes.
func (c *change) confirmStep(plans []v1alpha1.Plan) func(context.Context, v1alpha1.Step) (bool, error) {
	if c.flags.yes || todo(plans) == 0 {
		return nil
	}
	return func(ctx context.Context, step v1alpha1.Step) (bool, error) {
		answer, err := c.question(ctx, fmt.Sprintf("\n%s: this cannot be undone. Type yes to go on: ", printers.Escape(step.Title)))
		return answer == "yes", err
	}
}

// question reads one line. The reader is left behind when the context ends:
// nothing else reads from the terminal then.
func (c *change) question(ctx context.Context, text string) (string, error) {
	c.tell("%s", text)
	type line struct {
		text string
		err  error
	}
	answers := make(chan line, 1)
	go func() {
		text, err := readLine(c.In)
		answers <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		c.tell("\n")
		return "", fmt.Errorf("waiting for an answer (nothing was changed after the question): %w", context.Cause(ctx))
	case answer := <-answers:
		if answer.err != nil && !errors.Is(answer.err, io.EOF) {
			return "", fmt.Errorf("reading the answer: %w", answer.err)
		}
		return strings.TrimSpace(answer.text), nil
	}
}

// readLine reads byte by byte: what follows the line belongs to the next question.
func readLine(r io.Reader) (string, error) {
	var line []byte
	single := bufio.NewReaderSize(onlyOne{r}, 16)
	for {
		b, err := single.ReadByte()
		if err != nil || b == '\n' {
			return string(line), err
		}
		line = append(line, b)
	}
}

// onlyOne reads one byte at a time.
type onlyOne struct{ io.Reader }

func (o onlyOne) Read(p []byte) (int, error) {
	if len(p) > 1 {
		p = p[:1]
	}
	return o.Reader.Read(p) //nolint:wrapcheck // io.EOF has to stay what it is
}

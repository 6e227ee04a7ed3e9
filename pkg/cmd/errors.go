package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"
	"syscall"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// maxErrorLength bounds what one error may print: its text may come from a
// server or a file.
const maxErrorLength = 4096

// maxDoing is how many parts of what was being done when the command was interrupted
// are worth saying: the CRD, the step, and what it did just then.
const maxDoing = 3

// PrintError prints err once, as one line that starts with "error: ", and for
// a usage error a second line that names the help. It prints nothing for nil
// and for an ExitError that holds no error.
func PrintError(w io.Writer, err error) {
	if err == nil || isSilent(err) || outputClosed(err) {
		return
	}
	message := strings.TrimPrefix(oneLine(sentence(err)), "error: ")
	// There is nowhere left to report a failure of writing to stderr.
	_, _ = fmt.Fprintf(w, "error: %s\n", message)

	var usage *usageError
	if errors.As(err, &usage) {
		_, _ = fmt.Fprintf(w, "See '%s --help' for usage.\n", usage.commandPath)
	}
}

// outputClosed reports whether an output, not a connection, was closed by whoever
// read it, and has seen enough ("| head").
func outputClosed(err error) bool {
	var file *fs.PathError
	return errors.As(err, &file) && errors.Is(file, syscall.EPIPE)
}

// isSilent reports whether err carries only an exit code.
func isSilent(err error) bool {
	var exit *ExitError
	return errors.As(err, &exit) && exit.Err == nil
}

// sentence returns err's message with the part that an API server or the
// network wrote put in a reader's words. What wraps that part is kept.
func sentence(err error) string {
	code := ExitCode(err)
	message := err.Error()
	if code == ExitInterrupted || code == ExitTimeout {
		message = cluster.Brief(err, maxDoing)
	}
	cause, words := translate(err)
	if cause != "" && strings.Contains(message, cause) {
		message = strings.Replace(message, cause, words, 1)
	}
	switch code {
	case ExitInterrupted:
		message = strings.ReplaceAll(message, context.Canceled.Error(), "interrupted")
	case ExitTimeout:
		message = strings.ReplaceAll(message, context.DeadlineExceeded.Error(), "--timeout reached")
	}
	return message
}

// translate finds the API or network error inside err and returns its own
// text and the words to say instead; empty strings when there is none.
func translate(err error) (cause, words string) {
	var request *url.Error
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return statusText(status), statusWords(err, status.Status())
	}
	if errors.As(err, &request) {
		return request.Error(), cluster.RequestWords(request)
	}
	return "", ""
}

// statusText returns the text that an error holding status shows.
func statusText(status apierrors.APIStatus) string {
	if err, ok := status.(error); ok {
		return err.Error()
	}
	return status.Status().Message
}

// statusWords says what an API server's answer, which err holds, means.
func statusWords(err error, status metav1.Status) string {
	message := status.Message
	if !aboutCRD(status) {
		// Leaves out the values of an object's fields.
		message = cluster.Explain(err).Message
	}
	switch {
	case message == "":
		return "the server answered without a message"
	case status.Reason == metav1.StatusReasonUnauthorized:
		return fmt.Sprintf("you must be logged in to the server (%s)", message)
	case status.Reason != "":
		return fmt.Sprintf("the server answered %s: %s", status.Reason, message)
	default:
		return "the server answered: " + message
	}
}

// aboutCRD reports whether an answer is about a CRD, whose values are no
// secrets.
func aboutCRD(status metav1.Status) bool {
	return status.Details != nil && status.Details.Group == apiextensionsv1.GroupName
}

// oneLine makes untrusted text safe to print on one line of a terminal: line
// breaks become "; ", control and text-direction characters are escaped, and
// the length is bounded.
func oneLine(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	text = strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
	if len(text) > maxErrorLength {
		cut := maxErrorLength
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "..."
	}
	return printers.Escape(text)
}

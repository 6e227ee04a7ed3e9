package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
)

// The exit codes of every command. exitCodesHelp is the same table in words.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitPending     = 2
	ExitRefused     = 3
	ExitPartial     = 4
	ExitTimeout     = 124
	ExitInterrupted = 130
)

// exitCodesHelp is the table that ends every command's help.
const exitCodesHelp = `Exit codes:
  0    done, or nothing to do
  1    error: usage, configuration, API, I/O
  2    findings at or above --fail-on, or changes pending (--detailed-exitcode)
  3    refused: a precondition or gate does not hold, the plan is stale,
       the prompt was declined, or there is no terminal and no --yes
  4    partial: some objects failed; what is left is listed, and running
       the same command again resumes
  124  --timeout reached
  130  interrupted
`

// ExitError is an error that decides the exit code of the process. Without
// Err nothing is printed: the code says it all, or the command already did.
type ExitError struct {
	Code int
	Err  error
}

// Error returns the message of the wrapped error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the wrapped error, nil when there is none.
func (e *ExitError) Unwrap() error { return e.Err }

// Refused says that a precondition or gate does not hold and that nothing
// was written because of it.
func Refused(err error) error { return &ExitError{Code: ExitRefused, Err: err} }

// Partial says that some objects failed while the rest was done. A nil err
// means that the command has already listed what is left.
func Partial(err error) error { return &ExitError{Code: ExitPartial, Err: err} }

// Pending says that there are findings or changes, which were already printed.
func Pending() error { return &ExitError{Code: ExitPending} }

// usageError is a mistake in how a command was called.
type usageError struct {
	commandPath string
	err         error
}

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// UsageError marks err as a mistake in how command was called, so that the
// reader is sent to the command's help. It leaves errors that are already
// marked, and nil, alone.
func UsageError(command *cobra.Command, err error) error {
	var marked *usageError
	if err == nil || errors.As(err, &marked) {
		return err
	}
	return &usageError{commandPath: command.CommandPath(), err: err}
}

// UsageErrorf is UsageError with a formatted message.
func UsageErrorf(command *cobra.Command, format string, args ...any) error {
	return UsageError(command, fmt.Errorf(format, args...))
}

// ExitCode returns the exit code that err stands for.
func ExitCode(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit) && exit.Code != ExitOK:
		return exit.Code
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, context.DeadlineExceeded) && !isRequestError(err):
		return ExitTimeout
	default:
		return ExitFailure
	}
}

// isRequestError reports whether err came from one HTTP request. A deadline
// inside of it is --request-timeout, unless outcome found that the command's
// own --timeout had passed.
func isRequestError(err error) bool {
	var request *url.Error
	return errors.As(err, &request)
}

// outcome gives err the exit code of an interrupt or of --timeout when that is
// what ended the command. parent is the context the command was started
// with, ctx the one that --timeout limits.
func outcome(parent, ctx context.Context, err error) error {
	if err == nil || ExitCode(err) == ExitPending {
		return err
	}
	shown := err
	if isSilent(err) {
		shown = nil
	}
	switch {
	case parent.Err() != nil:
		return &ExitError{Code: ExitInterrupted, Err: shown}
	case ctx.Err() != nil:
		return &ExitError{Code: ExitTimeout, Err: shown}
	default:
		return err
	}
}

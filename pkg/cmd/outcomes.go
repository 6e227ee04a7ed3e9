package cmd

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// addReport adds --report to a command that rewrites objects.
func (c *changeFlags) addReport(command *cobra.Command) {
	command.Flags().StringVar(&c.report, "report", "", "Write each object that is refused or fails to this file, one JSON document a line")
}

// addVerify adds --verify to a command that rewrites objects.
func (c *changeFlags) addVerify(command *cobra.Command) {
	command.Flags().StringVar(&c.verify, "verify", string(v1alpha1.VerifyFull),
		"How much to verify: full, sample (about 500 objects) or none; only full allows to trim status.storedVersions and to remove a version")
	completeFlag(command, "verify", plan.VerifyModes()...)
}

// verifyMode returns the mode for an intent, which says nothing of the default.
func (c *changeFlags) verifyMode() v1alpha1.VerifyMode {
	if c.verify == string(v1alpha1.VerifyFull) {
		return ""
	}
	return v1alpha1.VerifyMode(c.verify)
}

// validateOutcomes checks --verify and --report.
func (c *changeFlags) validateOutcomes(command *cobra.Command) error {
	if c.verify != "" && !slices.Contains(plan.VerifyModes(), c.verify) {
		return UsageErrorf(command, "invalid --verify %q: use %s", c.verify, strings.Join(plan.VerifyModes(), ", "))
	}
	switch {
	case c.report == "":
	case c.report == "-":
		return UsageErrorf(command, "--report needs a file: standard output has the report of the command")
	case c.dryRun != "none", c.planOut != "":
		return UsageErrorf(command, "--report makes no sense where nothing is carried out")
	}
	return nil
}

// sameFile reports whether two paths lead to one file that exists.
func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// answerStatus has the progress say where the run is whenever a signal asks,
// until the function that it returns is called.
func (f *Factory) answerStatus(progress *printers.Progress) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-f.status:
				progress.Status(now())
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

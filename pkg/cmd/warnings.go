package cmd

import (
	"io"
	"sync"

	"k8s.io/cli-runtime/pkg/printers"
)

// maxWarnings bounds how many different warnings are remembered, and so
// printed, in one run.
const maxWarnings = 1000

// warningHandler prints the warnings of API servers to stderr, each text once.
// It implements rest.WarningHandler.
type warningHandler struct {
	printer *printers.WarningPrinter

	lock sync.Mutex
	seen map[string]bool
}

func newWarningHandler(errOut io.Writer) *warningHandler {
	options := printers.WarningPrinterOptions{Color: printers.AllowsColorOutput(errOut)}
	return &warningHandler{
		printer: printers.NewWarningPrinter(errOut, options),
		seen:    map[string]bool{},
	}
}

// HandleWarningHeader prints the text of one Warning header.
func (h *warningHandler) HandleWarningHeader(code int, _ string, text string) {
	// 299 is the only code an API server uses for warnings to people.
	if code == 299 && text != "" {
		h.print(text)
	}
}

func (h *warningHandler) print(text string) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.seen[text] || len(h.seen) >= maxWarnings {
		return
	}
	h.seen[text] = true
	h.printer.Print(oneLine(text))
}

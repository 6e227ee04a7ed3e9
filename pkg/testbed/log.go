package testbed

import (
	"io"

	"k8s.io/klog/v2"
)

// setKlogOutput sends what the API server's code logs to w, or nowhere.
func setKlogOutput(w io.Writer) {
	if w == nil {
		w = io.Discard
	}
	klog.LogToStderr(false)
	klog.SetOutput(w)
}

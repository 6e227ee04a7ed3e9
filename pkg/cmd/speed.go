package cmd

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/crdver/kubectl-crdver/pkg/plan"
)

const (
	// maxConcurrency bounds --concurrency: more requests at a time than this help
	// no API server, and each costs memory here.
	maxConcurrency = 1024
	// defaultMaxConcurrency is more than any API server was seen to gain from.
	defaultMaxConcurrency = 128
	// minBandwidth lets a request and its answer through in less than a second.
	minBandwidth = 1000
)

// bandwidthFlag is a number of bytes per second, as a quantity: 2Mi, 500k.
type bandwidthFlag int64

// String returns the quantity, "0" for no limit.
func (f *bandwidthFlag) String() string {
	return resource.NewQuantity(int64(*f), resource.BinarySI).String()
}

// Set parses a quantity.
func (f *bandwidthFlag) Set(text string) error {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%q is no quantity of bytes such as 2Mi or 500k", text)
	}
	value := quantity.Value()
	if value != 0 && value < minBandwidth || value > math.MaxInt64/2 {
		return fmt.Errorf("%s is not 0, and less than %d bytes per second", text, minBandwidth)
	}
	*f = bandwidthFlag(value)
	return nil
}

// Type names the type in the usage.
func (f *bandwidthFlag) Type() string { return "quantity" }

// addSpeed adds the flags that say how fast objects are rewritten.
func (c *changeFlags) addSpeed(command *cobra.Command) {
	flags := command.Flags()
	flags.IntVar(&c.concurrency, "concurrency", 0,
		"Number of objects to rewrite at a time; 0 means as many as make it faster, fewer when the server has too much to do")
	flags.IntVar(&c.maxConcurrency, "max-concurrency", defaultMaxConcurrency, "Upper bound of the number of objects to rewrite at a time")
	flags.Float64Var(&c.qps, "qps", 0, "Limit of the requests for objects per second; 0 means no limit")
	flags.Var(&c.maxBandwidth, "max-bandwidth", "Limit of the bytes per second of the requests for objects, sent and received, such as 2Mi or 500k; 0 means no limit")
}

func (c *changeFlags) validateSpeed(command *cobra.Command) error {
	if c.concurrency < 0 || c.concurrency > maxConcurrency {
		return UsageErrorf(command, "--concurrency must be from 1 to %d, or 0", maxConcurrency)
	}
	if c.maxConcurrency < 1 || c.maxConcurrency > maxConcurrency {
		return UsageErrorf(command, "--max-concurrency must be from 1 to %d", maxConcurrency)
	}
	if c.concurrency > c.maxConcurrency && command.Flags().Changed("max-concurrency") {
		return UsageErrorf(command, "--concurrency %d is more than --max-concurrency %d", c.concurrency, c.maxConcurrency)
	}
	if !(c.qps >= 0) || math.IsInf(c.qps, 0) { // NaN is neither.
		return UsageErrorf(command, "--qps must be a number that is not negative")
	}
	return nil
}

// pathFlag is what objects are rewritten through.
type pathFlag string

func (f *pathFlag) String() string { return string(*f) }

// Set takes the one path there is.
func (f *pathFlag) Set(text string) error {
	if text != plan.PathStatus {
		return fmt.Errorf("%q is not %q; leave it out to rewrite the objects themselves", text, plan.PathStatus)
	}
	*f = pathFlag(text)
	return nil
}

// Type names the type in the usage.
func (f *pathFlag) Type() string { return "string" }

// rewriteFlags say through what and in which order objects are rewritten.
type rewriteFlags struct {
	path            pathFlag
	namespacesFirst []string
	refusedThrough  string
}

// addDetour adds --refused-through to a command after which the other version is
// still served.
func (r *rewriteFlags) addDetour(command *cobra.Command) {
	command.Flags().StringVar(&r.refusedThrough, "refused-through", "",
		"Served version to rewrite those objects through that the schema of the storage version refuses, each only if it loses nothing by it")
}

func (r *rewriteFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.Var(&r.path, "path", `"status" rewrites objects through their status subresource, to pass by webhooks and policies for the resource itself; `+
		`it does not pass by those whose rules name RESOURCE/status, RESOURCE/* or */*, nor by the schema, nor by conversion`)
	flags.StringSliceVar(&r.namespacesFirst, "namespaces-first", nil, "Namespaces to go over first: if an object in them fails, the rest is left alone")
	completeFlag(command, "path", plan.PathStatus)
}

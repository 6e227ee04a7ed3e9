package usage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The metrics of kube-apiserver that tell of use. The first three have the labels
// group, version, resource and subresource and are stable.
const (
	metricRequests   = "apiserver_request_total"
	metricDeprecated = "apiserver_requested_deprecated_apis"
	metricOpen       = "apiserver_longrunning_requests"
	metricStart      = "process_start_time_seconds"
)

const (
	// longestMetric is the longest line that is looked at.
	longestMetric = 64 << 10
	// maxMetrics bounds what is kept of one server.
	maxMetrics = 8 << 20
)

// series is what a counter counts.
type series struct {
	resource                       schema.GroupVersionResource
	subresource, verb, code, scope string
	dryRun                         bool
}

// serverMetrics are the metrics of one API server at one time.
type serverMetrics struct {
	// id tells servers, and a server before and after a restart, apart.
	id      string
	started time.Time
	at      time.Time
	// requests count since started.
	requests map[series]float64
	// open are the watches that are open now.
	open map[series]float64
	// deprecated are the resources that were requested while deprecated.
	deprecated map[series]bool
}

var errNoMetrics = errors.New("the answer has no metrics of an API server")

// parseMetrics reads the metrics of one server that are about the resources. There
// are tens of megabytes of others, which are not kept.
func parseMetrics(ctx context.Context, in io.Reader, resources map[schema.GroupResource]bool) (*serverMetrics, error) {
	kept, err := keepMetrics(ctx, in, resources)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(kept)
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	metrics := &serverMetrics{requests: map[series]float64{}, open: map[series]float64{}, deprecated: map[series]bool{}}
	start := families[metricStart].GetMetric()
	if len(start) == 0 {
		return nil, errNoMetrics
	}
	seconds := value(start[0])
	metrics.id = strconv.FormatFloat(seconds, 'f', -1, 64)
	metrics.started = time.UnixMilli(int64(seconds * 1000))
	each := func(name string, visit func(series, float64)) {
		for _, metric := range families[name].GetMetric() {
			if s := seriesOf(metric); resources[s.resource.GroupResource()] {
				visit(s, value(metric))
			}
		}
	}
	each(metricRequests, func(s series, v float64) { metrics.requests[s] += v })
	each(metricOpen, func(s series, v float64) { metrics.open[s] += v })
	each(metricDeprecated, func(s series, v float64) { metrics.deprecated[s] = v > 0 })
	return metrics, nil
}

// keepMetrics returns the lines that matter.
func keepMetrics(ctx context.Context, in io.Reader, resources map[schema.GroupResource]bool) (io.Reader, error) {
	var kept bytes.Buffer
	lines := newLineReader(in, longestMetric)
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		line, state, err := lines.next()
		if errors.Is(err, io.EOF) {
			return &kept, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading metrics: %w", err)
		}
		if state == lineTooLong || !keepMetric(line, resources) {
			continue
		}
		if kept.Len()+len(line) > maxMetrics {
			return nil, fmt.Errorf("reading metrics: more than %d MiB are about these resources", maxMetrics>>20)
		}
		kept.Write(line)
		kept.WriteByte('\n')
	}
}

func keepMetric(line []byte, resources map[schema.GroupResource]bool) bool {
	if bytes.HasPrefix(line, []byte(metricStart+" ")) {
		return true
	}
	name, _, found := bytes.Cut(line, []byte("{"))
	if !found || string(name) != metricRequests && string(name) != metricOpen && string(name) != metricDeprecated {
		return false
	}
	return resources[schema.GroupResource{Group: label(line, `group="`), Resource: label(line, `resource="`)}]
}

// label reads a label whose value needs no escapes, as those of groups and
// resources.
func label(line []byte, key string) string {
	for {
		at := bytes.Index(line, []byte(key))
		if at < 0 {
			return ""
		}
		whole := at > 0 && (line[at-1] == ',' || line[at-1] == '{') // And not subresource.
		line = line[at+len(key):]
		if end := bytes.IndexByte(line, '"'); whole && end >= 0 {
			return string(line[:end])
		}
	}
}

func value(metric *dto.Metric) float64 {
	// Without a TYPE line they are untyped.
	return metric.GetUntyped().GetValue()
}

func seriesOf(metric *dto.Metric) series {
	var s series
	for _, pair := range metric.GetLabel() {
		switch text := pair.GetValue(); pair.GetName() {
		case "group":
			s.resource.Group = text
		case "version":
			s.resource.Version = text
		case "resource":
			s.resource.Resource = text
		case "subresource":
			s.subresource = text
		case "verb":
			s.verb = strings.ToLower(text)
		case "code":
			s.code = text
		case "scope":
			s.scope = text
		case "dry_run":
			s.dryRun = text != ""
		}
	}
	return s
}

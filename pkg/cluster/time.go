package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// errNoDate says that nothing tells what time it is there.
var errNoDate = errors.New("the answer has no Date header")

// Time implements [Interface]. It is in whole seconds.
func (c *Cluster) Time(ctx context.Context) (time.Time, error) {
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return time.Time{}, fmt.Errorf("building the client: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the address of the server: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return time.Time{}, fmt.Errorf("asking for the time: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return time.Time{}, fmt.Errorf("asking for the time: %w", plain(err))
	}
	_ = response.Body.Close() // Only the header matters, whatever the status is.
	date := response.Header.Get("Date")
	if date == "" {
		return time.Time{}, errNoDate
	}
	now, err := http.ParseTime(date)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the Date header: %w", err)
	}
	return now.UTC(), nil
}

// RoundTrip implements [Interface]. A list of many objects would tell how long the
// server counts them.
func (c *Cluster) RoundTrip(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := c.raw.Get().AbsPath("version").MaxRetries(0).Do(ctx).Error()
	if err != nil {
		return 0, fmt.Errorf("measuring the round trip: %w", plain(err))
	}
	return time.Since(began), nil
}

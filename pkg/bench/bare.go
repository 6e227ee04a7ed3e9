package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
)

// acceptMetadata is what the engine sends as Accept (pkg/cluster).
const acceptMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// bare sends prepared requests from a fixed number of workers, and neither
// decodes, nor counts, nor tries anything again: what it gets out of a server is
// the most that there is to get with this request.
type bare struct {
	objects cluster.Objects
	request Request
	config  *rest.Config
	clients []*http.Client
	pending []patch
}

// patch is a request that is ready to be sent.
type patch struct{ url, body string }

func newBare(config *rest.Config, request Request) (way, error) {
	c, err := cluster.New(config, "bench")
	if err != nil {
		return nil, err
	}
	b := &bare{objects: c.Objects(request.Resource), request: request, config: config}
	for range max(1, request.Connections) {
		config := rest.CopyConfig(config)
		// client-go shares a transport, and with it a connection, between
		// configurations that are equal, unless they have functions.
		config.Proxy = http.ProxyFromEnvironment
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("building a client: %w", err)
		}
		b.clients = append(b.clients, client)
	}
	return b, nil
}

// prepare lists the objects and connects.
func (b *bare) prepare(ctx context.Context) error {
	resource := b.request.Resource
	base := strings.Join([]string{strings.TrimSuffix(b.config.Host, "/"), "apis", resource.Group, resource.Version, "namespaces"}, "/")
	options := cluster.PageOptions{Namespace: b.request.Namespace}
	err := cluster.EachPage(ctx, b.objects, options, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			object := &page.Items[i]
			body, _, err := storagemigration.NoOpPatch(object)
			if err != nil {
				return err
			}
			url := strings.Join([]string{base, object.Namespace, resource.Resource, object.Name}, "/")
			b.pending = append(b.pending, patch{url: url, body: string(body)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, client := range b.clients {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.config.Host+"/version", nil)
		if err != nil {
			return fmt.Errorf("connecting: %w", err)
		}
		if err := send(client, request); err != nil {
			return err
		}
	}
	return nil
}

func (b *bare) run(ctx context.Context) (objects, rewritten int64, err error) {
	var next, done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for worker := range max(1, b.request.Workers) {
		client := b.clients[worker%len(b.clients)]
		group.Go(func() error {
			for i := next.Add(1) - 1; i < int64(len(b.pending)); i = next.Add(1) - 1 {
				if err := b.pending[i].send(ctx, client); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err = group.Wait()
	// It does not look at the answers; etcd tells what was rewritten.
	return done.Load(), done.Load(), err
}

func (p patch) send(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, p.url, strings.NewReader(p.body))
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	request.Header.Set("Accept", acceptMetadata)
	request.Header.Set("Content-Type", "application/merge-patch+json")
	return send(client, request)
}

func send(client *http.Client, request *http.Request) error {
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("sending a request: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // All of it was read.
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", request.Method, request.URL.Path, response.Status)
	}
	return nil
}

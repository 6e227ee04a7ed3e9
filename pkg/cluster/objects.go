package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// What to send as Accept to get metadata only. A server that cannot reduce an
// object (an aggregated one) answers with the whole, whose metadata is read.
const (
	acceptMetadata     = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	acceptMetadataList = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)

type objects struct {
	cluster  *Cluster
	resource schema.GroupVersionResource
	// pool, if not nil, has the connections to use instead of the shared one.
	pool *pool
}

// connection returns the shared client, or one with a connection of its own, and
// a function to call when it is no longer used.
func (o objects) connection(fresh bool) (rest.Interface, func(), error) {
	switch {
	case fresh:
		return o.cluster.fresh()
	case o.pool != nil:
		return o.pool.connection()
	}
	return o.cluster.raw, func() {}, nil
}

// Objects implements [Interface].
func (c *Cluster) Objects(resource schema.GroupVersionResource) Objects {
	return objects{cluster: c, resource: resource}
}

func (o objects) Resource() schema.GroupVersionResource { return o.resource }

func (o objects) ListMetadata(ctx context.Context, options PageOptions) (*metav1.PartialObjectMetadataList, error) {
	client, done, err := o.connection(options.FreshConnection)
	if err != nil {
		return nil, err
	}
	defer done()
	result := o.list(client, options, acceptMetadataList).
		// The engine's requests are not the user's: their warnings are noise.
		WarningHandler(rest.NoWarnings{}).
		Do(ctx)
	page, err := decodeMetadata[metav1.PartialObjectMetadataList](result)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", o, plain(err))
	}
	return page, nil
}

func (o objects) GetMetadata(ctx context.Context, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	client, done, err := o.connection(false)
	if err != nil {
		return nil, err
	}
	defer done()
	result := client.Get().AbsPath(o.path(key.Namespace, key.Name)...).
		SetHeader("Accept", acceptMetadata).
		MaxRetries(0).
		WarningHandler(rest.NoWarnings{}). // As above.
		Do(ctx)
	object, err := decodeMetadata[metav1.PartialObjectMetadata](result)
	if err != nil {
		return nil, fmt.Errorf("reading %s of %s: %w", display(key), o, plain(err))
	}
	return object, nil
}

func (o objects) PatchMetadata(ctx context.Context, key types.NamespacedName, request PatchRequest) (*metav1.PartialObjectMetadata, error) {
	client, done, err := o.connection(request.FreshConnection)
	if err != nil {
		return nil, err
	}
	defer done()
	result := o.patch(client, key, request, acceptMetadata).
		WarningHandler(rest.NoWarnings{}). // As above; there may be a million.
		Do(ctx)
	object, err := decodeMetadata[metav1.PartialObjectMetadata](result)
	if err != nil {
		return nil, fmt.Errorf("patching %s of %s: %w", display(key), o, plain(err))
	}
	return object, nil
}

func (o objects) List(ctx context.Context, options PageOptions) (*unstructured.UnstructuredList, error) {
	client, done, err := o.connection(options.FreshConnection)
	if err != nil {
		return nil, err
	}
	defer done()
	list := &unstructured.UnstructuredList{}
	if err := decodeObject(o.list(client, options, runtime.ContentTypeJSON).Do(ctx), list); err != nil {
		return nil, fmt.Errorf("listing %s: %w", o, plain(err))
	}
	return list, nil
}

func (o objects) Get(ctx context.Context, key types.NamespacedName) (*unstructured.Unstructured, error) {
	client, done, err := o.connection(false)
	if err != nil {
		return nil, err
	}
	defer done()
	object := &unstructured.Unstructured{}
	request := client.Get().AbsPath(o.path(key.Namespace, key.Name)...).
		SetHeader("Accept", runtime.ContentTypeJSON).
		MaxRetries(0)
	if err := decodeObject(request.Do(ctx), object); err != nil {
		return nil, fmt.Errorf("reading %s of %s: %w", display(key), o, plain(err))
	}
	return object, nil
}

func (o objects) Patch(ctx context.Context, key types.NamespacedName, request PatchRequest) (*unstructured.Unstructured, error) {
	client, done, err := o.connection(request.FreshConnection)
	if err != nil {
		return nil, err
	}
	defer done()
	object := &unstructured.Unstructured{}
	if err := decodeObject(o.patch(client, key, request, runtime.ContentTypeJSON).Do(ctx), object); err != nil {
		return nil, fmt.Errorf("patching %s of %s: %w", display(key), o, plain(err))
	}
	return object, nil
}

// Count costs one request (fact 10).
func (o objects) Count(ctx context.Context) (count int64, exact bool, err error) {
	page, err := o.ListMetadata(ctx, PageOptions{Limit: 1})
	if err != nil {
		return 0, false, err
	}
	count = int64(len(page.Items))
	if page.Continue == "" {
		return count, true, nil
	}
	if page.RemainingItemCount == nil {
		return count, false, nil
	}
	return count + *page.RemainingItemCount, true, nil
}

// list builds a LIST. It is sent once: client-go would send a 429 with
// Retry-After up to ten times, also one that says "storage is (re)initializing"
// and never stops saying so (fact 14).
func (o objects) list(client rest.Interface, options PageOptions, accept string) *rest.Request {
	request := client.Get().AbsPath(o.path(options.Namespace, "")...).SetHeader("Accept", accept).MaxRetries(0)
	if options.LabelSelector != "" {
		request = request.Param("labelSelector", options.LabelSelector)
	}
	if options.Limit > 0 {
		request = request.Param("limit", strconv.FormatInt(options.Limit, 10))
	}
	if options.Continue != "" {
		request = request.Param("continue", options.Continue)
	}
	return request
}

func (o objects) patch(client rest.Interface, key types.NamespacedName, patch PatchRequest, accept string) *rest.Request {
	path := o.path(key.Namespace, key.Name)
	if patch.Subresource != "" {
		path = append(path, patch.Subresource)
	}
	request := client.Patch(patch.Type).AbsPath(path...).Body(patch.Body).SetHeader("Accept", accept).MaxRetries(0)
	if patch.FieldManager != "" {
		request = request.Param("fieldManager", patch.FieldManager)
	}
	if patch.DryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	return request
}

func (o objects) path(namespace, name string) []string {
	path := []string{"apis", o.resource.Group, o.resource.Version}
	if o.resource.Group == "" {
		path = []string{"api", o.resource.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	path = append(path, o.resource.Resource)
	if name != "" {
		path = append(path, name)
	}
	return path
}

// String names the resource as people do: crontabs.stable.example.com at v1.
func (o objects) String() string {
	return o.resource.GroupResource().String() + " at " + o.resource.Version
}

func display(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

// decodeMetadata decodes an answer that was asked for as metadata.
func decodeMetadata[T any](result rest.Result) (*T, error) {
	object, err := result.Get()
	if runtime.IsNotRegisteredError(err) {
		// The whole object: the server does not know how to reduce it.
		body, err := result.Raw()
		if err != nil {
			return nil, err //nolint:wrapcheck // The caller says what was asked for.
		}
		reduced := new(T)
		if err := json.Unmarshal(body, reduced); err != nil {
			return nil, fmt.Errorf("decoding the metadata: %w", err)
		}
		return reduced, nil
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // As above.
	}
	reduced, ok := any(object).(*T)
	if !ok {
		return nil, fmt.Errorf("decoding the metadata: the server sent a %T", object)
	}
	return reduced, nil
}

// decodeObject decodes a whole object or list.
func decodeObject(result rest.Result, into interface{ UnmarshalJSON([]byte) error }) error {
	// Error decodes the Status in the answer; Raw would only say "unknown".
	if err := result.Error(); err != nil {
		return err //nolint:wrapcheck // The caller says what was asked for.
	}
	body, err := result.Raw()
	if err != nil {
		return err //nolint:wrapcheck // As above.
	}
	if err := into.UnmarshalJSON(body); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	return nil
}

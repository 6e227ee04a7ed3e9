package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// serialPageSize is the page size of all that list in pages.
const serialPageSize = 500

// serial goes over the objects one after the other, as most migrators do, through
// client-go's own clients.
type serial struct {
	request  Request
	objects  dynamic.NamespaceableResourceInterface
	metadata metadata.Getter

	done, rewritten int64
}

func newSerial(config *rest.Config, request Request) (way, error) {
	if request.QPS > 0 {
		// client-go would let the first ten through at once, half of a short run.
		config.QPS, config.Burst = request.QPS, 1
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	objects, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	s := &serial{request: request, objects: objects.Resource(request.Resource)}
	metadata, err := metadata.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	s.metadata = metadata.Resource(request.Resource)
	return s, nil
}

// prepare connects.
func (s *serial) prepare(ctx context.Context) error {
	_, err := s.objects.List(ctx, metav1.ListOptions{Limit: 1})
	return err //nolint:wrapcheck // It says what was listed.
}

// errEnough ends a run that has done what it was asked for.
var errEnough = errors.New("enough")

func (s *serial) run(ctx context.Context) (objects, rewritten int64, err error) {
	switch s.request.Way {
	case WayListPut:
		err = s.eachObject(ctx, 0, s.put)
	case WayGetPut:
		err = s.eachObject(ctx, 0, s.getAndPut)
	case WayEmptyPatch:
		err = s.eachObject(ctx, serialPageSize, s.emptyPatch)
	default:
		err = s.eachMetadata(ctx, s.versionPatch)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return s.done, s.rewritten, err
}

// eachObject lists whole objects, in one answer if limit is 0.
func (s *serial) eachObject(ctx context.Context, limit int64, rewrite func(context.Context, *unstructured.Unstructured) (string, error)) error {
	options := metav1.ListOptions{Limit: limit}
	for {
		page, err := s.objects.Namespace(s.request.Namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing: %w", err)
		}
		for i := range page.Items {
			object := &page.Items[i]
			before := object.GetResourceVersion()
			after, err := rewrite(ctx, object)
			if err := s.count(before, after, err); err != nil {
				return err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// eachMetadata lists pages of metadata.
func (s *serial) eachMetadata(ctx context.Context, rewrite func(context.Context, *metav1.PartialObjectMetadata) (string, error)) error {
	options := metav1.ListOptions{Limit: serialPageSize}
	for {
		page, err := s.list(ctx, options)
		if err != nil {
			return fmt.Errorf("listing: %w", err)
		}
		for i := range page.Items {
			after, err := rewrite(ctx, &page.Items[i])
			if err := s.count(page.Items[i].ResourceVersion, after, err); err != nil {
				return err
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

func (s *serial) list(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	if s.request.Namespace == "" {
		return s.metadata.List(ctx, options) //nolint:wrapcheck // The caller wraps it.
	}
	return s.metadata.Namespace(s.request.Namespace).List(ctx, options) //nolint:wrapcheck // The caller wraps it.
}

func (s *serial) count(before, after string, err error) error {
	if err != nil {
		return fmt.Errorf("rewriting object %d: %w", s.done+1, err)
	}
	s.done++
	if after != before {
		s.rewritten++
	}
	if s.request.Limit > 0 && s.done == int64(s.request.Limit) {
		return errEnough
	}
	return nil
}

func (s *serial) put(ctx context.Context, object *unstructured.Unstructured) (string, error) {
	updated, err := s.objects.Namespace(object.GetNamespace()).Update(ctx, object, metav1.UpdateOptions{})
	return version(updated, err)
}

func (s *serial) getAndPut(ctx context.Context, object *unstructured.Unstructured) (string, error) {
	read, err := s.objects.Namespace(object.GetNamespace()).Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading: %w", err)
	}
	return s.put(ctx, read)
}

func (s *serial) emptyPatch(ctx context.Context, object *unstructured.Unstructured) (string, error) {
	return s.patch(ctx, object.GetNamespace(), object.GetName(), []byte("{}"))
}

func (s *serial) versionPatch(ctx context.Context, object *metav1.PartialObjectMetadata) (string, error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": s.request.Resource.GroupVersion().String(),
		"metadata": map[string]any{
			"name": object.Name, "namespace": object.Namespace, "uid": object.UID, "resourceVersion": object.ResourceVersion,
		},
	})
	if err != nil {
		return "", fmt.Errorf("making the patch: %w", err)
	}
	return s.patch(ctx, object.Namespace, object.Name, body)
}

func (s *serial) patch(ctx context.Context, namespace, name string, body []byte) (string, error) {
	patched, err := s.objects.Namespace(namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	return version(patched, err)
}

func version(object *unstructured.Unstructured, err error) (string, error) {
	if err != nil {
		return "", fmt.Errorf("writing: %w", err)
	}
	return object.GetResourceVersion(), nil
}

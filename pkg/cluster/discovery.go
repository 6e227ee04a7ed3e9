package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// automanagedLabel is on APIServices that kube-aggregator keeps in step with
// the CRDs; a hand-made one lacks it.
const automanagedLabel = "kube-aggregator.kubernetes.io/automanaged"

type disco struct {
	cluster *Cluster

	mu         sync.Mutex
	groups     map[string]metav1.APIGroup
	aggregated map[schema.GroupResource][]string
}

// Discovery implements [Interface].
func (c *Cluster) Discovery() Discovery {
	return &disco{cluster: c, groups: map[string]metav1.APIGroup{}}
}

func (d *disco) GroupVersions(ctx context.Context, group string) (versions []string, preferred string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	document, known := d.groups[group]
	if !known {
		body, _, err := getJSON(ctx, d.cluster.raw, runtime.ContentTypeJSON, nil, "apis", group)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, "", fmt.Errorf("reading discovery of group %s: %w", group, plain(err))
		}
		if err == nil {
			if err := json.Unmarshal(body, &document); err != nil {
				return nil, "", fmt.Errorf("decoding discovery of group %s: %w", group, err)
			}
		}
		d.groups[group] = document
	}
	for _, version := range document.Versions {
		versions = append(versions, version.Version)
	}
	return versions, document.PreferredVersion.Version, nil
}

func (d *disco) AggregatedVersions(ctx context.Context, resource schema.GroupResource) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.aggregated == nil {
		aggregated, err := d.readAggregated(ctx)
		if err != nil {
			return nil, err
		}
		d.aggregated = aggregated
	}
	return slices.Clone(d.aggregated[resource]), nil
}

func (d *disco) readAggregated(ctx context.Context) (map[schema.GroupResource][]string, error) {
	// JSON is named as well: a server that has no such document then answers
	// with the old one instead of 406, and is recognised by its content type.
	accept := discovery.AcceptV2 + "," + runtime.ContentTypeJSON
	body, contentType, err := getJSON(ctx, d.cluster.raw, accept, nil, "apis")
	if apierrors.IsNotFound(err) || apierrors.IsNotAcceptable(err) {
		return nil, fmt.Errorf("reading aggregated discovery: %w", ErrNotSupported)
	}
	if err != nil {
		return nil, fmt.Errorf("reading aggregated discovery: %w", plain(err))
	}
	if !strings.Contains(contentType, "as=APIGroupDiscoveryList") {
		return nil, fmt.Errorf("reading aggregated discovery: %w", ErrNotSupported)
	}
	var document apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, fmt.Errorf("decoding aggregated discovery: %w", err)
	}
	versions := map[schema.GroupResource][]string{}
	for _, group := range document.Items {
		for _, version := range group.Versions {
			for _, resource := range version.Resources {
				key := schema.GroupResource{Group: group.Name, Resource: resource.Resource}
				versions[key] = append(versions[key], version.Version)
			}
		}
	}
	return versions, nil
}

func (d *disco) StorageVersionHash(ctx context.Context, resource schema.GroupVersionResource) (string, error) {
	client, done, err := d.cluster.fresh()
	if err != nil {
		return "", err
	}
	defer done()
	body, _, err := getJSON(ctx, client, runtime.ContentTypeJSON, nil, "apis", resource.Group, resource.Version)
	if err != nil {
		return "", fmt.Errorf("reading discovery of %s: %w", resource.GroupVersion(), plain(err))
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil {
		return "", fmt.Errorf("decoding discovery of %s: %w", resource.GroupVersion(), err)
	}
	for _, listed := range list.APIResources {
		if listed.Name == resource.Resource {
			return listed.StorageVersionHash, nil
		}
	}
	return "", fmt.Errorf("discovery of %s does not list %s", resource.GroupVersion(), resource.Resource)
}

func (d *disco) APIServices(ctx context.Context, group string) ([]APIService, error) {
	body, _, err := getJSON(ctx, d.cluster.raw, runtime.ContentTypeJSON, nil, "apis", "apiregistration.k8s.io", "v1", "apiservices")
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing APIServices: %w", plain(err))
	}
	// The aggregator's own types would be one more module for these fields.
	var list struct {
		Items []struct {
			metav1.ObjectMeta `json:"metadata"`
			Spec              struct {
				Group           string `json:"group"`
				Version         string `json:"version"`
				VersionPriority int32  `json:"versionPriority"`
				Service         *struct {
					Namespace string `json:"namespace"`
					Name      string `json:"name"`
				} `json:"service"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("decoding APIServices: %w", err)
	}
	var services []APIService
	for _, item := range list.Items {
		if item.Spec.Group != group {
			continue
		}
		_, automanaged := item.Labels[automanagedLabel]
		service := APIService{
			Name:            item.Name,
			Version:         item.Spec.Version,
			Automanaged:     automanaged,
			VersionPriority: item.Spec.VersionPriority,
		}
		if item.Spec.Service != nil {
			service.Service = item.Spec.Service.Namespace + "/" + item.Spec.Service.Name
		}
		services = append(services, service)
	}
	return services, nil
}

func (d *disco) ListableResources(ctx context.Context) ([]Resource, error) {
	lists, err := d.cluster.discovery.ServerPreferredResourcesWithContext(ctx)
	if err != nil {
		err = fmt.Errorf("reading discovery of all groups: %w", plain(err))
		if partial := new(discovery.ErrGroupDiscoveryFailed); !errors.As(err, &partial) {
			return nil, err
		}
	}
	var resources []Resource
	for _, list := range lists {
		version, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			return nil, fmt.Errorf("reading discovery of %q: %w", list.GroupVersion, parseErr)
		}
		for _, resource := range list.APIResources {
			if strings.Contains(resource.Name, "/") || !slices.Contains(resource.Verbs, "list") {
				continue
			}
			resources = append(resources, Resource{
				GroupVersionResource: version.WithResource(resource.Name),
				Kind:                 resource.Kind,
				Namespaced:           resource.Namespaced,
			})
		}
	}
	// Client-go collects them in maps.
	slices.SortFunc(resources, func(a, b Resource) int { return strings.Compare(a.String(), b.String()) })
	return resources, err
}

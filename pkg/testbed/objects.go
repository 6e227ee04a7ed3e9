package testbed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	pollInterval = 20 * time.Millisecond
	// readyTimeout bounds the wait for a CRD when the context has no deadline.
	readyTimeout = time.Minute
	// createWorkers is how many requests CreateObjects keeps in flight.
	createWorkers = 16
)

// CreateCRD creates a CRD, waits with WaitForCRD and returns it as it is then.
func CreateCRD(ctx context.Context, config *rest.Config, crd *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	client, err := clientset.NewForConfig(unlimited(config))
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating CRD %s: %w", crd.Name, err)
	}
	return WaitForCRD(ctx, config, crd.Name)
}

// UpdateCRD reads a CRD, changes it, writes it back, again after a conflict,
// waits with WaitForCRD and returns it as it is then. What a server persists
// right after a change of the storage version is another matter: see
// WaitForStorageVersion.
func UpdateCRD(ctx context.Context, config *rest.Config, name string, change func(*apiextensionsv1.CustomResourceDefinition)) (*apiextensionsv1.CustomResourceDefinition, error) {
	client, err := clientset.NewForConfig(unlimited(config))
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	for {
		crd, err := crds.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading CRD %s: %w", name, err)
		}
		change(crd)
		_, err = crds.Update(ctx, crd, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("updating CRD %s: %w", name, err)
		}
		return WaitForCRD(ctx, config, name)
	}
}

// WaitForCRD waits until a CRD is Established, discovery lists exactly its served
// versions, and each of them answers a LIST, and returns the CRD.
func WaitForCRD(ctx context.Context, config *rest.Config, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	config = unlimited(config)
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	var crd *apiextensionsv1.CustomResourceDefinition
	last := errors.New("no answer yet")
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		crd, err = client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("reading the CRD: %w", err)
		}
		last = crdReady(ctx, client.Discovery(), objects, crd)
		return last == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for CRD %s: %w (%w)", name, err, last)
	}
	return crd, nil
}

// crdReady returns nil when the CRD can be used, and otherwise why it cannot.
func crdReady(ctx context.Context, disco discovery.DiscoveryInterface, objects metadata.Interface, crd *apiextensionsv1.CustomResourceDefinition) error {
	if !established(crd) {
		return errors.New("it is not Established")
	}
	for _, version := range crd.Spec.Versions {
		gvr := schema.GroupVersionResource{Group: crd.Spec.Group, Version: version.Name, Resource: crd.Spec.Names.Plural}
		listed, err := inDiscovery(disco, gvr)
		if err != nil {
			return err
		}
		if listed != version.Served {
			return fmt.Errorf("%s is served: %t, in discovery: %t", version.Name, version.Served, listed)
		}
		if !version.Served {
			continue
		}
		if _, err := objects.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return fmt.Errorf("listing at %s: %w", version.Name, err)
		}
	}
	return nil
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

func inDiscovery(disco discovery.DiscoveryInterface, gvr schema.GroupVersionResource) (bool, error) {
	list, err := disco.ServerResourcesForGroupVersion(gvr.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading discovery of %s: %w", gvr.GroupVersion(), err)
	}
	for _, resource := range list.APIResources {
		if resource.Name == gvr.Resource {
			return true, nil
		}
	}
	return false, nil
}

// WaitForStorageVersion waits until the server that config leads to persists
// objects at a version: it creates probe, reads from etcd where it landed, and
// deletes it, until it landed there twice in a row. A server goes on writing at
// the old storage version for a moment after the CRD was changed.
func WaitForStorageVersion(ctx context.Context, bed Bed, gvr schema.GroupVersionResource, probe *unstructured.Unstructured, version string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	client, err := dynamic.NewForConfig(unlimited(bed.Config()))
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	objects := client.Resource(gvr).Namespace(probe.GetNamespace())
	hits, got := 0, ""
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if _, err := objects.Create(ctx, probe.DeepCopy(), metav1.CreateOptions{}); err != nil {
			return false, fmt.Errorf("creating the probe: %w", err)
		}
		stored, err := storedObject(ctx, bed.Etcd(), gvr.GroupResource(), probe.GetNamespace(), probe.GetName())
		if err != nil {
			return false, err
		}
		if err := objects.Delete(ctx, probe.GetName(), metav1.DeleteOptions{}); err != nil {
			return false, fmt.Errorf("deleting the probe: %w", err)
		}
		hits++
		if got = stored.Version(); got != version {
			hits = 0
		}
		return hits >= 2, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s is persisted at %s, not %q: %w", gvr.GroupResource(), version, got, err)
	}
	return nil
}

// ObjectOptions says what CreateObjects creates. The zero value creates CronTabs
// object-000000, object-000001, ... in the namespace default.
type ObjectOptions struct {
	// Namespaces are used in turn. Empty means default.
	Namespaces []string
	// Prefix is the start of each name. Empty means "object-".
	Prefix string
	// New builds the object with a number. Nil builds CronTabs with NewCronTab.
	New func(version, namespace, name string, i int) *unstructured.Unstructured
	// FieldManager of the requests. Empty means the user agent.
	FieldManager string
}

// CreateObjects creates n objects through the endpoint of gvr, several at a
// time. On the full bed the namespaces have to exist: see CreateNamespaces.
func CreateObjects(ctx context.Context, config *rest.Config, gvr schema.GroupVersionResource, n int, opts ObjectOptions) error {
	client, err := dynamic.NewForConfig(unlimited(config))
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	namespaces, prefix, build := opts.Namespaces, opts.Prefix, opts.New
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceDefault}
	}
	if prefix == "" {
		prefix = "object-"
	}
	if build == nil {
		build = NewCronTab
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(createWorkers)
	for i := range n {
		object := build(gvr.Version, namespaces[i%len(namespaces)], fmt.Sprintf("%s%06d", prefix, i), i)
		group.Go(func() error {
			_, err := client.Resource(gvr).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{FieldManager: opts.FieldManager})
			if err != nil {
				return fmt.Errorf("creating %s: %w", object.GetName(), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating %d objects of %s: %w", n, gvr, err)
	}
	return nil
}

// CreateNamespaces creates namespaces; those that exist are left alone. The
// in-process bed has no namespaces and needs none.
func CreateNamespaces(ctx context.Context, config *rest.Config, names ...string) error {
	client, err := kubernetes.NewForConfig(unlimited(config))
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	for _, name := range names {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	return nil
}

// unlimited returns a copy of config without a client-side rate limit.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	return config
}

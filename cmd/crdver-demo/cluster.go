package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// cluster is what the demo runs against.
type cluster struct {
	config     *rest.Config
	kubeconfig string
	// etcd is nil on a cluster of the user's.
	etcd *clientv3.Client
	// cleanups undo what was done, last first.
	cleanups []func(context.Context) error
}

// connect starts a throwaway cluster, or connects to the user's.
func (d *demo) connect(ctx context.Context) (*cluster, error) {
	if d.kubeconfig != "" {
		return d.connectToUsers(ctx)
	}
	begin := time.Now()
	bed, err := testbed.StartInProcess(ctx, testbed.InProcessOptions{})
	if err != nil {
		return nil, fmt.Errorf("starting the throwaway API server: %w", err)
	}
	c := &cluster{config: bed.Config(), kubeconfig: filepath.Join(d.dir, "kubeconfig"), etcd: bed.Etcd()}
	c.cleanups = append(c.cleanups, func(context.Context) error {
		bed.Stop()
		return nil
	})
	if err := bed.WriteKubeconfig(c.kubeconfig); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the kubeconfig: %w", err), c.close(ctx))
	}
	return c, d.say("Started a throwaway API server, Kubernetes %s with an etcd of its own, in %.1f s.\n",
		testbed.KubernetesVersion, time.Since(begin).Seconds())
}

// connectToUsers connects to the user's cluster and refuses to touch a CRD that is
// there.
func (d *demo) connectToUsers(ctx context.Context) (*cluster, error) {
	path, err := filepath.Abs(d.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading DEMO_KUBECONFIG: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading DEMO_KUBECONFIG: %w", err)
	}
	config.QPS = -1
	crds, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	_, err = crds.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, testbed.CronTabCRD, metav1.GetOptions{})
	if err == nil {
		return nil, fmt.Errorf("the cluster has a CRD %s, which the demo would change: delete it or use another cluster", testbed.CronTabCRD)
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("looking for CRD %s: %w", testbed.CronTabCRD, err)
	}
	c := &cluster{config: config, kubeconfig: path}
	return c, d.say("Using the cluster at %s; what the demo creates there, it deletes.\n", config.Host)
}

// close undoes what was done.
func (c *cluster) close(ctx context.Context) error {
	var errs []error
	for _, cleanup := range slices.Backward(c.cleanups) {
		errs = append(errs, cleanup(ctx))
	}
	return errors.Join(errs...)
}

// fill creates the CRD and its objects.
func (c *cluster) fill(ctx context.Context) error {
	if c.etcd == nil {
		if err := c.createNamespace(ctx); err != nil {
			return err
		}
		// First the order to delete, then what is to be deleted: an interrupt can
		// come between.
		c.cleanups = append(c.cleanups, c.deleteCRD)
	}
	if _, err := testbed.CreateCRD(ctx, c.config, testbed.CronTabs(oldVersion, newVersion)); err != nil {
		return fmt.Errorf("filling the cluster: %w", err)
	}
	err := testbed.CreateObjects(ctx, c.config, testbed.CronTabResource(oldVersion), objects, testbed.ObjectOptions{
		Namespaces: []string{namespace},
		Prefix:     "crontab-",
	})
	if err != nil {
		return fmt.Errorf("filling the cluster: %w", err)
	}
	return nil
}

// createNamespace creates the namespace of the demo; one that exists already stays
// when the demo is over.
func (c *cluster) createNamespace(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	_, err = client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("looking for namespace %s: %w", namespace, err)
	}
	c.cleanups = append(c.cleanups, func(ctx context.Context) error {
		err := client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting namespace %s: %w", namespace, err)
		}
		return nil
	})
	if err := testbed.CreateNamespaces(ctx, c.config, namespace); err != nil {
		return fmt.Errorf("filling the cluster: %w", err)
	}
	return nil
}

// deleteCRD deletes the CRD, and with it the objects, and waits until it is gone.
func (c *cluster) deleteCRD(ctx context.Context) error {
	client, err := clientset.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	err = crds.Delete(ctx, testbed.CronTabCRD, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting CRD %s: %w", testbed.CronTabCRD, err)
	}
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := crds.Get(ctx, testbed.CronTabCRD, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		return fmt.Errorf("waiting until CRD %s is deleted: %w", testbed.CronTabCRD, err)
	}
	return nil
}

// evidence is what was seen of the versions at one moment.
type evidence struct {
	// text says it in one line.
	text string
	// done tells whether everything is at the new version and the old one is gone.
	done bool
}

func (e evidence) check() error {
	if !e.done {
		return fmt.Errorf("the demo failed: want %d objects at %s and nothing else", objects, newVersion)
	}
	return nil
}

// evidence reads at which versions the objects are stored. On a cluster of the
// user's, whose etcd is out of reach, the CRD and the number of objects have to do.
func (c *cluster) evidence(ctx context.Context) (evidence, error) {
	client, err := clientset.NewForConfig(c.config)
	if err != nil {
		return evidence{}, fmt.Errorf("building a client: %w", err)
	}
	crd, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, testbed.CronTabCRD, metav1.GetOptions{})
	if err != nil {
		return evidence{}, fmt.Errorf("reading CRD %s: %w", testbed.CronTabCRD, err)
	}
	names := make([]string, 0, len(crd.Spec.Versions))
	for _, version := range crd.Spec.Versions {
		names = append(names, version.Name)
	}
	only := []string{newVersion}
	text := fmt.Sprintf("the CRD has versions [%s], storedVersions [%s]", strings.Join(names, " "), strings.Join(crd.Status.StoredVersions, " "))
	done := slices.Equal(names, only) && slices.Equal(crd.Status.StoredVersions, only)

	if c.etcd == nil {
		count, err := c.count(ctx)
		return evidence{text: fmt.Sprintf("the server lists %d objects; %s.", count, text), done: done && count == objects}, err
	}
	counts, err := testbed.CountByVersion(ctx, c.etcd, testbed.CronTabGroup, testbed.CronTabPlural)
	if err != nil {
		return evidence{}, fmt.Errorf("reading etcd: %w", err)
	}
	var parts []string
	for _, version := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d objects at %s", counts[version], version))
	}
	return evidence{
		text: fmt.Sprintf("etcd holds %s; %s.", strings.Join(parts, ", "), text),
		done: done && maps.Equal(counts, map[string]int{newVersion: objects}),
	}, nil
}

// count asks the server for the number of objects.
func (c *cluster) count(ctx context.Context) (int, error) {
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return 0, fmt.Errorf("building a client: %w", err)
	}
	list, err := client.Resource(testbed.CronTabResource(newVersion)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("listing objects: %w", err)
	}
	return len(list.Items), nil
}

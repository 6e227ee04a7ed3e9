package bench

import (
	"context"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// listCRDs does what "kubectl get crd -o json" does: it lists them in pages of
// 500, keeps all, and prints one document.
func listCRDs(ctx context.Context, kubeconfig string, w io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	all := &unstructured.UnstructuredList{Object: map[string]any{"kind": "List", "apiVersion": "v1"}}
	options := metav1.ListOptions{Limit: serialPageSize}
	for {
		page, err := crds.List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing CRDs: %w", err)
		}
		all.Items = append(all.Items, page.Items...)
		if options.Continue = page.GetContinue(); options.Continue != "" {
			continue
		}
		if err := (&printers.JSONPrinter{}).PrintObj(all, w); err != nil {
			return fmt.Errorf("printing the list: %w", err)
		}
		return nil
	}
}

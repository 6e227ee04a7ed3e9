package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// storedPageSize is how many objects one read of etcd returns.
const storedPageSize = 1000

// StoredObject is a custom resource as it lies in etcd.
type StoredObject struct {
	// Key is the whole key in etcd.
	Key string
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	// Name is the name of the object.
	Name string
	// APIVersion is the one that the stored bytes say, "group/version".
	APIVersion string
	// Kind is the one that the stored bytes say.
	Kind string
	// ModRevision is the revision of etcd at which the object was last written.
	ModRevision int64
	// CreateRevision is the revision of etcd at which the key was created.
	CreateRevision int64
	// Raw is the stored JSON.
	Raw []byte
}

// Version returns the version of APIVersion, "v1" for "example.com/v1".
func (o StoredObject) Version() string {
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	if err != nil {
		return o.APIVersion
	}
	return gv.Version
}

// ResourceVersion returns the resourceVersion that the API server gives to the
// object.
func (o StoredObject) ResourceVersion() string { return strconv.FormatInt(o.ModRevision, 10) }

// Unmarshal decodes the stored JSON into v.
func (o StoredObject) Unmarshal(v any) error {
	if err := json.Unmarshal(o.Raw, v); err != nil {
		return fmt.Errorf("decoding %s: %w", o.Key, err)
	}
	return nil
}

// Stored reads from etcd all custom resources of a resource, ordered by key. They
// are those of one revision, however many there are.
func Stored(ctx context.Context, etcd *clientv3.Client, group, plural string) ([]StoredObject, error) {
	var objects []StoredObject
	err := eachStored(ctx, etcd, group, plural, func(o StoredObject) {
		objects = append(objects, o)
	})
	return objects, err
}

// CountByVersion reads from etcd how many custom resources of a resource are
// stored at which version: {"v1beta1": 3, "v1": 197}. Without objects, the map
// is empty.
func CountByVersion(ctx context.Context, etcd *clientv3.Client, group, plural string) (map[string]int, error) {
	counts := map[string]int{}
	err := eachStored(ctx, etcd, group, plural, func(o StoredObject) {
		counts[o.Version()]++
	})
	return counts, err
}

// storedObject reads one custom resource from etcd.
func storedObject(ctx context.Context, etcd *clientv3.Client, gr schema.GroupResource, namespace, name string) (StoredObject, error) {
	prefix := storedPrefix(gr.Group, gr.Resource)
	key := prefix + name
	if namespace != "" {
		key = prefix + namespace + "/" + name
	}
	response, err := etcd.Get(ctx, key)
	if err != nil {
		return StoredObject{}, fmt.Errorf("reading %s from etcd: %w", key, err)
	}
	if len(response.Kvs) == 0 {
		return StoredObject{}, fmt.Errorf("%s is not in etcd", key)
	}
	return parseStored(prefix, response.Kvs[0])
}

func storedPrefix(group, plural string) string { return etcdPrefix + "/" + group + "/" + plural + "/" }

func eachStored(ctx context.Context, etcd *clientv3.Client, group, plural string, visit func(StoredObject)) error {
	prefix := storedPrefix(group, plural)
	from, end, revision := prefix, clientv3.GetPrefixRangeEnd(prefix), int64(0)
	for {
		page, err := etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(storedPageSize), clientv3.WithRev(revision))
		if err != nil {
			return fmt.Errorf("reading %s from etcd: %w", prefix, err)
		}
		for _, kv := range page.Kvs {
			object, err := parseStored(prefix, kv)
			if err != nil {
				return err
			}
			visit(object)
		}
		if !page.More || len(page.Kvs) == 0 {
			return nil
		}
		if revision == 0 {
			revision = page.Header.Revision // The pages that follow are of the same revision.
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

func parseStored(prefix string, kv *mvccpb.KeyValue) (StoredObject, error) {
	object := StoredObject{
		Key:            string(kv.Key),
		Name:           strings.TrimPrefix(string(kv.Key), prefix),
		ModRevision:    kv.ModRevision,
		CreateRevision: kv.CreateRevision,
		Raw:            kv.Value,
	}
	if namespace, name, found := strings.Cut(object.Name, "/"); found {
		object.Namespace, object.Name = namespace, name
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(kv.Value, &head); err != nil {
		return StoredObject{}, fmt.Errorf("%s is not stored as JSON: %w", object.Key, err)
	}
	object.APIVersion, object.Kind = head.APIVersion, head.Kind
	return object, nil
}

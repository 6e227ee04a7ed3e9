package conversion

import (
	"slices"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// ForMigration returns the options that rehearse a migration of the objects of
// a live CRD through the endpoint of a version: they are compared with what the
// versions show at which objects are persisted, or may be.
func ForMigration(c crd.CRD, endpoint string) RehearseOptions {
	options := RehearseOptions{
		Resource:       kschema.GroupResource{Group: c.Spec.Group, Resource: c.Spec.Names.Plural},
		RequestVersion: endpoint,
		Strategy:       c.ConversionStrategy(),
	}
	for _, version := range append([]string{c.StorageVersion()}, c.Status.StoredVersions...) {
		if v := c.Version(version); v != nil && v.Served && !slices.Contains(options.CompareVersions, version) {
			options.CompareVersions = append(options.CompareVersions, version)
		}
	}
	for _, loss := range schema.LostThrough(c.CustomResourceDefinition, endpoint) {
		// The schemas do not prove that nothing is lost: each object has to.
		options.Every = options.Every || loss.Served
		if loss.Served && !slices.Contains(options.CompareVersions, loss.Version) {
			options.CompareVersions = append(options.CompareVersions, loss.Version)
		}
	}
	if len(options.CompareVersions) > 0 {
		// Without a schema the paths name the keys of maps, which is all right.
		options.Schema, _ = schema.ForVersion(c.CustomResourceDefinition, options.CompareVersions[0])
	}
	return options
}

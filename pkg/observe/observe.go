// Package observe reads what a cluster tells about the surroundings of a CRD:
// its objects, the server's discovery, in-tree migrations. It decides nothing.
// What cannot be read is noted as such, never as "there is none".
package observe

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// migrationGroup is the API group of in-tree migrations.
const migrationGroup = "storagemigration.k8s.io"

// Options say what to look at.
type Options struct {
	// Objects counts the objects.
	Objects bool
	// Unreadable lists all objects for some that the server cannot decode.
	Unreadable bool
	// Discovery reads the order of the versions in the server's documents, and
	// the APIServices of the group where that order is not the CRD's.
	Discovery bool
	// APIServices reads the APIServices of the group in any case.
	APIServices bool
	// Migrations reads the in-tree StorageVersionMigrations.
	Migrations bool
	// Converter looks at the conversion webhook.
	Converter bool
	// Clients asks what clients of deprecated versions are told.
	Clients bool
}

// Observer reads a cluster. Calls may run at the same time; what concerns more
// than one CRD is read once.
type Observer struct {
	cluster    cluster.Interface
	aggregated cluster.Discovery
	groups     groupCache
	migrations once[[]string]
}

// New returns an Observer of a cluster.
func New(c cluster.Interface) *Observer {
	return &Observer{cluster: c, aggregated: c.Discovery()}
}

// Observe reads the surroundings of one CRD.
func (o *Observer) Observe(ctx context.Context, c crd.CRD, options Options) lifecycle.Observations {
	var observed lifecycle.Observations
	if options.Objects {
		var err error
		observed.Objects, err = o.count(ctx, c)
		observed.LostVersion = lostVersion(c, err)
		if err != nil {
			observed.ObjectsError = explain(c, err)
		}
		if err == nil && !options.Unreadable && suspect(c) {
			// One object can be read; the next ones may not.
			o.Unreadable(ctx, c, false, &observed)
			o.unknown(c, &observed)
		}
	}
	if options.Unreadable {
		if look := o.Unreadable(ctx, c, true, &observed); look.Error != "" && observed.ObjectsError == "" {
			observed.ObjectsError = look.Error
		}
		o.unknown(c, &observed)
	}
	if options.Discovery {
		observed.Discovery = o.discovery(ctx, c, options.APIServices)
	}
	if options.Migrations {
		o.inTree(ctx, c, &observed)
	}
	if options.Converter {
		observed.Converter = o.converter(ctx, c)
	}
	if options.Clients {
		observed.Clients, observed.ClientsError = o.clients(ctx, c)
	}
	return observed
}

// count returns the number of objects, or why it is unknown.
func (o *Observer) count(ctx context.Context, c crd.CRD) (*int64, error) {
	version := lifecycle.New(c, lifecycle.Observations{}).Endpoint()
	if version == "" {
		return nil, errors.New("no version is served")
	}
	resource := schema.GroupVersionResource{Group: c.Spec.Group, Version: version, Resource: c.Spec.Names.Plural}
	count, exact, err := o.cluster.Objects(resource).Count(ctx)
	switch {
	case err != nil:
		return nil, err
	case !exact:
		return nil, fmt.Errorf("the server does not say how many; at least %d", count)
	}
	return &count, nil
}

// explain says why objects cannot be read. The commonest cause has a remedy
// that nobody guesses from the server's words (facts 1, 14 and 15).
func explain(c crd.CRD, err error) string {
	if version := lostVersion(c, err); version != "" {
		return lifecycle.Lost(c, version) + ": " + lifecycle.Rescue(c, version)
	}
	return cluster.Explain(err).Message
}

// lostVersion returns the version that the server cannot convert an object from
// because spec.versions does not have it, or "" where that is not the trouble.
func lostVersion(c crd.CRD, err error) string {
	if err == nil {
		return ""
	}
	match := regexp.MustCompile(`request to convert CR from an invalid group/version: ([^/\s]+)/([a-z0-9.-]+)`).FindStringSubmatch(err.Error())
	if match == nil || match[1] != c.Spec.Group || c.Version(match[2]) != nil {
		return ""
	}
	return match[2]
}

// discovery returns what the server's documents say of the CRD's versions.
func (o *Observer) discovery(ctx context.Context, c crd.CRD, services bool) *lifecycle.Discovery {
	d := &lifecycle.Discovery{}
	served := c.Served()
	group, err := o.groups.get(c.Spec.Group).versions.get(ctx, func() (groupDocument, error) {
		// A Discovery of its own: one asks for one group after the other.
		versions, preferred, err := o.cluster.Discovery().GroupVersions(ctx, c.Spec.Group)
		return groupDocument{versions, preferred}, err
	})
	if err != nil {
		d.Error = cluster.Explain(err).Message
	}
	// Other resources of the group may have versions that this one lacks.
	d.Preferred = group.preferred
	d.Group = only(group.versions, served)
	resource := schema.GroupResource{Group: c.Spec.Group, Resource: c.Spec.Names.Plural}
	switch d.Aggregated, err = o.aggregated.AggregatedVersions(ctx, resource); {
	case errors.Is(err, cluster.ErrNotSupported):
		d.Aggregated = nil
	case err != nil:
		d.Error = cluster.Explain(err).Message
	case d.Aggregated == nil:
		d.Aggregated = []string{} // The document is there, the resource is not in it.
	}
	differs := !slices.Equal(d.Group, served) || d.Aggregated != nil && !slices.Equal(d.Aggregated, served)
	if d.Error != "" || !services && !differs {
		return d
	}
	if d.APIServices, err = o.apiServices(ctx, c.Spec.Group); err != nil {
		d.APIServicesError = cluster.Explain(err).Message
	}
	return d
}

// apiServices returns the APIServices of a group that the server does not keep
// in step with the CRD.
func (o *Observer) apiServices(ctx context.Context, group string) ([]lifecycle.APIService, error) {
	return o.groups.get(group).services.get(ctx, func() ([]lifecycle.APIService, error) {
		all, err := o.cluster.Discovery().APIServices(ctx, group)
		if err != nil {
			return nil, err
		}
		var foreign []lifecycle.APIService
		for _, one := range all {
			if one.Automanaged && one.Service == "" {
				continue
			}
			foreign = append(foreign, lifecycle.APIService{
				Name: one.Name, Version: one.Version, Service: one.Service, VersionPriority: one.VersionPriority,
			})
		}
		return foreign, nil
	})
}

// only returns the names that are wanted, in their order.
func only(names, wanted []string) []string {
	kept := make([]string, 0, len(names))
	for _, name := range names {
		if slices.Contains(wanted, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

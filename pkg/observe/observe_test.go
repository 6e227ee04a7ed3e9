package observe

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// fakeCluster answers what a test says. Real servers are asked in the live
// tests of pkg/cmd.
type fakeCluster struct {
	cluster.Interface

	count      int64
	exact      bool
	countErr   error
	resource   schema.GroupVersionResource
	group      []string
	groupErr   error
	aggregated []string
	aggErr     error
	services   []cluster.APIService
	serviceErr error
	migration  bool
	migrations []cluster.Migration
	migErr     error

	groupReads, serviceReads, migrationReads atomic.Int64
}

type fakeObjects struct {
	cluster.Objects

	*fakeCluster
}

// ListMetadata is a list in which every object can be read.
func (f fakeObjects) ListMetadata(context.Context, cluster.PageOptions) (*metav1.PartialObjectMetadataList, error) {
	return &metav1.PartialObjectMetadataList{}, nil
}

func (f *fakeCluster) Objects(resource schema.GroupVersionResource) cluster.Objects {
	f.resource = resource
	return fakeObjects{fakeCluster: f}
}

func (f fakeObjects) Count(context.Context) (int64, bool, error) {
	return f.fakeCluster.count, f.exact, f.countErr
}

type fakeDiscovery struct {
	cluster.Discovery

	*fakeCluster
}

func (f *fakeCluster) Discovery() cluster.Discovery { return fakeDiscovery{fakeCluster: f} }

func (f fakeDiscovery) GroupVersions(_ context.Context, group string) ([]string, string, error) {
	f.groupReads.Add(1)
	if group == migrationGroup {
		if f.migration {
			return []string{"v1"}, "v1", nil
		}
		return nil, "", nil
	}
	if len(f.group) == 0 {
		return nil, "", f.groupErr
	}
	return f.group, f.group[0], f.groupErr
}

func (f fakeDiscovery) AggregatedVersions(context.Context, schema.GroupResource) ([]string, error) {
	return f.fakeCluster.aggregated, f.aggErr
}

func (f fakeDiscovery) APIServices(context.Context, string) ([]cluster.APIService, error) {
	f.serviceReads.Add(1)
	return f.services, f.serviceErr
}

func (f *fakeCluster) Migrations(context.Context, schema.GroupResource) ([]cluster.Migration, error) {
	f.migrationReads.Add(1)
	return f.migrations, f.migErr
}

// widgets returns a CRD with v1beta1 (storage), v1 and v2, served as told.
func widgets(served ...string) crd.CRD {
	one := &apiextensionsv1.CustomResourceDefinition{}
	one.Name = "widgets.example.com"
	one.Spec.Group = "example.com"
	one.Spec.Names.Plural = "widgets"
	for _, name := range []string{"v1beta1", "v1", "v2"} {
		one.Spec.Versions = append(one.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Storage: name == "v1beta1", Served: slices.Contains(served, name),
		})
	}
	return crd.CRD{CustomResourceDefinition: one}
}

func observeFake(t *testing.T, f *fakeCluster, c crd.CRD, options Options) lifecycle.Observations {
	t.Helper()
	return New(f).Observe(t.Context(), c, options)
}

func TestNothingIsLookedAtUnasked(t *testing.T) {
	got := observeFake(t, &fakeCluster{countErr: errors.New("asked")}, widgets("v1"), Options{})
	if diff := cmp.Diff(lifecycle.Observations{}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCount(t *testing.T) {
	conversion := func(version string) error {
		return apierrors.NewInternalError(errors.New("StorageError: corrupt object, Code: 7, Key: /registry/x, " +
			"AdditionalErrorMsg: object not decodable: request to convert CR from an invalid group/version: example.com/" + version))
	}
	for name, test := range map[string]struct {
		cluster  *fakeCluster
		crd      crd.CRD
		want     int64
		err      string
		endpoint string
	}{
		"storage version": {&fakeCluster{count: 7, exact: true}, widgets("v1beta1", "v1"), 7, "", "v1beta1"},
		"best served":     {&fakeCluster{exact: true}, widgets("v1", "v2"), 0, "", "v2"},
		"none served":     {&fakeCluster{}, widgets(), 0, "no version is served", ""},
		"not exact":       {&fakeCluster{count: 500}, widgets("v1"), 0, "the server does not say how many; at least 500", "v1"},
		"forbidden": {
			&fakeCluster{countErr: apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "", errors.New(`User "x" cannot list`))},
			widgets("v1"), 0, `widgets is forbidden: User "x" cannot list`, "v1",
		},
		"stored at a version that is gone": {
			&fakeCluster{countErr: conversion("v1alpha1")}, widgets("v1beta1"), 0,
			"objects are stored at v1alpha1, which spec.versions of widgets.example.com no longer has: they are intact, but cannot be read: " +
				"kubectl crdver rescue widgets.example.com (adds v1alpha1 again, rewrites the objects, and removes it; -f MANIFEST, with a " +
				"manifest that still has v1alpha1, tells beforehand which fields would be lost)",
			"v1beta1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := observeFake(t, test.cluster, test.crd, Options{Objects: true})
			if got.ObjectsError != test.err || (got.Objects == nil) != (test.err != "") || got.Objects != nil && *got.Objects != test.want {
				t.Errorf("got %v, %q", got.Objects, got.ObjectsError)
			}
			if test.cluster.resource.Version != test.endpoint {
				t.Errorf("counted at %v", test.cluster.resource)
			}
		})
	}
}

func TestDiscovery(t *testing.T) {
	tooMany := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusTooManyRequests, Message: "slow down"}}
	service := cluster.APIService{Name: "v2.example.com", Version: "v2", Service: "ns/other", VersionPriority: 15}
	handmade := cluster.APIService{Name: "v1.example.com", Version: "v1", VersionPriority: 200}
	managed := cluster.APIService{Name: "v1beta1.example.com", Version: "v1beta1", Automanaged: true, VersionPriority: 100}
	all := []cluster.APIService{service, handmade, managed}
	foreign := []lifecycle.APIService{
		{Name: "v2.example.com", Version: "v2", Service: "ns/other", VersionPriority: 15},
		{Name: "v1.example.com", Version: "v1", VersionPriority: 200},
	}
	ordered := []string{"v2", "v1", "v1beta1"}
	for name, test := range map[string]struct {
		cluster *fakeCluster
		options Options
		want    lifecycle.Discovery
	}{
		"agrees": {
			&fakeCluster{group: ordered, aggregated: ordered, services: all}, Options{Discovery: true},
			lifecycle.Discovery{Group: ordered, Aggregated: ordered, Preferred: "v2"},
		},
		"APIServices asked for": {
			&fakeCluster{group: ordered, aggregated: ordered, services: all}, Options{Discovery: true, APIServices: true},
			lifecycle.Discovery{Group: ordered, Aggregated: ordered, Preferred: "v2", APIServices: foreign},
		},
		"versions of other resources": {
			&fakeCluster{group: []string{"v3", "v2", "v1", "v1beta1", "foo"}, aggregated: ordered}, Options{Discovery: true},
			lifecycle.Discovery{Group: ordered, Aggregated: ordered, Preferred: "v3"},
		},
		"group differs": {
			&fakeCluster{group: []string{"v1", "v2", "v1beta1"}, aggregated: ordered, services: all}, Options{Discovery: true},
			lifecycle.Discovery{Group: []string{"v1", "v2", "v1beta1"}, Aggregated: ordered, Preferred: "v1", APIServices: foreign},
		},
		"missing": {
			&fakeCluster{group: []string{"v1", "v1beta1"}, aggregated: nil, services: all}, Options{Discovery: true},
			lifecycle.Discovery{Group: []string{"v1", "v1beta1"}, Aggregated: []string{}, Preferred: "v1", APIServices: foreign},
		},
		"no aggregated document": {
			&fakeCluster{group: ordered, aggErr: cluster.ErrNotSupported}, Options{Discovery: true},
			lifecycle.Discovery{Group: ordered, Preferred: "v2"},
		},
		"group unreadable": {
			&fakeCluster{groupErr: tooMany, aggregated: ordered}, Options{Discovery: true},
			lifecycle.Discovery{Group: []string{}, Aggregated: ordered, Error: "slow down"},
		},
		"aggregated unreadable": {
			&fakeCluster{group: ordered, aggErr: tooMany}, Options{Discovery: true},
			lifecycle.Discovery{Group: ordered, Preferred: "v2", Error: "slow down"},
		},
		"APIServices unreadable": {
			&fakeCluster{group: ordered, aggregated: ordered, serviceErr: tooMany}, Options{Discovery: true, APIServices: true},
			lifecycle.Discovery{Group: ordered, Aggregated: ordered, Preferred: "v2", APIServicesError: "slow down"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := observeFake(t, test.cluster, widgets("v1beta1", "v1", "v2"), test.options)
			if diff := cmp.Diff(&test.want, got.Discovery); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMigrations(t *testing.T) {
	found := []cluster.Migration{
		{Name: "a", Phase: cluster.MigrationSucceeded, Created: time.Unix(1, 0)},
		{Name: "b", Phase: cluster.MigrationFailed, Message: "why"},
		{Name: "c", Phase: cluster.MigrationPending},
		{Name: "d", Phase: cluster.MigrationRunning},
	}
	got := observeFake(t, &fakeCluster{migration: true, migrations: found}, widgets("v1"), Options{Migrations: true})
	want := []lifecycle.Migration{{Name: "a"}, {Name: "b", Failed: true, Message: "why"}, {Name: "c", Running: true}, {Name: "d", Running: true}}
	if diff := cmp.Diff(want, got.Migrations); diff != "" || got.MigrationsError != "" {
		t.Errorf("%q (-want +got):\n%s", got.MigrationsError, diff)
	}
	without := &fakeCluster{migErr: errors.New("asked")}
	if got := observeFake(t, without, widgets("v1"), Options{Migrations: true}); got.MigrationsError != "" || without.migrationReads.Load() != 0 {
		t.Errorf("without the API: %+v", got)
	}
	if got := observeFake(t, &fakeCluster{migration: true, migErr: errors.New("denied")}, widgets("v1"), Options{Migrations: true}); got.MigrationsError != "denied" {
		t.Errorf("denied: %+v", got)
	}
}

// TestSharedReads: what concerns a group or the server is read once, whoever asks.
func TestSharedReads(t *testing.T) {
	f := &fakeCluster{group: []string{"v1"}, aggregated: []string{"v1"}, exact: true}
	o := New(f)
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			o.Observe(t.Context(), widgets("v1"), Options{Discovery: true, APIServices: true, Migrations: true})
		})
	}
	wait.Wait()
	if f.groupReads.Load() != 2 || f.serviceReads.Load() != 1 {
		t.Errorf("%d reads of groups, %d of APIServices", f.groupReads.Load(), f.serviceReads.Load())
	}
}

func TestInterruptedReadIsNotKept(t *testing.T) {
	var o once[int]
	ctx, cancel := context.WithCancel(t.Context())
	read := func() (int, error) { cancel(); return 0, context.Canceled }
	if _, err := o.get(ctx, read); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := o.get(ctx, read); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got, err := o.get(t.Context(), func() (int, error) { return 7, nil }); got != 7 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}

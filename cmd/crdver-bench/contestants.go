package main

import (
	"fmt"

	"github.com/crdver/kubectl-crdver/pkg/bench"
)

// contestant is one of those that are compared.
type contestant struct {
	ID    string
	Title string
	// request is what a run of a way does; its Namespace is the share.
	request bench.Request
	// command is the arguments of the plugin, for the one that is no way.
	command []string
	// inTree says that the controller of Kubernetes does it.
	inTree bool
	// ceiling says that it only shows what there is to reach.
	ceiling bool
	// serial says that it is a serial migrator without a limit of its own.
	serial bool
}

// The shares of the slow contestants.
const (
	shareMost = "most"
	shareSome = "some"
	shareFew  = "few"
)

// The contestants that others refer to.
const (
	idEngine  = "crdver"
	idCommand = "crdver-command"
	idInTree  = "in-tree"
)

// contestants returns all of them.
func contestants() []contestant {
	all := []contestant{
		{ID: idEngine, Title: "**crdver**, one pass", request: bench.Request{Way: bench.WayEngine}},
		{
			ID: idCommand, Title: "`kubectl crdver migrate`: plan, rehearsal of up to 1,000 objects, barrier, rewrite, verify, trim",
			command: []string{"migrate", "crontabs.stable.example.com", "--yes", "--progress", "none"},
		},
		{ID: "list-put", Title: "serial, PUT of the listed object", serial: true, request: bench.Request{Way: bench.WayListPut, Namespace: shareSome}},
		{ID: "get-put", Title: "serial, GET and PUT", serial: true, request: bench.Request{Way: bench.WayGetPut, Namespace: shareSome}},
		{ID: "empty-patch", Title: "serial, merge patch `{}`", serial: true, request: bench.Request{Way: bench.WayEmptyPatch, Namespace: shareSome}},
		{
			ID: "version-patch", Title: "serial, merge patch with resourceVersion", serial: true,
			request: bench.Request{Way: bench.WayVersionPatch, Namespace: shareSome},
		},
		{
			ID: "version-patch-50", Title: "the same, at 50 requests a second",
			request: bench.Request{Way: bench.WayVersionPatch, Namespace: shareSome, QPS: 50},
		},
		{
			ID: "version-patch-5", Title: "the same, at 5 requests a second",
			request: bench.Request{Way: bench.WayVersionPatch, Namespace: shareFew, QPS: 5},
		},
		{ID: idInTree, Title: "in-tree StorageVersionMigration", inTree: true},
	}
	return append(all, ceilings()...)
}

// ceilings returns the load generators. Nobody knows beforehand which window gets
// the most out of a server.
func ceilings() []contestant {
	var all []contestant
	for _, window := range []struct{ workers, connections int }{{8, 1}, {16, 1}, {32, 1}, {64, 2}, {128, 4}} {
		all = append(all, contestant{
			ID: fmt.Sprintf("bare-%d", window.workers), ceiling: true,
			Title:   fmt.Sprintf("bare load generator, %d at a time", window.workers),
			request: bench.Request{Way: bench.WayBare, Workers: window.workers, Connections: window.connections},
		})
	}
	return all
}

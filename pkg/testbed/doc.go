// Package testbed starts real API servers for tests and for the demo. Nothing
// in it imitates the API server: what it starts is the upstream code.
//
// There are two beds.
//
// The in-process bed, [StartInProcess], runs the apiextensions API server of
// k8s.io/apiextensions-apiserver and an etcd inside the calling process. It is
// up in about a second, needs nothing but the Go module cache, and any number
// of them can run in one process. It serves CustomResourceDefinitions and
// custom resources and nothing else: no namespaces, no RBAC, no access reviews,
// no admission webhooks or policies, no aggregation. [InProcessOptions] has
// hooks to refuse requests (Admission, Authorizer) and to delay or break them
// (Middleware).
//
// The full bed, [StartFull], runs etcd, kube-apiserver and, on request,
// kube-controller-manager as child processes, with RBAC. Its binaries come from
// the directory that the environment variable KUBEBUILDER_ASSETS names; `make
// test` builds them from Go modules and sets the variable. Tests that need this
// bed live in files that start with
//
//	//go:build controlplane
//
// so that `go test ./...` neither needs nor skips them, and `go test -tags
// controlplane ./...` (`make test`) runs them and fails when the binaries are
// missing. Tests that start the in-process bed have no tag; they skip themselves
// when testing.Short says so, which is what `make test-unit` (`go test -short
// ./...`) does to be done in seconds.
//
// What a test proves about stored objects it proves by reading etcd: see
// [Stored] and [CountByVersion].
//
//	bed, err := testbed.StartInProcess(ctx, testbed.InProcessOptions{})
//	if err != nil {
//		t.Fatal(err)
//	}
//	t.Cleanup(bed.Stop)
//	crd := testbed.CronTabs("v1beta1", "v1") // v1beta1 is the storage version
//	if _, err := testbed.CreateCRD(ctx, bed.Config(), crd); err != nil {
//		t.Fatal(err)
//	}
//	err = testbed.CreateObjects(ctx, bed.Config(), testbed.CronTabResource("v1beta1"), 200, testbed.ObjectOptions{})
//	...
//	counts, err := testbed.CountByVersion(ctx, bed.Etcd(), testbed.CronTabGroup, testbed.CronTabPlural)
package testbed

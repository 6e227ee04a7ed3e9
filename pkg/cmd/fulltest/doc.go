// Package fulltest proves the commands on a whole control plane: etcd,
// kube-apiserver, kube-controller-manager and kubectl, with RBAC, admission
// policies and webhooks, the garbage collector and the in-tree storage version
// migration. It has tests only, which need the build tag controlplane; see
// package testbed. What they say about stored objects they read from etcd.
//
// One control plane serves all tests; each has a CRD in a group of its own.
package fulltest

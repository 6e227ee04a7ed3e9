// Package chaos holds the tests that break something while objects are migrated:
// the network, the server, the process, the CRD and its objects. All that they use
// is real, the binary too; what was stored meanwhile is read from etcd, revision by
// revision.
package chaos

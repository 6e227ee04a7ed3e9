package testbed

import (
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
)

// Bed is what both beds have in common.
type Bed interface {
	// Config returns a client configuration of a user who may do everything.
	Config() *rest.Config
	// WriteKubeconfig writes a kubeconfig of that user.
	WriteKubeconfig(path string) error
	// Etcd returns a client of the etcd behind the server.
	Etcd() *clientv3.Client
	// Stop stops everything that the bed started.
	Stop()
}

var _ Bed = &InProcess{}

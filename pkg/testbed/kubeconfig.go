package testbed

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig with one context, "testbed", that connects
// as config does. Certificates and tokens are written into the file, which only
// its owner can read.
func WriteKubeconfig(path string, config *rest.Config) error {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return fmt.Errorf("loading certificates: %w", err)
	}
	const name = "testbed"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.CurrentContext = name
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   config.Host,
		TLSServerName:            config.TLSClientConfig.ServerName,
		CertificateAuthorityData: config.TLSClientConfig.CAData,
	}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token:                 config.BearerToken,
		ClientCertificateData: config.TLSClientConfig.CertData,
		ClientKeyData:         config.TLSClientConfig.KeyData,
		Impersonate:           config.Impersonate.UserName,
		ImpersonateGroups:     config.Impersonate.Groups,
	}
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

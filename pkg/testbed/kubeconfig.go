package testbed

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigName is the only context of the kubeconfigs of beds.
const kubeconfigName = "testbed"

// WriteKubeconfig writes a kubeconfig with one context, "testbed", that connects
// as config does. Certificates and tokens are written into the file, which only
// its owner can read.
func WriteKubeconfig(path string, config *rest.Config) error {
	return WriteKubeconfigs(path, map[string]*rest.Config{kubeconfigName: config})
}

// WriteKubeconfigs writes a kubeconfig with a context for each configuration, by
// the name of the context. The current one is "testbed", if it is among them.
func WriteKubeconfigs(path string, configs map[string]*rest.Config) error {
	kubeconfig := clientcmdapi.NewConfig()
	for name, config := range configs {
		config = rest.CopyConfig(config)
		if err := rest.LoadTLSFiles(config); err != nil {
			return fmt.Errorf("loading certificates: %w", err)
		}
		kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
		kubeconfig.Clusters[name] = &clientcmdapi.Cluster{
			Server:                   config.Host,
			TLSServerName:            config.TLSClientConfig.ServerName,
			InsecureSkipTLSVerify:    config.Insecure,
			CertificateAuthorityData: config.TLSClientConfig.CAData,
		}
		kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{
			Token:                 config.BearerToken,
			ClientCertificateData: config.TLSClientConfig.CertData,
			ClientKeyData:         config.TLSClientConfig.KeyData,
			Impersonate:           config.Impersonate.UserName,
			ImpersonateGroups:     config.Impersonate.Groups,
		}
	}
	if configs[kubeconfigName] != nil {
		kubeconfig.CurrentContext = kubeconfigName
	}
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

package testbed

import (
	"strings"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	basecompatibility "k8s.io/component-base/compatibility"
)

// KubernetesVersion is the version of Kubernetes that both beds run. A test
// compares it with the modules.
const KubernetesVersion = "v1.37.2"

// serverVersion makes /version answer with KubernetesVersion; without linker
// flags, a server calls itself v0.0.0.
type serverVersion struct {
	basecompatibility.EffectiveVersion
}

func newServerVersion() serverVersion {
	return serverVersion{compatibility.DefaultBuildEffectiveVersion()}
}

// Info implements EffectiveVersion.
func (v serverVersion) Info() *version.Info {
	info := v.EffectiveVersion.Info()
	if info != nil && strings.HasPrefix(info.GitVersion, "v0.0.0") {
		info.GitVersion = KubernetesVersion
		info.GitCommit, info.GitTreeState = "", ""
	}
	return info
}

#!/usr/bin/env bash
# Builds kube-apiserver, kube-controller-manager, kubectl and etcd from Go
# modules into a cache outside the tree, once for each state of go.mod and go.sum
# and each version of Go. Progress goes to stderr; stdout is the directory.
#
#   build.sh          build what is missing, print the directory
#   build.sh --dir    only print the directory
#
# KUBEBUILDER_ASSETS, when set, is that directory, and nothing is built.
set -euo pipefail

tools=(kube-apiserver kube-controller-manager kubectl etcd)

say() { echo "controlplane: $*" >&2; }

complete() {
	local tool
	for tool in "${tools[@]}"; do
		[[ -x $1/$tool ]] || return 1
	done
}

if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
	if ! complete "$KUBEBUILDER_ASSETS"; then
		say "KUBEBUILDER_ASSETS is $KUBEBUILDER_ASSETS, which lacks one of: ${tools[*]}"
		exit 1
	fi
	echo "$KUBEBUILDER_ASSETS"
	exit
fi

cd "$(dirname "${BASH_SOURCE[0]}")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-crdver/controlplane
key=$({ cat go.mod go.sum; go version; } | git hash-object --stdin)
dir=$cache/${key:0:12}

if [[ ${1:-} == --dir ]] || complete "$dir"; then
	echo "$dir"
	exit
fi

mkdir -p "$cache"
# Whoever comes second waits and finds the result. Where there is no flock, both
# build, and whoever is done first wins.
if command -v flock >/dev/null; then
	exec 9>"$cache/lock"
	flock -n 9 || say "another build is running, waiting for it"
	flock 9
	if complete "$dir"; then
		echo "$dir"
		exit
	fi
	rm -rf "$cache"/build.* # Of builds that were killed.
fi

temp=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$temp"' EXIT

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${version#v}"
package=k8s.io/component-base/version
flags="-s -w -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"

build() { # output package...
	local begin=$SECONDS
	go build -ldflags "$flags" -o "$temp/$1" "${@:2}"
	say "built ${*:2} in $((SECONDS - begin)) s"
}

say "building Kubernetes $version and etcd from Go modules into $dir"
say "the first time this takes 10 to 20 minutes on two cores, afterwards nothing"
build etcd go.etcd.io/etcd/server/v3
build "" k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kubectl
build "" k8s.io/kubernetes/cmd/kube-controller-manager
complete "$temp"

if ! complete "$dir"; then
	rm -rf "$dir" # An incomplete one, from before.
	chmod 755 "$temp"
	mv "$temp" "$dir"
	rm -rf "$dir"/build.* # Without flock, of one that was done at the same moment.
fi
say "done in $SECONDS s"
echo "$dir"

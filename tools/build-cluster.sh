#!/bin/sh
# Builds the control plane that the API server's tests run against: etcd (tools/etcd) and kube-apiserver,
# kube-controller-manager, kube-scheduler, kubectl, kubelet (tools/controlplane).
# Usage: tools/build-cluster.sh [DIRECTORY], by default .bin/cluster.
#
# Each program has a stamp: the hash of the pins it is built from. One whose stamp is right is left alone.
# Output of the compilers goes to DIRECTORY/build.log.
set -eu

tools=$(cd "$(dirname "$0")" && pwd)
bin=${1:-$(dirname "$tools")/.bin/cluster}
mkdir -p "$bin/stamps"
bin=$(cd "$bin" && pwd)
log=$bin/build.log

exec 9>"$bin/.lock"
if command -v flock >/dev/null 2>&1 && ! flock -n 9; then
	echo "waiting for another build of $bin"
	flock 9
fi
: >"$log"

export GOFLAGS="${GOFLAGS:-} -mod=readonly -trimpath -buildvcs=false" GOWORK=off CGO_ENABLED=0
version=$(sed -n "s|^.*k8s.io/kubernetes \(v[^ ]*\).*|\1|p" "$tools/controlplane/go.mod" | head -n 1)
etcd=$(sed -n "s|^.*go.etcd.io/etcd/server/v3 \(v[^ ]*\).*|\1|p" "$tools/etcd/go.mod" | head -n 1)
[ -n "$version" ] && [ -n "$etcd" ] || { echo "build-cluster: the pins cannot be read" >&2; exit 1; }
minor=${version#v1.}
minor=${minor%%.*}
flags=
for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags="$flags -X $p.gitVersion=$version -X $p.gitMajor=1 -X $p.gitMinor=$minor -X $p.gitTreeState=clean"
done

# program NAME TEXT MODULE COMMAND…
program() {
	name=$1 text=$2 module=$3
	shift 3
	stamp=$({ cat "$tools/$module/go.mod" "$tools/$module/go.sum" "$tools/build-cluster.sh"; go env GOVERSION GOARCH; } | sha256sum | cut -d' ' -f1)
	if [ -x "$bin/$name" ] && [ "$(cat "$bin/stamps/$name" 2>/dev/null || true)" = "$stamp" ]; then
		return 0
	fi
	echo "building $text"
	begin=$(date +%s)
	rm -f "$bin/stamps/$name"
	(cd "$tools/$module" && "$@" >>"$log" 2>&1) || {
		echo "build-cluster: $name failed; the end of $log:" >&2
		tail -n 25 "$log" >&2
		exit 1
	}
	echo "$stamp" >"$bin/stamps/$name"
	echo "  done in $(($(date +%s) - begin)) s"
}

kube() { # kube COMMAND
	go build -tags selinux,notest,grpcnotrace -ldflags "-s -w $flags" -o "$bin/" "k8s.io/kubernetes/cmd/$1"
}

program etcd "etcd $etcd (about 110 s on two cores when nothing is cached)" etcd \
	go build -ldflags "-s -w" -o "$bin/etcd" go.etcd.io/etcd/server/v3
program kube-apiserver "kube-apiserver $version (about 5 min)" controlplane kube kube-apiserver
program kube-controller-manager "kube-controller-manager $version (about 30 s)" controlplane kube kube-controller-manager
program kube-scheduler "kube-scheduler $version (about 10 s)" controlplane kube kube-scheduler
program kubectl "kubectl $version (about 20 s)" controlplane kube kubectl
program kubelet "kubelet $version (about 60 s)" controlplane kube kubelet

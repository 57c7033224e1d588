#!/bin/sh
# Builds the pinned programs of tools/go.mod (containerd, its shim, runc, CNI plugins, crictl), the demo
# registry and what its images are made of. Usage: tools/build-runtime.sh [DIRECTORY], by default .bin.
#
# Each group has a stamp: the hash of everything its output depends on. A group whose stamp is right and
# whose programs exist is left alone. Output of the compilers goes to DIRECTORY/build.log.
set -eu

tools=$(cd "$(dirname "$0")" && pwd)
bin=${1:-$(dirname "$tools")/.bin}
mkdir -p "$bin/cni" "$bin/images" "$bin/stamps"
bin=$(cd "$bin" && pwd)
log=$bin/build.log

# One build at a time: two `make test` in one checkout wait for each other.
exec 9>"$bin/.lock"
if command -v flock >/dev/null 2>&1 && ! flock -n 9; then
	echo "waiting for another build of $bin"
	flock 9
fi
: >"$log"

if [ "$(uname -s)" != Linux ]; then
	echo "build-runtime: the container runtime is for Linux only; this is $(uname -s)" >&2
	exit 1
fi
command -v go >/dev/null 2>&1 || { echo "build-runtime: go is not in PATH" >&2; exit 1; }

cd "$tools"
export GOFLAGS="${GOFLAGS:-} -mod=readonly -trimpath -buildvcs=false" GOWORK=off
version() { # version MODULE: the version that go.mod pins
	sed -n "s|^\(require\)\{0,1\}[[:space:]]*$1 \(v[^ ]*\).*|\2|p" go.mod | head -n 1
}
containerd=$(version github.com/containerd/containerd/v2)
runc=$(version github.com/opencontainers/runc)
plugins=$(version github.com/containernetworking/plugins)
crictl=$(version sigs.k8s.io/cri-tools)

# The pins decide what a pinned program is made of; go.sum names them all.
pins=$({ cat go.mod go.sum build-runtime.sh; go env GOVERSION GOARCH; } | sha256sum | cut -d' ' -f1)

fail() {
	echo "build-runtime: $1 failed; the end of $log:" >&2
	tail -n 25 "$log" >&2
	exit 1
}

# step NAME TEXT STAMP FILE… -- COMMAND…: runs the command unless the stamp and the files are there.
step() {
	name=$1 text=$2 stamp=$3
	shift 3
	fresh=yes
	[ "$(cat "$bin/stamps/$name" 2>/dev/null || true)" = "$stamp" ] || fresh=no
	while [ "$1" != -- ]; do
		[ -e "$bin/$1" ] || fresh=no
		shift
	done
	shift
	[ "$fresh" = no ] || return 0
	echo "building $text"
	begin=$(date +%s)
	rm -f "$bin/stamps/$name"
	"$@" >>"$log" 2>&1 || fail "$name"
	echo "$stamp" >"$bin/stamps/$name"
	echo "  done in $(($(date +%s) - begin)) s"
}

build_containerd() {
	CGO_ENABLED=0 go build -ldflags "-s -w -X github.com/containerd/containerd/v2/version.Version=$containerd" -o "$bin/" \
		github.com/containerd/containerd/v2/cmd/containerd \
		github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 \
		github.com/containerd/containerd/v2/cmd/ctr
}

# Without seccomp runc starts nothing under the default profile that CRI asks for.
build_runc() {
	CGO_ENABLED=1 go build -tags seccomp -ldflags "-s -w" -o "$bin/" github.com/opencontainers/runc
}

build_cni() {
	p=github.com/containernetworking/plugins/plugins
	CGO_ENABLED=0 go build -ldflags "-s -w" -o "$bin/cni/" \
		$p/main/bridge $p/main/ptp $p/main/loopback $p/ipam/host-local $p/meta/portmap $p/meta/firewall
}

build_registry() {
	CGO_ENABLED=0 go build -ldflags "-s -w" -o "$bin/" ./cmd/demoregistry
}

build_pause() {
	gcc -Os -static -s -o "$bin/images/pause" images/pause/pause.c
}

copy_busybox() {
	cp -L "$busybox" "$bin/images/busybox.new" &&
		"$bin/images/busybox.new" --list >"$bin/images/busybox.applets" &&
		mv "$bin/images/busybox.new" "$bin/images/busybox"
}

build_crictl() {
	CGO_ENABLED=0 go build -ldflags "-s -w -X sigs.k8s.io/cri-tools/pkg/version.Version=$crictl" -o "$bin/" \
		sigs.k8s.io/cri-tools/cmd/crictl
}

busybox=/bin/busybox
[ -x $busybox ] || busybox=/usr/bin/busybox
own=$({ echo "$pins"; find cmd/demoregistry -name '*.go' | sort | xargs cat; } | sha256sum | cut -d' ' -f1)
step containerd "containerd $containerd (about 90 s on two cores when nothing is cached)" "$pins" \
	containerd containerd-shim-runc-v2 ctr -- build_containerd
step runc "runc $runc (about 15 s)" "$pins" runc -- build_runc
step cni "CNI plugins $plugins (about 15 s)" "$pins" \
	cni/bridge cni/ptp cni/loopback cni/host-local cni/portmap cni/firewall -- build_cni
step demoregistry "demo registry (about 20 s)" "$own" demoregistry -- build_registry
step pause "pause image" "$(sha256sum <images/pause/pause.c)" images/pause -- build_pause
step busybox "busybox image" "$(sha256sum <$busybox)" images/busybox images/busybox.applets -- copy_busybox
step crictl "crictl $crictl (about 35 s)" "$pins" crictl -- build_crictl

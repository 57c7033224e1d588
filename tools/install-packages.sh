#!/bin/sh
# Installs the Debian packages that building and running the pinned runtime needs, those that are missing
# only. Says nothing when there is nothing to do.
#
#   gcc libc6-dev pkg-config libseccomp-dev   runc (cgo, seccomp) and the pause image
#   busybox-static                            the demo image
#   iptables                                  the portmap CNI plugin (hostPort), masquerading
set -eu

missing=
need() { # need PACKAGE COMMAND…: the package is missing when the check fails
	package=$1
	shift
	"$@" >/dev/null 2>&1 || missing="$missing $package"
}
need gcc command -v gcc
need libc6-dev test -e /usr/include/signal.h
need pkg-config command -v pkg-config
need libseccomp-dev pkg-config --exists libseccomp
need busybox-static sh -c 'test -x /bin/busybox || test -x /usr/bin/busybox'
need iptables sh -c 'PATH=$PATH:/usr/sbin:/sbin command -v iptables'
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
	echo "install-packages: no apt-get here; install by hand what Debian calls:$missing" >&2
	exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "install-packages: needs root; run: sudo apt-get install$missing" >&2
	exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
install() {
	# shellcheck disable=SC2086 # a list of words
	apt-get install -y -qq --no-install-recommends $missing >"$log" 2>&1
}
echo "installing Debian packages:$missing"
# The package lists are read anew only when what is on disk does not do.
if ! install && ! { apt-get update -qq >"$log" 2>&1 && install; }; then
	echo "install-packages: apt-get failed for:$missing" >&2
	tail -n 15 "$log" >&2
	exit 1
fi

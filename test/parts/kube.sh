#!/bin/sh
# Makes what a real Kubernetes API server needs, in CACHE/kube-KEY: kube-apiserver
# and kubectl, built from the modules that test/kube pins, and etcd from Debian's
# package, which is unpacked and not installed: no service of it ever starts.
# KEY is that of this recipe and of the pinned modules. Says nothing and changes
# nothing when all of it is there.
#
# Usage: kube.sh CACHE
set -eu
cache=$1
here=$(cd "$(dirname "$0")" && pwd)
modules=$here/../kube

# package parts computes the same.
key=$(cat "$here/kube.sh" "$modules/go.mod" "$modules/go.sum" | sha256sum | cut -c 1-16)
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
dir=$cache/kube-$key
[ ! -e "$dir" ] || exit 0
exec 9>"$cache/kube.lock"
flock 9
[ ! -e "$dir" ] || exit 0

# The folder gets its name when it is complete, so that a build that was
# interrupted is never taken for one.
rm -rf "$cache"/kube-*.tmp
temp=$(mktemp -d "$cache/kube-$key.XXXXXX.tmp")
trap 'rm -rf "$temp"' EXIT
chmod 755 "$temp"

mkdir "$temp/deb"
(
	cd "$temp/deb"
	fetch() { apt-get -qq -o APT::Sandbox::User=root download etcd-server; }
	fetch || { apt-get -q -o DPkg::Lock::Timeout=300 update && fetch; }
	dpkg-deb -x etcd-server_*.deb .
)
mv "$temp/deb/usr/bin/etcd" "$temp/etcd"
rm -rf "$temp/deb"

# Without the stamps the server says it is v0.0.0-master.
cd "$modules"
export GOWORK=off CGO_ENABLED=0
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v*.}
stamps=
for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	stamps="$stamps -X $p.gitVersion=$version -X $p.gitMajor=1 -X $p.gitMinor=${minor%%.*}"
done
echo "building kube-apiserver and kubectl $version; the first time takes minutes"
go build -trimpath -buildvcs=false -ldflags "-s -w$stamps" -o "$temp/" \
	k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kubectl
mv "$temp" "$dir"
echo "built $dir"

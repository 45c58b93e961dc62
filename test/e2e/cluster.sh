#!/bin/sh
# Shows a NodeConfig on its way from kubectl apply to the file, the restart and the
# status: a test that prints what it sees, on a real API server and a Debian host that
# is booted in namespaces. It needs root and what make parts builds in CACHE; without
# them it says so.
#
# Usage: cluster.sh CACHE
set -eu
cd "$(dirname "$0")"
set -- "$1"/kube-*
if [ "$(id -u)" != 0 ] || [ ! -e "$1/kube-apiserver" ]; then
	printf '\n# The same on a node of a cluster, with a real API server and a booted host: as root on Debian, make parts run\n'
	exit 0
fi
printf '\n# The same on a node of a cluster, with a real API server and a booted host:\n'
out=$(mktemp)
trap 'rm -f "$out"' EXIT
if ! go test -count=1 -v -run '^TestKube_fromApplyToTheRestartAndTheStatus$' . >"$out" 2>&1; then
	cat "$out" >&2
	exit 1
fi
sed -n -e 's/^    kube_story_linux_test.go:[0-9]*: //p' -e 's/^        //p' "$out"

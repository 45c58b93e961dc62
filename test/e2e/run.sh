#!/bin/sh
# Shows Keel managing a machine, without touching this one: a copy of an example
# root, from a directory of NodeConfigs. Needs bin/keel, or another in the
# directory $KEEL_BIN; runs as any user, without a network. The README shows what it
# prints, and a test compares.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
PATH=${KEEL_BIN:-$top/bin}:$PATH

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
cp -R "$top/test/fixtures/roots/debian" root
cp -R "$top/docs/examples/nodeconfigs" nodeconfigs
chmod -R u=rwX,go=rX .

# The settings of this machine shall not matter here. The agent's log repeats what
# it prints, for those who read only the log.
printf 'node-agent:\n  log-level: warn\n' >keel.yaml
export KEEL_CONFIG="$scratch/keel.yaml"

say() { printf '\n# %s\n' "$*"; }
show() {
	printf '$ %s\n' "$*"
	"$@"
}
pass() {
	show keel node-agent --source=dir --config-dir nodeconfigs --state-dir state --host-root root --once
}
check() { # check EXIT COMMAND…: show it, and insist on its exit code
	want=$1
	shift
	got=0
	show "$@" || got=$?
	echo "exit $got"
	[ "$got" = "$want" ] || { echo "want exit $want" >&2; exit 1; }
}

say "nodeconfigs describes five settings; root is a machine that is not like that yet. Pass 1:"
pass

say "Pass 2 finds nothing to change:"
pass

say "Somebody edits a file by hand. keel diff finds it:"
file=root/etc/ssh/sshd_config.d/05-keys-only.conf
echo "\$ echo 'PasswordAuthentication yes' >$file"
echo 'PasswordAuthentication yes' >"$file"
check 14 keel diff -f nodeconfigs/sshd.yaml --root root

say "Pass 3 fixes it:"
pass
check 0 keel diff -f nodeconfigs/sshd.yaml --root root

#!/bin/sh
# Installs and builds what tests need beside Go, as root on Debian: the packages
# of debian-packages.txt, and CACHE/debian-root, the root of a minimal Debian
# with systemd. Says nothing and changes nothing when all of it is there.
#
# Usage: debian.sh CACHE
set -eu
cache=$1
here=$(dirname "$0")

[ "$(id -u)" = 0 ] || { echo "make parts: run it as root" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "make parts: needs Debian; other systems skip the tests that need parts" >&2; exit 1; }

# Only what is missing: a machine that has everything needs no network.
missing=
for p in $(cat "$here/debian-packages.txt"); do
	dpkg-query -W -f '${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed || missing="$missing $p"
done
if [ -n "$missing" ]; then
	apt-get -q -o DPkg::Lock::Timeout=300 update
	DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
		install --no-install-recommends $missing </dev/null
fi

# The root is rebuilt when this recipe changes. It gets its name when it is
# complete, so that a build that was interrupted is never taken for one.
root=$cache/debian-root
recipe=$(cksum <"$0" | tr ' ' -)
mkdir -p "$cache"
exec 9>"$cache/debian-root.lock"
flock 9
[ "$(cat "$root/.complete" 2>/dev/null)" != "$recipe" ] || exit 0
rm -rf --one-file-system "$root".*.tmp

# The mirror is the one this machine itself installs from.
mirror() {
	apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(SITE)' \
		'Created-By: Packages' 'Origin: Debian' 'Label: Debian' |
		awk -v c="$codename" '$1 == c && $2 == "main" { print $3; exit }'
}
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
url=$(mirror)
if [ -z "$url" ]; then
	apt-get -q -o DPkg::Lock::Timeout=300 update
	url=$(mirror)
fi
[ -n "$url" ] || { echo "make parts: apt knows no mirror of Debian $codename; see /etc/apt/sources.list" >&2; exit 1; }

temp=$(mktemp -d "$root.XXXXXX.tmp")
trap 'rm -rf --one-file-system "$temp" "$temp.old"' EXIT
chmod 755 "$temp"
debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps \
	"$codename" "$temp" "$url" >"$cache/debian-root.log" 2>&1 </dev/null ||
	{ tail -n 20 "$cache/debian-root.log" >&2; exit 1; }
echo "$recipe" >"$temp/.complete"
[ ! -e "$root" ] || mv "$root" "$temp.old"
mv "$temp" "$root"
echo "built $root"

#!/bin/sh
# Fetches what the image takes from Debian, for each ARCH: the files and the
# control data of some packages, as CACHE/image/ARCH/PACKAGE.tar and
# PACKAGE.control. ARCH is a link to a folder that is named by the packages'
# content, which apt has verified. What is there stays: remove CACHE/image for
# newer packages. Any user may run it.
#
# Usage: packages.sh CACHE ARCH...
set -eu
cache=$1
shift
packages='base-files coreutils libc6 libpcre2-8-0 libselinux1 util-linux'

# have tells whether everything is there for an architecture.
have() {
	for package in $packages; do
		[ -e "$cache/image/$1/$package.control" ] || return 1
	done
}
missing=
for arch; do
	have "$arch" || missing="$missing $arch"
done
[ -n "$missing" ] || exit 0
command -v apt-get >/dev/null || { echo "make image: needs Debian, for its packages: there is no apt-get" >&2; exit 1; }

mkdir -p "$cache/image"
cache=$(cd "$cache" && pwd)
exec 9>"$cache/image/lock"
flock 9
rm -rf "$cache"/image/*.tmp
temp=$(mktemp -d --tmpdir="$cache/image" --suffix=.tmp)
trap 'rm -rf "$temp"' EXIT

# apt works in folders of its own, from the machine's sources and keys: lists of
# another architecture are not for the machine to keep.
mkdir -p "$temp/lists/partial" "$temp/archives/partial"
architectures=
for arch in $missing; do
	architectures="$architectures -o APT::Architectures::=$arch"
done
apt() {
	apt-get -q -o Dir::State="$temp" -o Dir::Cache="$temp" -o APT::Sandbox::User="$(id -un)" \
		-o APT::Get::AllowUnauthenticated=false -o Acquire::Languages=none $architectures "$@" >>"$temp/log" 2>&1 </dev/null
}
apt update || : # a source that has none of this may fail

for arch in $missing; do
	! have "$arch" || continue # another run was faster
	mkdir "$temp/deb" "$temp/files"
	for package in $packages; do
		(cd "$temp/deb" && apt download "$package:$arch") ||
			{ tail -n 20 "$temp/log" >&2; echo "make image: apt has no $package for $arch; see its sources, or leave it out: make image IMAGE_ARCH=…" >&2; exit 1; }
		dpkg-deb --fsys-tarfile "$temp"/deb/"${package}"_*.deb >"$temp/files/$package.tar"
		dpkg-deb --field "$temp"/deb/"${package}"_*.deb >"$temp/files/$package.control"
	done
	sum=$(cd "$temp/deb" && sha256sum -- *.deb | sha256sum | cut -c 1-16)
	rm -rf "$temp/deb" "$cache/image/$sum"
	chmod -R a+rX "$temp/files"
	mv "$temp/files" "$cache/image/$sum"
	ln -s "$sum" "$temp/link"
	mv -T "$temp/link" "$cache/image/$arch"
done

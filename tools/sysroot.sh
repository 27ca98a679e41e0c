#!/bin/sh
# Unpacks under FOLDER the libraries and headers of another architecture that a build and its tests need, as far as they
# come from this machine's Debian or Ubuntu: apt chooses, downloads and verifies them with lists of its own, dpkg-deb
# unpacks them. Needs no root, and runs nothing of it: for tools/cross.sh, and for programs under QEMU
# (qemu-aarch64-static -L FOLDER PROGRAM). A folder that is complete is left as it is. Usage: tools/sysroot.sh ARCH FOLDER
set -eu

[ $# = 2 ] || { echo "Usage: tools/sysroot.sh ARCH FOLDER" >&2; exit 2; }
command -v apt-get >/dev/null || { echo "tools/sysroot.sh: apt-get not found; needs Debian or Ubuntu" >&2; exit 1; }
arch=$1 root=$2
[ ! -e "$root/complete" ] || exit 0
mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial"
root=$(cd "$root" && pwd -P)
: >"$root/apt/status" # nothing is installed

private() {
    apt-get -qq -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o Dir::State="$root/apt" \
        -o Dir::State::status="$root/apt/status" -o Dir::Cache="$root/apt/cache" -o APT::Sandbox::User=root \
        -o Debug::NoLocking=1 "$@"
}

private update
# shellcheck disable=SC2046  # a list of packages
private --download-only --no-install-recommends -y install $("$(dirname "$(realpath "$0")")/deps.sh" --list build test | grep -- '-dev$') >/dev/null
for package in "$root"/apt/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
rm -r "$root/apt/cache"
touch "$root/complete"

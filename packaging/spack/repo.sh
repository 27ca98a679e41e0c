#!/bin/sh
# Makes a Spack repository with the recipe of Trine beside it, for one tar of make dist: writes the tar's SHA-256 and place into
# it. Usage: packaging/spack/repo.sh build/trine-VERSION.tar.gz FOLDER; then spack repo add FOLDER, spack install trine.
set -eu

fail() {
    echo "packaging/spack/repo.sh: $*" >&2
    exit 1
}

[ $# = 2 ] || fail "takes a tar of make dist and a folder, not $# arguments"
here=$(cd "$(dirname "$0")" && pwd)
tar=$1 folder=$2
[ -f "$tar" ] || fail "$tar: no such file; make dist writes it"
version=$(sed -n 's/^    version("\([^"]*\)".*/\1/p' "$here/package.py")
[ "$(basename "$tar")" = "trine-$version.tar.gz" ] || fail "$tar: the recipe is for trine-$version.tar.gz"
[ ! -e "$folder" ] || fail "$folder: exists"

sum=$(sha256sum "$tar" | cut -d ' ' -f 1)
place=$(cd "$(dirname "$tar")" && pwd)/$(basename "$tar")
mkdir -p "$folder/packages/trine"
printf 'repo:\n  namespace: trine\n' >"$folder/repo.yaml"
sed "s|@SHA256@|$sum|; s|@URL@|file://$place|" "$here/package.py" >"$folder/packages/trine/package.py"

#!/bin/bash
# make dist has the same bytes in two clones; what names a version names this one; the lists of packages agree.
set -eu
. tests/lib.sh
needs make git gzip sha256sum

version=$(sed -n 's/.*TRINE_VERSION "\(.*\)"/\1/p' include/trine.h)
tar=trine-$version.tar.gz

# ---- make dist

# dist CLONE: with this tree's Makefile, which may not be committed
dist() {
    make -s -C "$1" -f "$PWD/Makefile" CUDA=0 BUILD=out dist
}
# The second has other settings, times, permissions and another name.
two_clones() {
    git clone -q "$top" "$dir/one" && git clone -q "$top" "$dir/another name" &&
        git -C "$dir/another name" config core.autocrlf true && git -C "$dir/another name" config tar.umask 0077 &&
        dist "$dir/one" && (umask 077 && TZ=Asia/Tokyo GZIP=-1 dist "$dir/another name") &&
        cmp "$dir/one/out/$tar" "$dir/another name/out/$tar"
}
names() {
    tar -tzf "$dir/one/out/$tar" | grep -v '/$' | sed "s|^trine-$version/||" | sort >"$dir/names"
    git ls-tree -r --full-tree --name-only HEAD | sort | diff - "$dir/names"
}
modes() {
    tar -tvzf "$dir/one/out/$tar" | awk '{ print substr($1, 2), $2 }' | sort -u >"$dir/modes"
    printf '%s root/root\n' rw-r--r-- rwxr-xr-x | diff - "$dir/modes"
}
# The recipe of Spack for this tar, and for none other
spack_repo() {
    packaging/spack/repo.sh "$dir/one/out/$tar" "$dir/spack" &&
        grep -q "version(\"$version\", sha256=\"$(sha256sum "$dir/one/out/$tar" | cut -d ' ' -f 1)\", url=\"file://$dir/one/out/$tar\")" \
            "$dir/spack/packages/trine/package.py" && grep -q "namespace: trine" "$dir/spack/repo.yaml" &&
        ! packaging/spack/repo.sh "$dir/one/README.md" "$dir/spack2" && [ ! -e "$dir/spack2" ] &&
        grep -q "README.md: the recipe is for $tar" "$dir/said"
}
no_changes() {
    echo >>"$dir/one/README.md" && ! dist "$dir/one" && grep -q "changes that are not committed" "$dir/said" && grep -q " M README.md" "$dir/said"
}
no_clone() {
    mkdir "$dir/unpacked" && tar -xzf "$dir/another name/out/$tar" -C "$dir/unpacked" --strip-components=1 &&
        ! GIT_CEILING_DIRECTORIES=$dir dist "$dir/unpacked" && grep -q "make dist: no commit here" "$dir/said"
}
if top=$(git rev-parse --show-toplevel 2>/dev/null) && git rev-parse -q --verify HEAD >/dev/null; then
    check "two clones, one tar" two_clones
    check "it has the files of the commit" names
    check "each is root's, to be read by all" modes
    check "Spack's recipe has its sum" spack_repo
    check "changes that are not committed are refused" no_changes
    check "what is no clone is refused" no_clone
else
    skip "two clones, one tar" "no clone of git"
fi

# ---- Versions and lists

# newest FILE: of debian/changelog, the Debian revision cut off
says_version() {
    [ "$(sed -n '1s/.*(\([^)-]*\).*/\1/p' debian/changelog)" = "$version" ] || { echo "debian/changelog"; return 1; }
    grep -q "^version: $version$" CITATION.cff || { echo "CITATION.cff"; return 1; }
    grep -q "^    version(\"$version\"" packaging/spack/package.py || { echo "packaging/spack/package.py"; return 1; }
    grep -q "trine-$version" packaging/apptainer.def || { echo "packaging/apptainer.def"; return 1; }
    ! grep -oE "trine[-_][0-9]+\.[0-9]+\.[0-9]+|trine@[0-9.]*[0-9]" docs/install.md packaging/apptainer.def | grep -v "trine[-_@]$version$"
}
check "each file that names a version names $version" says_version
soname() {
    grep -q "^Package: libtrine${version%%.*}$" debian/control
}
check "the library's package has the name of the library" soname

# What is essential for every build is not written there.
dependencies() {
    tools/deps.sh --list build | grep -vxE 'gcc|make|libc6-dev' | sort >"$dir/build"
    sed -n '/^Build-Depends:/,/^[A-Z]/p' debian/control | grep -oE '[a-z0-9.+-]+(-dev|-bin|dygraphs)\b' | sort | diff "$dir/build" -
}
check "debian/control needs what tools/deps.sh build does" dependencies
done_testing

#!/bin/sh
# Unpacks Debian packages, with what they need and this system lacks, under a prefix, without root: what tools/deps.sh
# --user calls. Usage: tools/deps_user.sh PREFIX PACKAGE...
#
# apt chooses, downloads and verifies them, with lists of its own under PREFIX/apt; dpkg-deb unpacks them. The C library
# itself stays the system's: programs start with the loader that belongs to it. Where there is no apt, or with
# SOURCES=yes, tools/deps_sources.sh builds them. Writes what makes them work in a place that they were not built for:
#
#     PREFIX/env.sh                   for a shell: . PREFIX/env.sh
#     PREFIX/env.mk                   for make, which reads it by way of deps.mk in the checkout
#     PREFIX/modulefiles/trine-deps   for environment modules and Lmod: module use PREFIX/modulefiles
#     PREFIX/lib/libtrine-deps.so     linked into programs: Open MPI in them looks for its parts under PREFIX
#
# Programs have the prefix's folders of libraries as RPATH, which also counts for the libraries of their libraries.
set -eu

prefix=$1
shift
mkdir -p "$prefix/bin" "$prefix/lib" "$prefix/unpacked" "$prefix/modulefiles" 2>/dev/null || {
    echo "tools/deps.sh: PREFIX=$prefix cannot be written: name a folder of yours" >&2
    exit 1
}
prefix=$(cd "$prefix" && pwd -P)
case $prefix in
    *[!A-Za-z0-9/._+-]*)
        echo "tools/deps.sh: PREFIX=$prefix: make and MPI's wrappers take only letters, digits and / . _ + - in it" >&2
        exit 1
        ;;
esac
triplet=$(uname -m)-linux-gnu

# private COMMAND ARGUMENTS...: an apt command with lists and a cache of its own; which packages are installed is the
# system's
private() {
    command=$1
    shift
    "$command" -qq -o Dir::State="$prefix/apt" -o Dir::State::status=/var/lib/dpkg/status \
        -o Dir::Cache="$prefix/apt/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}

# wanted PACKAGE...: "NAME VERSION" of each package that apt would install for these; none if all are installed
wanted() {
    private apt-get -s --no-install-recommends install "$@" |
        sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1 \2/p' |
        awk '!/^(libc6|libc-bin|base-files|dpkg|apt) /'
}

# unpack NAME VERSION: unless it is there
unpack() {
    stamp=$prefix/unpacked/$1_$2
    [ ! -e "$stamp" ] || return 0
    rm -f "$prefix/apt/$1_"*.deb
    (cd "$prefix/apt" && private apt-get download "$1=$2")
    dpkg-deb -x "$prefix/apt/$1_"*.deb "$prefix"
    rm -f "$prefix/apt/$1_"*.deb
    touch "$stamp"
}

# Links with absolute paths, and the C library's linker scripts, name places of the system.
relocate() {
    find "$prefix" -type l -lname '/*' ! -lname "$prefix/*" | while read -r link; do
        target=$(readlink "$link")
        if [ -e "$prefix$target" ]; then ln -sfn "$prefix$target" "$link"; fi
    done
    grep -l '^GROUP *( */' "$prefix/usr/lib/$triplet"/*.so 2>/dev/null | while read -r script; do
        grep '^GROUP' "$script" | tr ' ' '\n' | grep '^/' | while read -r file; do
            if [ -e "$prefix$file" ]; then sed -i "s|\([( ]\)$file |\1$prefix$file |" "$script"; fi
        done
    done
}

# link NAME FILE: NAME in PREFIX/bin, if the file was unpacked
link() {
    if [ -e "$prefix/usr/bin/$2" ]; then ln -sf "../usr/bin/$2" "$prefix/bin/$1"; fi
}

# What the packages' own scripts would do, as far as Trine uses it.
configure() {
    link cc gcc
    link c++ g++
    for name in mpicc mpirun mpiexec; do link $name $name.openmpi; done
    for folder in "$prefix/usr/include/c++"/[0-9]*; do
        [ -d "$folder" ] || continue
        ln -sfn "${folder##*/}" "$prefix/usr/include/c++/current"
        ln -sfn "${folder##*/}" "$prefix/usr/include/$triplet/c++/current"
    done
    find "$prefix/usr/lib" -path '*/libpsm1/libpsm_infinipath.so.1.*' -exec \
        ln -sf {} "$prefix/usr/lib/$triplet/libpsm_infinipath.so.1" \;
    if [ -e "$prefix/usr/share/doc/libjs-dygraphs/copyright" ]; then
        ln -sf ../../doc/libjs-dygraphs/copyright "$prefix/usr/share/javascript/dygraphs/LICENSE.txt"
    fi
}

libraries="usr/lib/$triplet usr/lib/$triplet/openmpi/lib usr/lib/$triplet/pmix2/lib usr/lib lib/$triplet lib"

# table: what the environment must have, a line each: "list NAME FOLDERS", which go in front of what the variable has, or
# "value NAME VALUE"
table() {
    echo "list PATH $(under bin usr/bin usr/sbin)"
    # shellcheck disable=SC2086  # a list
    for name in LD_LIBRARY_PATH LIBRARY_PATH; do echo "list $name $(under $libraries)"; done
    echo "list C_INCLUDE_PATH $(under include usr/include "usr/include/$triplet")"
    echo "list CPLUS_INCLUDE_PATH $(under usr/include/c++/current "usr/include/$triplet/c++/current" include \
        usr/include "usr/include/$triplet")"
    echo "list PKG_CONFIG_PATH $(under lib/pkgconfig "usr/lib/$triplet/pkgconfig" usr/share/pkgconfig)"
    for folder in "$prefix"/usr/share/perl/5.*.* "$prefix/usr/lib/$triplet"/perl/5.*.*; do
        if [ -d "$folder" ]; then echo "list PERL5LIB $folder"; fi
    done
    echo "value TRINE_DEPS $prefix"
    if [ -e "$prefix/usr/bin/orterun" ]; then
        echo "value OPAL_PREFIX $prefix/usr"
        pmix=$prefix/usr/lib/$triplet/pmix2
        printf 'value %s\n' "PMIX_PREFIX $pmix" "PMIX_PKGLIBDIR $pmix/lib/pmix" "PMIX_PKGDATADIR $pmix/share/pmix"
    fi
    if [ -e "$prefix/usr/share/i18n" ]; then echo "value I18NPATH $prefix/usr/share/i18n"; fi
    for curves in "$prefix/usr/share/javascript/dygraphs/dygraph.min.js" "$prefix/no-curves"; do
        if [ -e "$curves" ]; then echo "value DYGRAPHS ${curves%"$prefix/no-curves"}"; fi
    done
}

# under FOLDER...: their paths, with colons between
under() {
    paths=
    for folder in "$@"; do paths="$paths${paths:+:}$prefix/$folder"; done
    echo "$paths"
}

# Make's own calls of commands, $(shell), have the environment only by way of the shell (until make 4.4).
write_environment() {
    table | awk '
        $1 == "list" { printf "export %s=\"%s${%s:+:$%s}\"\n", $2, $3, $2, $2 }
        $1 == "value" { printf "export %s=\"%s\"\n", $2, $3 }' >"$prefix/env.sh"
    printf '#!/bin/sh\n. %s/env.sh\nexec /bin/sh "$@"\n' "$prefix" >"$prefix/bin/trine-deps-sh"
    chmod +x "$prefix/bin/trine-deps-sh"
    {
        echo "SHELL := $prefix/bin/trine-deps-sh"
        table | sed -n 's/^value DYGRAPHS /DYGRAPHS := /p'
        # The library is in front of MPI's, which finds loaded what they need.
        printf 'DEPS_LIBS := -Wl,--disable-new-dtags'
        for folder in $libraries; do printf ' -L%s -Wl,-rpath,%s' "$prefix/$folder" "$prefix/$folder"; done
        printf ' -Wl,--push-state,--no-as-needed -ltrine-deps -Wl,--pop-state\n'
    } >"$prefix/env.mk"
    {
        printf '#%%Module1.0\nmodule-whatis "what Trine needs and this system lacks, under %s"\n' "$prefix"
        table | sed -e '/^value DYGRAPHS $/d' -e 's/^list/prepend-path/' -e 's/^value/setenv/'
    } >"$prefix/modulefiles/trine-deps"
}

# What Open MPI's libraries and parts need for C, under the prefix. They are marked with a place of the system (RUNPATH), so
# that a program's RPATH does not count for what they need, unless it is loaded already.
needed() {
    find "$prefix/usr/lib/$triplet/openmpi" -name '*.so' -exec ldd {} + 2>/dev/null |
        awk -v prefix="$prefix/" '
            index($3, prefix) == 1 && $1 !~ /^lib(oshmem|mpi_)/ && !seen[$3]++ { print $3 }'
}

# A program that is started without the environment finds its libraries by RPATH, and Open MPI its parts by this. A rank
# that was started without mpirun starts a daemon of Open MPI, which has no RPATH and looks for ssh, unless told that it
# will start nothing.
write_library() {
    {
        printf '#define _GNU_SOURCE\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'
        printf '__attribute__((constructor)) static void prefix(void) {\n'
        table | sed -n 's/^value \(O[A-Z]*_[^ ]*\|PMIX_[^ ]*\) \(.*\)/    setenv("\1", "\2", 0);/p'
        if [ -e "$prefix/usr/bin/orterun" ]; then
            table | sed -n 's/^list LD_LIBRARY_PATH \(.*\)/    const char *own = "\1", *old = getenv("LD_LIBRARY_PATH");/p'
            printf '    setenv("OMPI_MCA_plm", "isolated", 0);\n'
            printf '    char *all;\n    if (old && strncmp(old, own, strlen(own)) == 0) return;\n'
            printf '    if (asprintf(&all, old && *old ? "%%s:%%s" : "%%s", own, old) < 0) return;\n'
            printf '    setenv("LD_LIBRARY_PATH", all, 1);\n    free(all);\n'
        fi
        echo '}'
    } >"$prefix/lib/trine-deps.c"
    # shellcheck disable=SC2046  # a list of files
    cc -shared -fPIC -O1 -o "$prefix/lib/libtrine-deps.so" "$prefix/lib/trine-deps.c" -Wl,--no-as-needed $(needed) \
        $(sed -n 's/^DEPS_LIBS := \(.*\) -Wl,--push-state.*/\1/p' "$prefix/env.mk")
}

unpack_all() {
    echo "unpacking them under $prefix"
    mkdir -p "$prefix/apt/lists/partial" "$prefix/apt/cache/archives/partial"
    private apt-get update
    wanted "$@" >"$prefix/apt/wanted"
    if ! [ -s "$prefix/apt/wanted" ]; then
        echo "tools/deps.sh: dpkg says that all of this is installed, but it is not usable here: $*" >&2
        exit 1
    fi
    while read -r name version; do unpack "$name" "$version"; done <"$prefix/apt/wanted"
    rm -rf "$prefix/apt"
    relocate
    configure
}

# The same from sources. Without dygraphs trine-report's pages have no curves.
build_all() {
    for package in "$@"; do
        shift
        if [ "$package" = libjs-dygraphs ]; then touch "$prefix/no-curves"; else set -- "$@" "$package"; fi
    done
    "$(dirname "$(realpath "$0")")/deps_sources.sh" "$prefix" "$@"
}

if [ $# -eq 0 ]; then
    : # only the environment, anew
elif [ -z "${SOURCES:-}" ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    unpack_all "$@"
else
    build_all "$@"
fi
write_environment
# shellcheck disable=SC1091  # just written
. "$prefix/env.sh"
write_library

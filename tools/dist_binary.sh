#!/bin/bash
# Makes a tar of what make dist-binary has installed in WORK/stage: programs, the shared library with its headers, and the
# libraries that they load, but for the C library's and MPI's. Usage: tools/dist_binary.sh WORK VERSION MARCH FOLDER
#
# The tar FOLDER/trine-VERSION-MACHINE.tar.gz has README with what it needs, and licenses/ of what it brings (Debian's
# copyright files). Its files have the time of the newest commit.
set -euo pipefail

work=$1 version=$2 march=$3 folder=$4
machine=$(uname -m)
name=trine-$version-$machine
root=$work/$name

rm -rf "$root"
mkdir -p "$root"
cp -a "$work/stage/." "$root"
# An archive and files for pkg-config and CMake are for who builds against the source's install.
rm -rf "$root"/lib/{libtrine.a,pkgconfig,cmake}

programs() {
    find "$root/bin" "$root/lib" -maxdepth 1 -type f
}

# The libraries that are loaded, but for the C library's own and MPI: name and file.
loaded() {
    # shellcheck disable=SC2046  # split into arguments
    ldd $(programs) | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u |
        grep -vE '^(lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|mpi_abi)|ld-linux[^ ]*)\.so'
}

# licenses NAME FILE: of the package that the library is from
licenses() {
    local package
    package=$(dpkg-query -S "$(realpath "$2")" "*/$(basename "$(realpath "$2")")" 2>/dev/null | sed -n '1s/:.*//p' || true)
    [ -e "/usr/share/doc/$package/copyright" ] || {
        echo "tools/dist_binary.sh: $2: no Debian package contains it, so its licence is unknown" >&2
        exit 1
    }
    cp -L "/usr/share/doc/$package/copyright" "$root/licenses/$1"
}

find "$root/bin" "$root/lib" -type f -exec strip --strip-debug {} +
mkdir "$root/licenses"
cp LICENSE "$root/licenses/trine"
loaded >"$work/loaded"
while read -r library file; do
    cp -L "$file" "$root/lib/$library"
    chmod 644 "$root/lib/$library"
    licenses "$library" "$file"
done <"$work/loaded"

# What they need of the C library.
# shellcheck disable=SC2046
glibc=$(objdump -T $(programs) | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
[ "$march" = any ] && march="x86-64-v2 and later: kernels for the processor are chosen at the start"
cat >"$root/README" <<END
Trine $version for $machine, with the libraries that it loads in lib/, their licenses in licenses/. Compiled for
$march.

It needs the C library of ${glibc/GLIBC_/glibc } or later, and an MPI library with the standard's binary interface
(MPI 5, libmpi_abi.so.1) and its mpirun, for example PyPI's mpich 5:

    python3 -m venv mpi && mpi/bin/pip install 'mpich>=5.0.2'
    export LD_LIBRARY_PATH=\$PWD/mpi/lib
    mpi/bin/mpirun -np 4 bin/trine-train --help

There is no object for GPUs in it. Manual pages are in share/man; the documents come with the sources.
END
commit=$(git log -1 --format=%ct 2>/dev/null || date +%s)
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$commit" -C "$work" -cf - "$name" | gzip -n -9 >"$folder/$name.tar.gz"
sha256sum "$folder/$name.tar.gz"

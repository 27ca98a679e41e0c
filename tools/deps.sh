#!/bin/sh
# Installs missing dependencies. Usage: tools/deps.sh [build] [test] [full] [slurm] [mpi] [demo] [clang] [bare]
# [outside] [report] [packages] [levels] [aarch64].
# A dependency counts as present if it can be used (a command runs, a header is found), from whatever source;
# if all are present nothing is printed. Missing packages are installed with apt on Debian and Ubuntu, as root or
# through sudo; elsewhere they are listed and the exit status is 1.
#
# tools/deps.sh --user [GROUP...] needs neither root nor sudo: it unpacks what is missing under PREFIX (default:
# ~/trine-deps; tools/deps_user.sh) and writes deps.mk, which make reads from then on. What a later make needs is
# unpacked there, too. Without apt, or with SOURCES=yes, it builds libraries from sources (tools/deps_sources.sh).
#
# tools/deps.sh --list [GROUP...] only prints the packages of the groups (default: all groups), one a line:
# tests run with the commands of these packages and no others (tests/path.sh).
set -eu

case ${1:-} in
    -h | --help) sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" && exit ;;
esac
list='' user=${TRINE_DEPS:-}
if [ "${1:-}" = --list ]; then
    list=yes
    shift
    [ $# -gt 0 ] || set -- build test full slurm mpi demo clang bare outside report packages levels aarch64
elif [ "${1:-}" = --user ]; then
    shift
    user=${PREFIX:-${TRINE_DEPS:-$HOME/trine-deps}}
    # shellcheck disable=SC1091  # of an earlier call
    if [ -e "$user/env.sh" ]; then . "$user/env.sh"; fi
fi
case $user in '' | /*) ;; *) user=$PWD/$user ;; esac
cd "$(dirname "$(realpath "$0")")/.." # where deps.mk is
[ $# -gt 0 ] || set -- build test demo

missing=

# need PACKAGE PROBE...: the probe succeeds if the contents of the package are usable.
need() {
    package=$1
    shift
    if [ -n "$list" ]; then
        echo "$package"
        return
    fi
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

has() {
    command -v "$1"
}

header() {
    echo "#include <$1>" | cc -E -x c -
}

pcre2_header() {
    printf '#define PCRE2_CODE_UNIT_WIDTH 8\n#include <pcre2.h>\n' | cc -E -x c -
}

cmocka_header() {
    printf '#include <%s>\n' stdarg.h stddef.h stdint.h setjmp.h cmocka.h | cc -E -x c -
}

# Clang uses the C++ library of the newest GCC that it finds.
clang_cxx() {
    echo '#include <cstdlib>' | clang++ -E -x c++ -
}

openmp_clang() {
    echo 'int main(void) { return 0; }' | clang -fopenmp -x c - -o /dev/null
}

german_source() {
    test -e "${I18NPATH:-/usr/share/i18n}/locales/de_DE" && localedef --version
}

# The library of trine-report's curves, unless make DYGRAPHS=FILE names another place, or none.
curves() {
    test -n "${DYGRAPHS+set}" || test -e /usr/share/javascript/dygraphs/dygraph.min.js
}

prove_runs() {
    prove --version
}

venv_runs() {
    python3 -c 'import ensurepip'
}

# Without a compiler no header can be found: all header packages are requested then, which does no harm.
for group in "$@"; do
    case $group in
        build)
            need gcc has cc
            need libc6-dev header stdio.h
            need make has make
            need libopenmpi-dev has "${MPICC:-mpicc}"
            need openmpi-bin has "${MPIRUN:-mpirun}"
            need libdnnl-dev header oneapi/dnnl/dnnl.h
            need libcjson-dev header cjson/cJSON.h
            need libxxhash-dev header xxhash.h
            need libpcre2-dev pcre2_header
            need libutf8proc-dev header utf8proc.h
            need zlib1g-dev header zlib.h
            need libzstd-dev header zstd.h
            need libjs-dygraphs curves
            ;;
        test)
            need g++ has c++
            need binutils has readelf
            need libcmocka-dev cmocka_header
            need perl prove_runs
            need locales german_source
            need pkg-config has pkg-config
            need procps has pgrep
            need util-linux has unshare
            need mount has mount
            need git has git
            need gzip has gzip
            need zstd has zstd
            ;;
        full)
            need iproute2 has ip
            need bible-kjv has bible
            ;;
        slurm)
            need munge has munged
            need slurmctld has slurmctld
            need slurmd has slurmd
            need slurm-client has sbatch
            ;;
        demo) need bible-kjv has bible ;;
        clang)
            need clang has clang
            need libomp-dev openmp_clang
            need g++ clang_cxx
            ;;
        bare)
            need debootstrap has debootstrap
            need apt has apt-get
            ;;
        mpi) # in addition to Open MPI (tests/mpi)
            need libmpich-dev has mpicc.mpich
            need mpich has mpirun.mpich
            need python3-venv venv_runs
            ;;
        outside) # PyTorch and transformers (tools/venv.sh); Perfetto's pages
            need python3-venv venv_runs
            ;;
        levels) need qemu-user-static has qemu-x86_64-static ;; # processors that are not here (tests/build/levels.t)
        report) need chromium has chromium ;; # pages in a browser (tests/report/page.t)
        packages) # find_package, make abi-check
            need cmake has cmake
            need abigail-tools has abidiff
            ;;
        aarch64) # a Debian of another architecture, emulated, and its compilers (tools/cross.sh)
            need debootstrap has debootstrap
            need qemu-user-static has qemu-aarch64-static
            need binfmt-support has update-binfmts
            need gcc-aarch64-linux-gnu has aarch64-linux-gnu-gcc
            need g++-aarch64-linux-gnu has aarch64-linux-gnu-g++
            ;;
        *)
            echo "tools/deps.sh: unknown group \"$group\"; valid: build, test, full, slurm, mpi, demo, clang, bare, outside, report, packages, levels, aarch64" >&2
            exit 1
            ;;
    esac
done
# is_whole: what was unpacked under the prefix has its environment, and this checkout knows it
is_whole() {
    [ -z "$user" ] || [ ! -e "$user/env.mk" ] || grep -qx "include $user/env.mk" deps.mk 2>/dev/null
}

[ -n "$missing" ] || { is_whole && exit 0; }

if [ -n "$missing" ]; then echo "missing Debian packages:$missing"; fi
if [ -n "$user" ]; then
    # shellcheck disable=SC2086  # a list of packages
    tools/deps_user.sh "$user" $missing
    echo "include $(cd "$user" && pwd -P)/env.mk" >deps.mk
    exit
fi

# shellcheck disable=SC1091  # a system file
distribution=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${ID_LIKE:-}") || distribution=
case " $distribution " in
    *" debian "* | *" ubuntu "*) ;;
    *)
        echo "not Debian or Ubuntu: install them by hand (upstream names: oneDNN, Open MPI or MPICH, cJSON," \
            "xxHash, PCRE2, utf8proc, zlib, Zstandard, cmocka, ...) and try again, or build them without root:" \
            "tools/deps.sh --user (docs/clusters.md)"
        exit 1
        ;;
esac

sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
        echo "neither root nor sudo available: tools/deps.sh --user $* unpacks them under $HOME/trine-deps" \
            "(docs/clusters.md), or have root run  apt-get install$missing"
        exit 1
    }
    sudo=sudo
fi
echo "installing them with apt-get"
$sudo apt-get -qq update
# shellcheck disable=SC2086  # a list of packages
$sudo env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends $missing >/dev/null

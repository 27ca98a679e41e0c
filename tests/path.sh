#!/bin/sh
# Prints the PATH that tests run with. On Debian and Ubuntu it is a folder of links to the commands of the essential
# packages and of those that tools/deps.sh installs, with their dependencies. So a test that calls any other command
# fails on every machine, not only on one that lacks it. CC, CXX, MPICC and MPIRUN resolve as in the caller's PATH,
# with the other commands of that MPI. Without dpkg the PATH is unchanged.
#
# Some cases call a tool that make check does not install: they run where it is installed, in whatever folder of the
# caller's PATH, and are skipped and counted elsewhere (tests/Slots.pm). TRINE_OPTIONAL names these tools; empty: none,
# as on a machine that has no other packages than those.
# Usage: tests/path.sh BUILD [GROUP...]: groups of tools/deps.sh (default: all)
set -eu

build=$1
shift
packages=$(tools/deps.sh --list "$@")
command -v dpkg-query >/dev/null || {
    printf '%s\n' "$PATH"
    exit
}

# The paths of the given commands; in such a PATH itself, those of the caller that it was made for.
places() {
    for word in "$@"; do
        case $word in -*) continue ;; esac
        place=$(command -v "$word") || continue
        # A link to ccache, as in Debian's /usr/lib/ccache, calls the next of its name in PATH.
        case $word:$(realpath "$place") in
            ccache:* | */ccache:*) ;;
            *:*/ccache) place=$(PATH=$(echo "$PATH" | tr : '\n' | grep -vxF "${place%/*}" | paste -s -d :) && command -v "$word") || continue ;;
        esac
        case $place in */path/[0-9]*/*) readlink "$place" || echo "$place" ;; *) echo "$place" ;; esac
    done
}

# shellcheck disable=SC2086  # "ccache gcc" is two arguments
compilers=$(places ${CC:-cc} ${CXX:-c++}) mpi=$(places ${MPICC:-mpicc} ${MPIRUN:-mpirun})
# shellcheck disable=SC2086  # a list of commands
optional=$(places ${TRINE_OPTIONAL-cmake abidiff abidw python3 clang clang++})
key=$({
    echo "$packages" "$compilers" "$mpi" "$optional"
    cat "$0"
    stat -c %y /var/lib/dpkg/status
} | cksum | tr -d ' ')
folder=$build/path/$key

# The full names of the packages and of their dependencies; of alternatives, all that are installed.
installed() {
    # shellcheck disable=SC2016  # dpkg's own variables
    dpkg-query -W -f '${db:Status-Status}\t${Package}\t${binary:Package}\t${Essential}\t${Pre-Depends},${Depends}\t${Provides}\n' |
        awk -F '\t' -v wanted="$(echo "$packages" | tr '\n' ',')" '
        function words(text, into) {
            gsub(/\([^)]*\)|:[a-z0-9]+| /, "", text)
            return split(text, into, /[,|]/)
        }
        function want(text,    names, n) {
            for (n = words(text, names); n > 0; n--)
                if (!(names[n] in seen)) { seen[names[n]]; queue[++last] = names[n] }
        }
        $1 == "installed" {
            full[$2] = full[$2] " " $3
            needs[$2] = $5
            for (n = words($6, names); n > 0; n--) provided[names[n]] = provided[names[n]] "," $2
            if ($4 == "yes") wanted = wanted "," $2
        }
        END {
            want(wanted)
            for (at = 1; at <= last; at++) {
                name = queue[at]
                want(provided[name])
                if (!(name in full)) continue
                print full[name]
                want(needs[name])
            }
        }'
}

# The commands that belong to a package, or that link to such a command (alternatives). A file in /usr/bin may be
# listed under /bin.
commands() {
    for place in /usr/bin /usr/sbin /bin /sbin; do
        if [ -d $place ] && [ ! -L $place ]; then find $place -maxdepth 1 ! -type d; fi
    done >"$new/.all"
    installed | xargs dpkg-query -L | grep -E '^(/usr)?/s?bin/' >"$new/.owned"
    # shellcheck disable=SC2094  # both only read the file
    tr '\n' '\0' <"$new/.all" | xargs -0 realpath -m | paste "$new/.all" - | awk -F '\t' '
        { sub(/^\/usr/, "", $NF) }
        NR == FNR { owned[$1]; next }
        { plain = $1; sub(/^\/usr/, "", plain) }
        plain in owned || $2 in owned { print $1 }' "$new/.owned" -
}

# The other commands of each MPI are in the folders of its compiler and its launcher.
of_mpi() {
    for command in $mpi; do
        find "${command%/*}/" -maxdepth 1 ! -type d \( -name 'mpi*' -o -name 'ompi*' -o -name 'opal*' -o -name 'orte*' \
            -o -name 'prte*' -o -name 'prun*' -o -name 'pmix*' -o -name 'hydra*' \)
    done
}

if [ ! -d "$folder" ]; then
    mkdir -p "$build/path"
    find "$build/path" -mindepth 1 -maxdepth 1 -mtime +1 -exec rm -r {} + # no longer used
    new=$(mktemp -d "$build/path/new-XXXXXX")
    commands | xargs ln -sf -t "$new" # a command may be in two folders
    rm "$new/.all" "$new/.owned"
    # shellcheck disable=SC2046,SC2086  # one argument each
    ln -sf -t "$new" $(realpath -s $compilers $mpi $optional $(of_mpi))
    # Another make may have created it first.
    mv -T "$new" "$folder" 2>/dev/null || rm -r "$new"
fi
touch "$folder"
# What tools/deps.sh --user has unpacked, dpkg does not know.
echo "$(realpath "$folder")${TRINE_DEPS:+:$TRINE_DEPS/bin:$TRINE_DEPS/usr/bin}"

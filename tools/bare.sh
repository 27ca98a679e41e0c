#!/bin/bash
# Runs the README's two commands (make demo, make check) on a minimal Debian: a chroot made by
# debootstrap --variant=minbase, with git and make installed and the current commit cloned into it.
# Usage: tools/bare.sh [--user] [COMMAND...]; needs root, on Debian or Ubuntu.
#
# --user: the clone belongs to a user of the chroot without root and sudo, who runs the commands: tools/deps.sh --user
# build demo; make demo.
#
# apt's sources, keys, certificates and proxies are taken from this machine. Logs are written to BUILD/bare
# (BUILD: build). The chroot is in TMPDIR (/tmp), takes 2 GB and is removed at the end in any case. MINUTES (55)
# limits the whole run. SHARE=FOLDER is /share in the chroot, to bring files in and out. SUITE=trixie: another release of
# this machine's distribution, from the same mirror.
# ARCH=arm64: a Debian of that architecture, emulated by QEMU through binfmt_misc. A command "host:COMMAND" runs outside of
# the chroot, in this folder, with ROOT, the chroot: to cross-compile, which is some thirty times as fast.
# Prints a table of the commands' times, and the last lines of the logs of failed commands.
# shellcheck disable=SC2317  # functions that try and trap call are reached
set -euo pipefail

self=$(realpath "$0")
[ -z "${SHARE:-}" ] || SHARE=$(realpath "$SHARE")
cd "$(dirname "$self")/.."
logs=${BUILD:-build}/bare
minutes=${MINUTES:-55}

fail() {
    echo "tools/bare.sh: $*" >&2
    exit 1
}

# ---- Inside mount and PID namespaces, which end with this script

# The suites of the distribution itself among the apt sources of this machine, as lines of an apt source.
sources() {
    # shellcheck disable=SC1091,SC2016  # a system file; apt's own variables
    apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(COMPONENT) $(REPO_URI)' "Created-By: Packages" |
        awk -v id="$ID" -v suite="$VERSION_CODENAME" '
            tolower($1) == id && index($2, suite) == 1 && !seen[$0]++ { print "deb", $4, $2, $3 }'
}

# Copies the keys, certificates and network settings that apt uses on this machine.
copy_apt() {
    local keys=$root/etc/apt/trusted.gpg.d
    sources | sed "s/$VERSION_CODENAME/$suite/" >"$root/etc/apt/sources.list"
    find /usr/share/keyrings /etc/apt/keyrings /etc/apt/trusted.gpg.d -maxdepth 1 \
        \( -name '*.gpg' -o -name '*.asc' \) -exec cp -L -t "$keys" {} + 2>/dev/null || true
    if [ -s /etc/apt/trusted.gpg ]; then cp /etc/apt/trusted.gpg "$keys/machine.gpg"; fi
    if [ -d /etc/apt/auth.conf.d ]; then cp -r /etc/apt/auth.conf.d "$root/etc/apt/"; fi
    apt-config dump | grep -E '^Acquire::(https?|Check-|Retries|Force|Allow)' >"$root/etc/apt/apt.conf.d/machine" || true
    mkdir -p "$root/etc/ssl/certs"
    if [ -e /etc/ssl/certs/ca-certificates.crt ]; then cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"; fi
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
}

# within COMMAND...: runs it as root in the chroot, not with the PATH of a test, whose folder is not there
within() {
    env PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"
}

make_chroot() {
    local mirror
    mirror=$(sources | awk -v suite="$VERSION_CODENAME" '$3 == suite && $4 == "main" { print $2; exit }')
    [ -n "$mirror" ] || fail "no apt source for $VERSION_CODENAME main; run apt-get update"
    # shellcheck disable=SC2086  # none or two arguments
    debootstrap --variant=minbase --include=git,make ${ARCH:+--arch=$ARCH --foreign} "$suite" "$root" "$mirror"
    if [ -n "${ARCH:-}" ]; then within /debootstrap/debootstrap --second-stage; fi
    copy_apt
    git bundle create "$root/trine.bundle" HEAD
    if [ "$as" != root ]; then
        within useradd --create-home "$as"
        install -d -o 1000 -g 1000 "$root/trine"
    fi
    enter git clone --quiet /trine.bundle /trine
}

# Mounts proc, sys, dev and dev/shm of the chroot, and what is shared with it.
mount_all() {
    local node
    if [ -n "${SHARE:-}" ]; then
        mkdir "$root/share"
        mount --bind "$SHARE" "$root/share"
    fi
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for node in null zero full random urandom tty; do
        touch "$root/dev/$node"
        mount --bind "/dev/$node" "$root/dev/$node"
    done
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    mount -t tmpfs -o mode=1777,size=2g tmpfs "$root/dev/shm"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    for node in stdin:0 stdout:1 stderr:2; do ln -s "/proc/self/fd/${node#*:}" "$root/dev/${node%:*}"; done
}

# enter COMMAND...: runs it in the chroot as $as, in an environment with only the proxies of this machine
enter() {
    local home=/root
    if [ "$as" != root ]; then home=/home/$as; fi
    env -i HOME=$home TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        ${no_proxy:+no_proxy="$no_proxy"} chroot --userspec="$as:$as" "$root" "$@"
}

# emulates: makes binfmt_misc known in this namespace, and whether it runs programs of $ARCH there
emulates() {
    local machine=${ARCH/arm64/aarch64} at=/proc/sys/fs/binfmt_misc
    [ -e $at/register ] || mount -t binfmt_misc binfmt_misc $at || fail "binfmt_misc cannot be mounted"
    [ -e "$at/qemu-$machine" ] || update-binfmts --enable "qemu-$machine" || true
    grep -qs '^flags:.*F' "$at/qemu-$machine" || fail "binfmt_misc has no qemu-$machine with the flag F (qemu-user-static)"
}

# try NAME COMMAND...: runs it, with a row of the table and a log
try() {
    local name=$1 start=$SECONDS status=0 log
    name=${name:0:60}
    log=$logs/${name//[! [:alnum:]]/_}
    log=${log// /-}.log
    shift
    echo "== $name (to $log)"
    # In the background a subshell still exits at the first command that fails.
    ("$@") >"$log" 2>&1 </dev/null &
    wait $! || status=$?
    if [ $status -ne 0 ]; then
        printf '%-16s %5d s  FAILED (exit status %d)\n' "$name" $((SECONDS - start)) $status >>"$logs/table"
        echo "last lines of $log:"
        tail -n 40 "$log"
        return 1
    fi
    printf '%-16s %5d s  passed\n' "$name" $((SECONDS - start)) >>"$logs/table"
}

inside() {
    local command failed=0 proxy=
    # shellcheck disable=SC1091  # a system file
    . /etc/os-release
    suite=${SUITE:-$VERSION_CODENAME}
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    if [ -n "$proxy" ]; then export http_proxy="${http_proxy:-$proxy}"; fi
    if [ -n "${ARCH:-}" ]; then emulates; fi
    try debootstrap make_chroot || exit 1
    mount_all
    for command in "$@"; do
        case $command in
            host:*) try "$command" env ROOT="$root" sh -c "${command#host:}" || failed=1 ;;
            *) try "$command" enter sh -c "cd /trine && $command" || failed=1 ;;
        esac
    done
    exit $failed
}

if [ "${1:-}" = --inside ]; then
    root=$2 as=$3
    shift 3
    inside "$@"
fi

# ---- Outside

# Kills the job (timeout's process group) and removes the chroot, unless something is still mounted in it.
# Processes that are being killed may still write files, so removing is tried several times.
clean_up() {
    if [ -n "$job" ]; then
        kill -KILL -- "-$job" 2>/dev/null || true
        wait "$job" 2>/dev/null || true
    fi
    if grep -qF " $root/" /proc/self/mountinfo; then fail "$root: still has mounts, not removed"; fi
    for _ in 1 2 3 4 5; do
        rm -rf --one-file-system "$root" && return
        sleep 1
    done
}

[ "$(id -u)" = 0 ] || fail "must be run as root to make a chroot"
command -v apt-get >/dev/null || fail "apt-get not found; needs Debian or Ubuntu"
unshare --mount --pid --fork --mount-proc true || fail "cannot create mount and PID namespaces"
[ -z "$(git status --porcelain)" ] || echo "warning: uncommitted changes are not tested"
tools/deps.sh bare
as=root
if [ "${1:-}" = --user ]; then
    as=trine
    shift
    [ $# -gt 0 ] || set -- "tools/deps.sh --user build demo" "make demo"
fi
[ $# -gt 0 ] || set -- "make demo" "make check"
rm -rf "$logs"
mkdir -p "$logs"
job='' root=$(mktemp -d)
root=$(realpath "$root")
chmod 755 "$root" # as / is
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# When unshare exits, the first process of the namespace is killed, and all others with it.
timeout -s KILL "${minutes}m" unshare --mount --pid --fork --mount-proc --kill-child \
    "$self" --inside "$root" $as "$@" &
job=$!
status=0
wait "$job" || status=$?
job=
printf '\n== times\n'
if [ -e "$logs/table" ]; then cat "$logs/table"; fi
if [ $status = 137 ]; then fail "time limit of $minutes minutes (MINUTES) exceeded; logs are in $logs"; fi
exit $status

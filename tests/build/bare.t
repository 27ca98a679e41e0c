#!/bin/bash
# TEST full=bare timeout=3600
# The README's two commands on a Debian that has git and make and nothing else (tools/bare.sh): what they need and
# do not install, what the tests call and no list has. As root, on Debian or Ubuntu.
set -eu

skip() {
    echo "1..0 # SKIP a bare Debian: $1"
    exit 0
}

[ "$(id -u)" = 0 ] || skip "needs root"
command -v apt-get >/dev/null || skip "this is neither Debian nor Ubuntu"
unshare --mount --pid --fork --mount-proc true 2>/dev/null || skip "no namespaces can be made here"

build=${BUILD:-build}
tools/deps.sh bare | sed 's/^/# /'
PATH=$(tests/path.sh "$build") # with what has just been installed
export PATH
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo 1..1
status=0
BUILD=$build tools/bare.sh >"$log" 2>&1 || status=$?
sed 's/^/# /' "$log"
[ $status = 0 ] || printf 'not '
echo "ok 1 - make demo and make check on a bare machine"
exit $status

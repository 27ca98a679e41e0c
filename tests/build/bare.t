#!/bin/bash
# TEST full=bare timeout=3600
# The README's two commands on a Debian that has git and make and nothing else (tools/bare.sh): what they need and
# do not install, what the tests call and no list has. As root, on Debian or Ubuntu.
set -eu
. tests/lib.sh

[ "$(id -u)" = 0 ] || skip_all "a bare Debian: needs root"
command -v apt-get >/dev/null || skip_all "a bare Debian: this is neither Debian nor Ubuntu"
unshare --mount --pid --fork --mount-proc true 2>/dev/null || skip_all "a bare Debian: no namespaces can be made here"

tools/deps.sh bare | sed 's/^/# /'
PATH=$(tests/path.sh "$BUILD") # with what has just been installed
export PATH BUILD
LIMIT=3500 run tools/bare.sh
sed 's/^/# /' "$dir/out" "$dir/err"
result $status "make demo and make check on a bare machine"
done_testing

#!/bin/bash
# TEST full=bare timeout=3600
# The README's two commands on a minimal Debian with git and make (tools/bare.sh): finds missing dependencies of the
# build, and commands of tests that no list names. Needs root, on Debian or Ubuntu.
set -eu
. tests/lib.sh

[ "$(id -u)" = 0 ] || skip_all "a bare Debian: needs root"
command -v apt-get >/dev/null || skip_all "a bare Debian: needs Debian or Ubuntu"
unshare --mount --pid --fork --mount-proc true 2>/dev/null || skip_all "a bare Debian: cannot create namespaces"

packages bare 2>"$dir/why" || skip_all "a bare Debian: $(tail -n 1 "$dir/why")"
export BUILD
LIMIT=3500 run tools/bare.sh
sed 's/^/# /' "$dir/out" "$dir/err"
result $status "make demo and make check on a bare machine"
done_testing

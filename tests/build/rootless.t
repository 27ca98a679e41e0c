#!/bin/bash
# TEST full=bare timeout=3600
# From a clone to the demo as a user without root and sudo, on a minimal Debian with git and make (tools/bare.sh --user);
# then a program of the user's own, by pkg-config, in an empty environment. Needs root to make the chroot.
set -eu
. tests/lib.sh

[ "$(id -u)" = 0 ] || skip_all "a bare Debian: needs root"
command -v apt-get >/dev/null || skip_all "a bare Debian: needs Debian or Ubuntu"
unshare --mount --pid --fork --mount-proc true 2>/dev/null || skip_all "a bare Debian: cannot create namespaces"
packages bare 2>"$dir/why" || skip_all "a bare Debian: $(tail -n 1 "$dir/why")"

own='mkdir ~/own && cd ~/own && printf "#include <trine.h>\nint main(int n, char **v) { trine_world *w; int s = trine_world_create(&w, &n, &v); trine_world_destroy(&w); return s; }\n" >own.c'
own="$own && . ~/trine-deps/env.sh && export PKG_CONFIG_PATH=\$HOME/trine/lib/pkgconfig:\$PKG_CONFIG_PATH"
own="$own && cc own.c -o own \$(pkg-config --cflags --libs trine) && env -i ./own && mpirun -np 2 ./own"
export BUILD
LIMIT=3500 run tools/bare.sh --user "tools/deps.sh --user build demo" "make demo" \
    "tools/deps.sh --user test && make install PREFIX=\$HOME/trine" "$own"
sed 's/^/# /' "$dir/out" "$dir/err"
result $status "make demo without root, and a program of the user's own"
done_testing

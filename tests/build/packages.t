#!/bin/bash
# TEST full=packages timeout=5400
# make dist's tar on bare Debians (tools/bare.sh): the packages are built, and lintian has nothing to say; they are installed by
# apt, train on four ranks, and go without a trace; what the container's definition does. Needs root, on Debian or Ubuntu.
set -eu
. tests/lib.sh

[ "$(id -u)" = 0 ] || skip_all "bare Debians: needs root"
command -v apt-get >/dev/null || skip_all "bare Debians: needs Debian or Ubuntu"
unshare --mount --pid --fork --mount-proc true 2>/dev/null || skip_all "bare Debians: cannot create namespaces"
packages bare packages 2>"$dir/why" || skip_all "bare Debians: $(tail -n 1 "$dir/why")"

mkdir "$dir/share"
check "make dist" make -s CUDA=0 BUILD="$dir/share" dist

# bare NAME: a chroot in which tests/build/packaged.sh does it
bare() {
    LIMIT=3300 BUILD="$dir/$1" SHARE="$dir/share" run tools/bare.sh "tests/build/packaged.sh $1"
    sed 's/^/# /' "$dir/out" "$dir/err"
    [ "$status" = 0 ]
}
bare build || true
result "$status" "the packages are built, lintian is silent"
bare install || true
result "$status" "they are installed, train and go"
left_nothing() {
    cat "$dir/share/left" && [ ! -s "$dir/share/left" ]
}
check "nothing is left" left_nothing
bare container || true
result "$status" "the container's definition builds, and its test trains"
done_testing

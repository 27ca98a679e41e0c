#!/bin/bash
# TEST full=packages timeout=5400
# make dist-binary with PyPI's MPICH 5: the tar trains on bare Debians 12 and 13 (tools/bare.sh), which have nothing of what it
# was built with, with the MPI library of that wheel. Needs root, on Debian or Ubuntu.
. tests/mpi/others.sh

[ "$(id -u)" = 0 ] || skip_all "bare Debians: needs root"
[ "$(uname -m)" = x86_64 ] || skip_all "the tar is for x86_64"
unshare --mount --pid --fork --mount-proc true 2>/dev/null || skip_all "bare Debians: cannot create namespaces"
packages bare 2>"$dir/why" || skip_all "bare Debians: $(tail -n 1 "$dir/why")"
wheel mpich5-abi mpich '>=5.0.2,<6'

mkdir "$dir/share" "$dir/share/mpi"
cp -a "$commands" "$commands/../lib" "$dir/share/mpi/"
LIMIT=3000 run make -s BUILD="$dir/build" MPICC="$commands/mpicc_abi" dist-binary
result $status "make dist-binary"
[ $failed = 0 ] || exit 1
cp "$dir/build"/trine-*-x86_64.tar.gz "$dir/share/"
for suite in bookworm trixie; do
    LIMIT=1200 SUITE=$suite BUILD="$dir/$suite" SHARE="$dir/share" run tools/bare.sh "tests/build/packaged.sh binary"
    sed 's/^/# /' "$dir/out" "$dir/err"
    grep -hE '^ldd|losses,' "$dir/$suite/bare"/*.log | sed 's/^/# /'
    result $status "Debian's $suite: it trains on four ranks"
done
done_testing

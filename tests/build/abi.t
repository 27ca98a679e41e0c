#!/bin/bash
# The functions and types of the shared library: none of the last release has gone, and make abi-check sees one that goes
# and one that changes.
set -eu
. tests/lib.sh
needs make nm

version=$(sed -n 's/.*TRINE_VERSION "\(.*\)"/\1/p' include/trine.h)
major=${version%%.*}
record=packaging/abi/libtrine.so.$major.xml
library=$BUILD/libtrine.so.$version

check "the version of the symbols is the library's" grep -qx "TRINE_$major {" tools/libtrine.map

recorded() {
    sed -n "s/.*<elf-symbol name='\([^']*\)'.*/\1/p" "$record" | sort -u
}
none_gone() {
    recorded >"$dir/recorded"
    [ "$(wc -l <"$dir/recorded")" -ge 100 ] && nm -D --defined-only "$library" | sed 's/.* //; s/@.*//' | sort | comm -23 "$dir/recorded" - |
        { ! grep .; }
}
check "the library has every function of the last release's" none_gone
no_place() {
    ! grep -nE "comp-dir-path|filepath=|path='[^s]|/(work|home|tmp|root|usr)/" "$record"
}
check "the record has no path of the machine that wrote it" no_place

if ! command -v abidiff >/dev/null; then
    skip "make abi-check" "abidiff not found (abigail-tools)"
    done_testing
fi

abi() {
    make -s CUDA=0 BUILD="$BUILD" ABI_NOW="$dir/now.xml" "$@"
}
readable() {
    abidiff "$record" "$record"
}
check "abidiff reads the record" readable
same() {
    abi abi-record ABI="$dir/release.xml" && abi abi-check ABI="$dir/release.xml"
}
check "a library beside its own record" same

# linked NAME SED: the library without a function, or with a version script that sed has changed
linked() {
    sed "$2" tools/libtrine.map >"$dir/map" &&
        "${CC:-cc}" -shared -Wl,-soname,"libtrine.so.$major" -Wl,--version-script="$dir/map" -o "$dir/$1" \
            -Wl,--whole-archive "$BUILD/libtrine.a" -Wl,--no-whole-archive -Wl,--unresolved-symbols=ignore-all
}
gone() {
    linked without.so 's/local: /local: trine_barrier; /' && ! abi abi-check ABI="$dir/release.xml" ABI_OF="$dir/without.so" &&
        grep -q "1 Removed function" "$dir/said" && grep -q "function .*trine_barrier(" "$dir/said"
}
check "a function that has gone fails" gone
came() {
    abi abi-record ABI="$dir/before.xml" ABI_OF="$dir/without.so" && abi abi-check ABI="$dir/before.xml"
}
check "a function that is new does not" came

# A member more: only the size in the record differs.
changed() {
    sed "/name='trine_config' size/,/<\/class-decl>/s/size-in-bits='\([0-9]*\)'/size-in-bits='6400'/" "$dir/release.xml" >"$dir/other.xml"
    ! cmp -s "$dir/release.xml" "$dir/other.xml" && ! abi abi-check ABI="$dir/other.xml" && grep -q "trine_config" "$dir/said"
}
check "a struct of another size fails" changed
done_testing

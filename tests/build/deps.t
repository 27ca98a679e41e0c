#!/bin/bash
# tools/deps.sh --user with commands that stand for apt's: what is chosen, what is written, and what is refused. A user
# without root on a minimal Debian does it with the real ones (tests/build/rootless.t).
set -eu
. tests/lib.sh
needs make cc readelf

triplet=$(uname -m)-linux-gnu
tree=$dir/tree
prefix=$dir/deps
mkdir -p "$tree/tools" "$dir/bin"
cp tools/deps.sh tools/deps_user.sh tools/deps_sources.sh "$tree/tools/"
cp Makefile "$tree/"
touch "$tree/Makefile"
PATH=$dir/bin:$(tests/path.sh "$BUILD" build test)
unset TRINE_DEPS OPAL_PREFIX PMIX_PREFIX DYGRAPHS PREFIX
cd "$tree"

# command_of NAME: the standard input is what this command does
command_of() {
    { echo '#!/bin/sh' && cat; } >"$dir/bin/$1"
    chmod +x "$dir/bin/$1"
}
command_of apt-get <<'END'
echo "$*" >>"$0.calls"
case $* in
    *" install "*)
        echo "Inst libc6 [2.36-9] (2.36-10 Debian:12/stable [amd64])"
        echo "Inst libbible1 (1.0-2 Debian:12/stable [amd64])"
        echo "Inst bible-kjv (4.38 Debian:12/stable [amd64])"
        ;;
    *" download "*) for last in "$@"; do :; done; touch "$(echo "$last" | sed 's/=/_/')_amd64.deb" ;;
esac
END
# bible-kjv has the command, libbible1 a library, with an absolute link, and parts of the C library and Open MPI.
command_of dpkg-deb <<END
mkdir -p "\$3/usr/bin" "\$3/usr/lib/$triplet"
case \$2 in
    */bible-kjv_*) printf '#!/bin/sh\necho verses\n' >"\$3/usr/bin/bible"; chmod +x "\$3/usr/bin/bible" ;;
    */libbible1_*)
        touch "\$3/usr/lib/$triplet/libbible.so.1" "\$3/usr/lib/$triplet/libc_nonshared.a" "\$3/usr/bin/orterun" "\$3/usr/bin/gcc"
        ln -s "/usr/lib/$triplet/libbible.so.1" "\$3/usr/lib/$triplet/libbible.so"
        ln -s /nowhere/else "\$3/usr/lib/$triplet/libelse.so"
        echo "GROUP ( /lib/libc.so.6 /usr/lib/$triplet/libc_nonshared.a  AS_NEEDED ( /lib/ld.so ) )" \
            >"\$3/usr/lib/$triplet/libscript.so"
        chmod +x "\$3/usr/bin/orterun"
        ;;
esac
END

user() {
    PREFIX=$prefix tools/deps.sh --user demo
}
calls() {
    grep -c " $1" "$dir/bin/apt-get.calls"
}

unpacks() {
    user && [ "$(calls download)" = 2 ] && [ "$("$prefix/usr/bin/bible")" = verses ] &&
        [ "$(cat deps.mk)" = "include $prefix/env.mk" ] && [ ! -e "$prefix/unpacked/libc6_2.36-10" ]
}
check "what the system lacks is unpacked, but not its C library" unpacks
again() {
    user && [ "$(calls download)" = 2 ] && rm deps.mk && user && [ "$(calls download)" = 2 ] && [ -e deps.mk ]
}
check "a second time, and for another checkout, nothing is fetched" again
relocated() {
    [ "$(readlink "$prefix/usr/lib/$triplet/libbible.so")" = "$prefix/usr/lib/$triplet/libbible.so.1" ] &&
        [ "$(readlink "$prefix/usr/lib/$triplet/libelse.so")" = /nowhere/else ] &&
        [ "$(cat "$prefix/usr/lib/$triplet/libscript.so")" = \
            "GROUP ( /lib/libc.so.6 $prefix/usr/lib/$triplet/libc_nonshared.a  AS_NEEDED ( /lib/ld.so ) )" ] &&
        [ "$(readlink "$prefix/bin/cc")" = ../usr/bin/gcc ]
}
check "absolute links and linker scripts lead to the prefix, if it has the file" relocated
in_a_shell() {
    # shellcheck disable=SC1091  # written by the script
    (
        LD_LIBRARY_PATH=/before
        . "$prefix/env.sh"
        echo "$PATH $LD_LIBRARY_PATH"
        [ "$(command -v bible)" = "$prefix/usr/bin/bible" ] && [ "$OPAL_PREFIX" = "$prefix/usr" ] &&
            [[ $LD_LIBRARY_PATH == "$prefix/usr/lib/$triplet:"*:/before ]] && [ "$TRINE_DEPS" = "$prefix" ]
    )
}
check "the environment of a shell" in_a_shell
in_modules() {
    head -n 1 "$prefix/modulefiles/trine-deps" | grep -qx '#%Module1.0' &&
        grep -qx "prepend-path PATH $prefix/bin:$prefix/usr/bin:$prefix/usr/sbin" "$prefix/modulefiles/trine-deps" &&
        grep -qx "setenv OPAL_PREFIX $prefix/usr" "$prefix/modulefiles/trine-deps"
}
check "the module file" in_modules
# make -p runs no recipe.
in_make() {
    printf 'ask:\n\t@command -v bible\n\t@echo $(shell command -v bible)\n' >ask.mk
    [ "$(make -s -f deps.mk -f ask.mk ask | sort -u)" = "$prefix/usr/bin/bible" ] &&
        make -pq 2>/dev/null | grep "^LIBS = .*DEPS_LIBS" && make -pq 2>/dev/null | grep "^DEPS_LIBS := .*-rpath,$prefix/lib "
}
check "make's recipes, its own calls and its linker have it" in_make
alone() {
    printf '#include <stdio.h>\n#include <stdlib.h>\nint main(int n, char **v) { return n < 2 || puts(getenv(v[1])) < 0; }\n' >ask.c
    # shellcheck disable=SC2046  # split into arguments
    cc ask.c -o ask $(sed -n 's/^DEPS_LIBS := //p' "$prefix/env.mk") && readelf -d ask | grep -q 'RPATH.*deps/usr/lib' &&
        [ "$(env -i ./ask OPAL_PREFIX)" = "$prefix/usr" ] && [ "$(OPAL_PREFIX=/mine ./ask OPAL_PREFIX)" = /mine ] &&
        [[ $(LD_LIBRARY_PATH=/mine ./ask LD_LIBRARY_PATH) == "$prefix/usr/lib/$triplet:"*"$prefix/lib:/mine" ]]
}
check "a program that is started without it" alone
later() {
    rm "$prefix/usr/bin/bible" "$prefix/unpacked/bible-kjv_4.38"
    TRINE_DEPS=$prefix tools/deps.sh demo && [ -x "$prefix/usr/bin/bible" ]
}
check "what a later make lacks is unpacked there, too" later

# ---- Refused

command_of id <<'END'
echo 1000
END
no_root() {
    rm -f "$dir/bin/sudo"
    ! env -u TRINE_DEPS tools/deps.sh demo >out && cat out &&
        grep -q "neither root nor sudo available: tools/deps.sh --user demo unpacks them" out
}
if command -v sudo >/dev/null; then skip "without root and sudo" "sudo is among the tests' commands"; else
    check "without root and sudo it says how to go on" no_root
fi
bad_prefix() {
    ! PREFIX="$dir/a b" tools/deps.sh --user demo 2>err && cat err && grep -q "PREFIX=$dir/a b: .* only letters" err
}
check "a prefix that make cannot name" bad_prefix

# ---- Sources

listed() {
    ! tools/deps_sources.sh "$dir/built" libxxhash-dev openmpi-bin libopenmpi-dev bible-kjv >out 2>err && cat out err &&
        [ "$(grep -c '^  [a-z]* *[0-9.]* *[0-9a-f]\{64\}  http' out)" = 2 ] && grep -q '^  xxhash *0.8.1 ' out &&
        grep -qx "not built here, install or load it: bible-kjv" err
}
check "without apt: the sources are listed, each once, with version, hash and address" listed
other_file() {
    echo "another file" >"$dir/built/sources/xxhash_0.8.1.orig.tar.gz"
    ! tools/deps_sources.sh "$dir/built" libxxhash-dev 2>err && cat err &&
        grep -q "xxhash_0.8.1.orig.tar.gz: SHA-256 $(echo "another file" | sha256sum | cut -d ' ' -f 1), not 3bb6b7d6" err &&
        [ ! -e "$dir/built/sources/xxhash.built" ]
}
check "a file with another hash is refused, with both" other_file
done_testing

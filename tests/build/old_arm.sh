#!/bin/sh
# A build for a newer Arm processor ends on an older one with a message that names what is missing, and not by a signal.
# Usage: ROOT=FOLDER tests/build/old_arm.sh, with the sysroot of tools/cross.sh.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

compile() {
    aarch64-linux-gnu-gcc --sysroot="$ROOT" -std=c11 -D_GNU_SOURCE -Iinclude -Isrc "$@"
}

on() { # on PROCESSOR: runs the program there
    qemu-aarch64-static -cpu "$1" -L "$ROOT" "$dir/program"
}

echo 'int main(void) { return 0; }' >"$dir/main.c"
compile -march=armv8-a -c src/base/processor.c -o "$dir/processor.o"
compile -march=armv8.2-a+sve -c src/base/processor_built_for.c -o "$dir/built_for.o"
compile "$dir/main.c" "$dir/processor.o" "$dir/built_for.o" -o "$dir/program"
on max
status=0
on cortex-a57 2>"$dir/err" || status=$?
cat "$dir/err"
[ "$status" = 1 ]
grep -q 'this processor lacks .*, sve, which this build of Trine requires; .* MARCH=armv8-a$' "$dir/err"

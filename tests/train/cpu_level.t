#!/bin/bash
# The level of a run: the banner, fingerprints, checkpoints and the promise of --exact name it; one that the build lacks
# is refused. tests/build/levels.t compares levels.
set -eu
. tests/lib.sh

token_file "$data" 20240520 1 4000 4000
level() {
    sed -n 's/^device   cpu, level \([^ ,]*\).*/\1/p' "$dir/out"
}

job 1 --data-path "$data" --log "$dir/auto"
here=$(level)
case $here in base | v2 | v3 | v4 | v4-bf16 | v4-amx) true ;; *) false ;; esac
result $? "the banner names the level: $here"
job 1 --data-path "$data" --log "$dir/named" --cpu-level "$here"
numbers "$dir/auto" >"$dir/a"
numbers "$dir/named" >"$dir/b"
[ "$status" = 0 ] && [ -s "$dir/a" ] && cmp "$dir/a" "$dir/b" >>"$dir/out" && [ "$(level)" = "$here" ]
result $? "its name is the same run"

# A build for one processor has the level of its MARCH alone, one for any all up to the processor's.
case $here in v2 | base) other=v3 ;; *) other=v2 ;; esac
job 2 --data-path "$data" --dp 2 --cpu-level $other
if grep -q -- -DEVERY_LEVEL "$BUILD/flags" && [ $other = v2 ]; then
    [ "$status" = 0 ] && grep -q "^device   cpu, level v2 (--cpu-level; a rank has $here), " "$dir/out"
    result $? "a lower level that the build has"
else
    name=${here/amx/bf16}
    [ "$status" = 1 ] && grep -q -- "--cpu-level $other: this build has $name alone; use auto, or build with make MARCH=any\|--cpu-level $other: this processor has $here;" "$dir/err"
    result $? "another level is refused, with both names"
fi

job 1 --data-path "$data" --exact --save "$dir/run" --save-interval 3
[ "$status" = 0 ] && grep -q "cpu at level $here, oneDNN" "$dir/run/step-3/manifest.json" &&
    grep -q "\"cpu-level\":.*\"$here\"" "$dir/run/step-3/manifest.json"
result $? "the checkpoint and the promise of --exact have it"

# shellcheck disable=SC2086  # words are meant to be split
run_ranks 1 "$BUILD/trine-verify" --fingerprint "$dir/print" -- $SMALL --data-path "$data"
head -n 1 "$dir/print" | grep -q "\"machine\":\"cpu at level $here, oneDNN "
result $? "a fingerprint file has it"

if [ "$here" = v4-amx ]; then
    job 1 --data-path "$data" --exact --save "$dir/run" --load "$dir/run" --train-iters 4 --cpu-level v4-bf16
    [ "$status" = 0 ] && grep -q 'the layout differs: cpu-level v4-amx -> v4-bf16' "$dir/out" &&
        grep -q -- '--exact: results are not bitwise equal from here on; .*cpu at level v4-amx, .* in the checkpoint, .*cpu at level v4-bf16, oneDNN [0-9.]*, avx512_core_bf16' "$dir/out"
    result $? "a resume at another level says so"
    grep -q '^device   cpu, level v4-bf16 (--cpu-level; a rank has v4-amx), ' "$dir/out"
    result $? "and the banner that a rank has a higher one"
else
    skip "a resume at another level says so" "a processor without AMX has one level in a build for it"
fi
done_testing

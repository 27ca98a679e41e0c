#!/bin/sh
# docs/performance.md: its table of memory and traffic by ZeRO stage; a figure of docs/schedules.md.
. tests/lib.sh
needs awk

# docs/performance.md's table of ZeRO stages is what the command above it prints.
by_stage() {
    for stage in 0 1 2 3; do
        "$BUILD/train_gpt" --dry-run --model gpt2 --dp 4 --zero $stage | sed -n "s/^         \([a-z ]*[a-z]\)  *\([0-9.]*\)\$/$stage:\1:\2/p"
    done | awk -F: '
        { row = "" }
        $2 == "parameters" || $2 == "optimizer" { row = $2 }
        $2 == "gradients" { row = "gradients (two accumulators for the tied matrix)" }
        $2 == "gather buffers" || $2 == "reduce buffers" { row = "gather and reduce buffers" }
        $2 == "total" { row = "all, with activations and transport" }
        $2 == "dp gather" || $2 == "dp reduce" { row = "sent in a step" }
        row != "" { if (!(row in seen)) { seen[row] = 1; rows[++n] = row } sum[row, $1] += $3 }
        END {
            for (i = 1; i <= n; i++)
                printf "| %s | %.1f | %.1f | %.1f | %.1f |\n", rows[i], sum[rows[i], 0], sum[rows[i], 1], sum[rows[i], 2], sum[rows[i], 3]
        }' | sort >"$dir/by_stage"
    awk '/^\| \| zero 0 /{ on = 1; getline; next } on && /^\|/ { print } on && !/^\|/ { exit }' docs/performance.md | sort | diff - "$dir/by_stage" &&
        [ "$(wc -l <"$dir/by_stage")" -eq 6 ]
}
check "docs/performance.md: memory and traffic by ZeRO stage are those of the dry run" by_stage

# docs/schedules.md: how long stages wait where W follows its I at once.
bubble() {
    "$BUILD/train_gpt" --dry-run --model gpt2 --num-layers 8 --pp 4 --schedule zb --num-virtual-stages-per-pipeline-rank 2 \
        --micro-batch-size 1 --global-batch-size 8 "$@" | sed -n 's/.*; bubble //p'
}
waits() {
    full=$(bubble --recompute-granularity full) none=$(bubble) kept=$(bubble --recompute-granularity full --keep-recomputed)
    [ "$none" = "$kept" ] && grep -q "^longer: $full instead of $none for \`zb\` with V 2, P 4 and M 8" docs/schedules.md
}
check "docs/schedules.md: the bubble with recomputation and without" waits
done_testing

#!/bin/bash
# TEST timeout=300
# The programs of many layouts: the prover proves them, and the checker passes them. Faults that change programs are planted
# against the first case (tests/mutants/list), and against the second one to see what the checker passes:
# TARGETS=build/trine-prove AGAINST="prove/programs - the checker passes every program" tools/mutants.sh build NAME...
. tests/lib.sh

layouts="--dp 2
--dp 2 --pp 2 --zero 1
--dp 2 --zero 2 --reduce-buffers 2
--dp 2 --zero 3 --gather-buffers 2
--dp 2 --tp 2 --pp 2 --sequence-parallel
--dp 2 --pp 2 --schedule zb
--dp 2 --pp 2 --schedule zbv --zero 2
--dp 2 --pp 2 --schedule interleaved --zero 3
--dp 2 --pp 2 --schedule bfs --split-backward --zero 3
--dp 2 --pp 2 --exact --exact-dp 8
--pp 2 --schedule zb --exact --exact-dp 4 --zero 1
--pp 4 --schedule v-half
--pp 4 --schedule gpipe --untied"

# proved OPTION CASE: each layout, with this option of trine-prove; of the first one that is not, the sentence
proved() {
    case ${TRINE_CASE:-$2} in "$2") ;; *) return ;; esac
    wrong=0
    while read -r layout; do
        # shellcheck disable=SC2086  # words are meant to be split
        run "$BUILD/trine-prove" $1 --num-layers 8 --vocab-size 512 --global-batch-size 8 --micro-batch-size 1 $layout
        [ "$status" -eq 0 ] && grep -q '^proved$' "$dir/out" && continue
        wrong=1
        sed -n "s/^trine: //p" "$dir/err" | head -n 1
        echo "# of $layout"
        break
    done <<<"$layouts"
    result $wrong "$2"
}

proved --unchecked "the prover proves every program"
proved "" "the checker passes every program"
done_testing

#!/bin/bash
# The programs of many layouts: the prover proves them, the checker passes them, and layouts that add in the same order are
# proved equal. Faults that change programs are planted against the first case (tests/mutants/list), and against the second
# one to see what the checker passes, which runs before the prover:
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

equals="--dp 2 -- --dp 2 --pp 2 --zero 1 --schedule zb
--dp 2 --zero 2 -- --dp 2 --zero 3 --pp 4 --schedule interleaved
--exact --exact-dp 4 -- --dp 2 --exact --exact-dp 4 --zero 3
--dp 4 --exact --exact-dp 4 -- --dp 2 --pp 2 --exact --exact-dp 4
--tp 2 --exact --exact-tp 4 -- --tp 4 --exact --exact-tp 4 --sequence-parallel"
orders="--zero 1 -- --zero 2
--dp 2 --zero 1 -- --dp 2 --zero 2
--tp 2 -- --tp 4"
model="--num-layers 8 --vocab-size 512 --num-attention-heads 8 --global-batch-size 8 --micro-batch-size 1"

# proved WORD CASE OPTION [STATUS] <LAYOUTS: of each line trine-prove says this word, or of the first one where it does not, why
proved() {
    case ${TRINE_CASE:-$2} in "$2") ;; *) return ;; esac
    wrong=0
    while read -r layout; do
        # shellcheck disable=SC2086  # words are meant to be split
        run "$BUILD/trine-prove" $3 $model ${layout//-- /-- $model }
        [ "$status" -eq "${4:-0}" ] && grep -q "^$1\$" "$dir/out" && continue
        wrong=1
        sed -n "s/^trine: //p" "$dir/err" | head -n 1
        echo "# of $layout"
        head -n 5 "$dir/out"
        break
    done
    result $wrong "$2"
}

proved proved "the prover proves every program" --unchecked <<<"$layouts"
proved proved "the checker passes every program" "" <<<"$layouts"
proved "equal up to order" "layouts that add in another order are not" "" 10 <<<"$orders"
proved equal "layouts that add in the same order are equal" "" <<<"$equals"

# shellcheck disable=SC2086  # words are meant to be split
run "$BUILD/trine-prove" $model --dp 2 --
[ "$status" -eq 1 ] && [ ! -s "$dir/out" ] && grep -q "no configuration B after --" "$dir/err"
result $? "with -- a second configuration must follow"
done_testing

#!/bin/bash
# TEST longer=proved timeout=7200 ranks=4
# The prover against the machine: random pairs of configurations are proved by trine-prove, then run for five steps. What
# it calls equal must have the same losses, norms and parameters, bit for bit; of what is equal up to order, at least
# nine pairs in ten differ in one of them; nothing is called different. Pairs of two precisions are different.
# TRINE_SEED draws them; TRINE_PAIRS is their number (6; in the full tests 500).
. tests/lib.sh
needs perl sha256sum

seed=${TRINE_SEED:-36}
pairs=${TRINE_PAIRS:-$([ -n "${TRINE_FULL:-}" ] && echo 500 || echo 6)}
token_file "$data" 20240520 1 4001 4001
perl -e 'binmode STDOUT; srand 5; print pack "V256", 20240520, 1, 4001, (0) x 253; print pack "v*", map { int rand 256 } 1 .. 4001' >"$data"

# pick WORDS...: sets $picked
pick() {
    draw $#
    shift "$r"
    picked=$1
}

# model: sets $model, what both sides have
model() {
    pick gpt2 gpt2 "llama --num-query-groups 2" "qwen3 --num-query-groups 2"
    model="--family $picked --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 256"
    model="$model --train-iters 5 --threads 1 --lr 1e-3 --global-batch-size 8 --data-path $data"
    pick "" "" "" "--untied" "--hidden-dropout 0.1"
    case $model in *gpt2*) ;; *) picked=${picked/hidden/attention} ;; esac # the others have no dropout of hidden states
    model="$model $picked"
    pick "" "" "$BF16" "--fp16 --initial-loss-scale 4096" # with the default the first steps are skipped
    precision=$picked
}

# layout: sets $layout and $ranks
layout() {
    local tp
    pick "1 1 1" "2 1 1" "1 2 1" "1 1 2" "4 1 1" "2 2 1" "2 1 2" "1 2 2" "1 1 4" "1 4 1"
    # shellcheck disable=SC2086  # three numbers
    set -- $picked
    ranks=$(($1 * $2 * $3)) tp=$2
    layout="--dp $1 --tp $2 --pp $3"
    draw 4
    layout="$layout --zero $r"
    if [ "$3" -gt 1 ]; then
        pick 1f1b gpipe zb zbv v-half naive interleaved bfs
        layout="$layout --schedule $picked"
        pick "" "--split-backward"
        layout="$layout $picked"
    fi
    [ "$tp" -eq 1 ] || { pick "" "--sequence-parallel" && layout="$layout $picked"; }
    pick "" "" "--recompute-granularity selective" "--recompute-granularity full"
    layout="$layout $picked"
    pick "" "" "--transport mpi" "--transport shm"
    [ "$ranks" -eq 1 ] || layout="$layout $picked"
}

# exact: sets $exact, which both sides have, or nothing
exact() {
    pick "" "" "--exact --exact-dp 4 --exact-tp 2" "--exact --exact-dp 8 --exact-tp 4"
    exact=$picked
}

# side: sets $arguments and $ranks; without --exact the micro-batch may be another
side() {
    layout
    arguments="$model $layout $exact"
    pick 1 1 1 2
    [ -z "$exact" ] || picked=1
    arguments="$arguments --micro-batch-size $picked"
}

# other: the same with what changes no order: depth, schedule, recomputation, transport, and ZeRO-0 and 1, 2 and 3
other() {
    local dp tp zero micro
    dp=$(sed 's/.*--dp \([0-9]\).*/\1/' <<<"$arguments")
    tp=$(sed 's/.*--tp \([0-9]\).*/\1/' <<<"$arguments")
    zero=$(sed 's/.*--zero \([0-9]\).*/\1/' <<<"$arguments")
    micro=$(sed 's/.*--micro-batch-size \([0-9]\).*/\1/' <<<"$arguments")
    draw 2
    [ "$r" -eq 0 ] || zero=$((zero ^ 1))
    pick 1 2
    [ $((dp * tp * picked)) -le 4 ] || picked=1
    ranks=$((dp * tp * picked))
    local sequence=''
    case $arguments in *--sequence-parallel*) sequence=--sequence-parallel ;; esac
    arguments="$model --dp $dp --tp $tp --pp $picked --zero $zero $sequence --micro-batch-size $micro $exact"
    [ "$picked" -eq 1 ] || { pick 1f1b zb gpipe && arguments="$arguments --schedule $picked"; }
    pick "" "--recompute-granularity full"
    arguments="$arguments $picked"
}

# bits RANKS ARGUMENTS...: the losses, norms and parameters of the run, as one sum
bits() {
    local count=$1
    shift
    rm -rf "$dir/ckpt" "$log"
    # shellcheck disable=SC2086  # arguments are several words
    run_ranks "$count" "$TRAIN" $* --save "$dir/ckpt" --log "$log" || return
    [ "$status" -eq 0 ] && [ -s "$dir/ckpt/step-5/model.safetensors" ] &&
        bits=$({ numbers "$log" && cat "$dir/ckpt/step-5/model.safetensors"; } | sha256sum)
}

done=0 orders=0 differ=0 equals=0 wrong=0 refused=0
while [ $done -lt "$pairs" ]; do
    model
    exact
    side
    a="$arguments $precision" ranks_a=$ranks
    draw 2
    if [ "$r" -eq 0 ]; then side; else other; fi
    b="$arguments $precision" ranks_b=$ranks
    # shellcheck disable=SC2086
    run "$BUILD/trine-prove" $a -- $b
    verdict=$(head -n 1 "$dir/out") proved=$status
    if [ "$proved" -eq 1 ]; then
        grep -q "illegal program" "$dir/err" && { wrong=$((wrong + 1)) && echo "# refused: $a -- $b" && head -n 3 "$dir/err"; }
        refused=$((refused + 1))
        [ $refused -lt $((50 * pairs)) ] || break
        continue
    fi
    done=$((done + 1))
    bits "$ranks_a" "$a" && first=$bits && bits "$ranks_b" "$b" || { wrong=$((wrong + 1)) && echo "# fails: $a -- $b" && tail -n 3 "$dir/err"; }
    case $proved/$verdict in
        0/equal)
            equals=$((equals + 1))
            [ "$first" = "$bits" ] || { wrong=$((wrong + 1)) && echo "# called equal, but differ: $a -- $b"; }
            ;;
        "10/equal up to order")
            orders=$((orders + 1))
            if [ "$first" != "$bits" ]; then differ=$((differ + 1)); else echo "# up to order, and equal: $a -- $b"; fi
            ;;
        *) wrong=$((wrong + 1)) && echo "# $verdict ($proved): $a -- $b" ;;
    esac
done
echo "# $done pairs: $equals equal, $orders up to order, of which $differ differ; $refused refused before"
[ $wrong -eq 0 ] && [ $done -eq "$pairs" ]
result $? "what is called equal is equal, and nothing is called different"
[ $((10 * differ)) -ge $((9 * orders)) ]
result $? "of what is equal up to order nine in ten differ"

wrong=0 done=0 tries=0
while [ $done -lt $((pairs / 5 + 1)) ] && [ $tries -lt $((50 * pairs)) ]; do
    tries=$((tries + 1))
    model
    exact
    side
    a=$arguments
    side
    pick "--bf16 /bf16" "--fp16 /fp16" "--bf16 --fp16/bf16" " --fp16/fp16"
    name=${picked#*/} picked=${picked%/*}
    # shellcheck disable=SC2086
    run "$BUILD/trine-prove" $a ${picked% *} -- $arguments ${picked#* }
    case $status/$(head -n 1 "$dir/out") in
        11/different) done=$((done + 1)) && grep -q "^--$name is \(on in A, off\|off in A, on\) in B" "$dir/out" || { wrong=1 && echo "# not named: $a $picked"; } ;;
        1/*) ;; # not a valid configuration
        *) wrong=1 && echo "# $status: $a $picked" ;;
    esac
done
echo "# $done pairs of two precisions"
[ $wrong -eq 0 ] && [ $done -gt $((pairs / 5)) ]
result $? "two precisions are different, and named"
done_testing

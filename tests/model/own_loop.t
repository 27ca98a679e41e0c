#!/bin/sh
# examples/own_loop.c: a program's own samples, learning rate and look at gradients. Every layout has the losses and the
# largest gradients of one rank; it stops when it has learned.
. tests/lib.sh

LOOP=$BUILD/own_loop

# loop RANKS OPTIONS...: what it prints, into $dir/out
loop() {
    ranks=$1
    shift
    run_ranks "$ranks" "$LOOP" "$@"
    [ "$status" -eq 0 ] && messages 0
}
# The numbers of a line: loss, validation, and the gradient: one element, which rounding moves more than a mean.
table() {
    sed -n 's/^step *\([0-9]*\) | loss \([^ ]*\) .*gradient \([^ ]*\) | validation \(.*\)$/\1 \2 \4 \3/p' "$1"
}

loop 1 --threads 1 --train-iters 400 && grep -q '^learned$' "$dir/out" && [ "$(grep -c '^step' "$dir/out")" -lt 40 ]
result $? "one rank learns, and stops early"

loop 1 --threads 1 --train-iters 30 && cp "$dir/out" "$dir/one" && grep -q '^not learned yet$' "$dir/one" &&
    [ "$(table "$dir/one" | wc -l)" -eq 3 ]
result $? "one rank, 30 steps"

while read -r ranks options; do
    # shellcheck disable=SC2086  # words are meant to be split
    loop "$ranks" --train-iters 30 $options </dev/null && table "$dir/out" >"$dir/got" &&
        table "$dir/one" | paste -d' ' - "$dir/got" | awk '
            { lines++; if ($1 != $5) bad = 1
              for (n = 2; n <= 4; n++) {
                  most = n < 4 ? 2e-6 : 1e-5; apart = ($n - $(n + 4)) / $n
                  if (apart > most || apart < -most) bad = 1
              } }
            END { exit bad || lines != 3 }'
    result $? "$ranks ranks: $options: losses are those of one rank to 2e-6, gradients to 1e-5"
done <<'END'
8 --dp 2 --tp 2 --pp 2 --zero 3
END

run "$LOOP" --lr
[ "$status" -eq 1 ] && says 1 "--lr"
result $? "a mistake in the options is refused"

done_testing

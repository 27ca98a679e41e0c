#!/bin/sh
# What trine-plan finds: a command line that starts the run, what the usual others lose, ranges of times, and a machine
# that is calibrated to a run. The numbers are held against train_gpt's, and against other calls of trine-plan.
. tests/lib.sh
needs awk

# A small model; --ranks 8 of h100, as far as nothing else is said.
model="--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 512 --vocab-size 4096"
# shellcheck disable=SC2086  # words are meant to be split
plan() { "$BUILD/trine-plan" --hardware "${machine:-h100}" --ranks 8 $model "$@" >"$dir/out" 2>"$dir/err"; }
# Few candidates.
few="--pp 1 --recompute-granularity none --zero 1"

# ---- The command line

# The launcher's options are those of Open MPI.
command_line() { sed -n 's/^mpirun -n 8 \(--map-by ppr:8:node:PE=16 --bind-to core \)\{0,1\}train_gpt /train_gpt /p' "$dir/out"; }
# starts: train_gpt accepts the line's options, and plans the bytes that were printed
starts() {
    mib=$(sed -n 's/^the first; its heaviest rank needs \([0-9.]*\) MiB.*/\1/p' "$dir/out")
    cp "$dir/out" "$dir/plan"
    eval "set -- $(command_line | sed 's/^train_gpt //') --dry-run"
    "$TRAIN" "$@" >"$dir/out" 2>"$dir/err" && [ -n "$mib" ] && grep -q "^heaviest .*: $mib MiB" "$dir/out"
}
# shellcheck disable=SC2086
plan $few --global-batch-size 64 --bf16 --grad-dtype bf16 --lr 3e-4 --weight-decay 0.1
check "the command line's plan is the one that was printed" starts
check "it has what is not at its default, and nothing else" \
    grep -qx 'mpirun -n 8 train_gpt .*--dp [0-9]* .*--device cuda --bf16 --grad-dtype bf16 --micro-batch-size [0-9]* --global-batch-size 64 --weight-decay 0.1' "$dir/plan"
check "a run without data is told so" grep -q '(add --data-path):$' "$dir/plan"
plan --device cpu --zero-stage 3 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --global-batch-size 32 --schedule interleaved \
    --recompute-granularity none --micro-batch-size 2 --data-path "it's \$0 a.bin" --seed 18446744073709551615
check "so is that of CPU ranks, with chunks, under an alias' options, and with a file's name quoted" starts
check "what is given under an alias is kept" grep -q '^mpirun .* --dp 2 --tp 2 --pp 2 --zero 3 --schedule interleaved ' "$dir/plan"
model="--model llama3.2-1b --num-layers 4" plan --dp 8 --zero 1 --recompute-granularity full --global-batch-size 64 --bf16 --micro-batch-size 1
check "of a preset the sizes that differ" grep -qx 'mpirun -n 8 train_gpt --model llama3.2-1b --num-layers 4 --dp 8 .*' "$dir/out"
check "and its plan is the same" starts

# ---- The machine's device

has_device() { [ "$(command_line | grep -c -e '--device cuda')" -eq "$1" ]; }
# A file of CPUs plans for them, one of GPUs for GPUs; what is given is kept, also in a file of options.
# shellcheck disable=SC2086
machine=zen5-cores plan $few --tp 1 --global-batch-size 64
check "a machine of CPUs is planned for --device cpu" has_device 0
check "and the plan is that of CPU ranks" starts

# needs: on a node of 128 cores 8 ranks have 16 each, and the room in /dev/shm is that of --dry-run
needs_of() { grep -q '^mpirun -n 8 --map-by ppr:8:node:PE=16 --bind-to core train_gpt .* --threads 16 ' "$dir/plan" &&
    grep '^shm ' "$dir/plan" | sed 's/ on one node (--ranks-per-node)//' >"$dir/one" && [ -s "$dir/one" ] &&
    grep '^shm ' "$dir/out" | sed 's/ on one node (--ranks-per-node)//' | cmp - "$dir/one"; }
check "the line binds each rank to its share of the cores, and /dev/shm is that of --dry-run" needs_of
# shellcheck disable=SC2086
two_nodes() { machine=$dir/four.json plan $few --tp 1 --global-batch-size 64 --threads 2 &&
    grep -q '^mpirun -n 8 --map-by ppr:4:node:PE=2 --bind-to core train_gpt ' "$dir/out" && [ "$(grep -o -e '--threads' "$dir/out" | wc -l)" -eq 1 ] &&
    grep -q "^shm .* of a node's 4 ranks; " "$dir/out"; }
sed 's/\("node_ranks": {"value": \)128/\14/' hardware/zen5-cores.json >"$dir/four.json"
check "on two nodes; --threads that are given are kept" two_nodes
# A step, and the steps that half an hour has room for; a checkpoint has 12 bytes a parameter, in 16 bits 14, which a run
# that saves says.
saves_of() { awk '/^ 1 / { step = $2 } /^saves/ { every = $3 + 0 } /^slurm/ { sub(/.*@/, ""); notice = $0 + 0 }
        END { exit !(every >= 1 && every * step <= 1800 && every * step > 600 && notice >= 300 && notice >= 2 * step) }' "$dir/out"; }
# shellcheck disable=SC2086
machine=zen5-cores plan $few --tp 1 --global-batch-size 64 && cp "$dir/out" "$dir/fast"
check "a save every half an hour at most, and time for one at the end" saves_of
grep -q '^slurm    --signal=B:USR1@300: more than 2 x (a step of ' "$dir/fast" && grep -q '^saves .*; a checkpoint takes 316 MiB, and 331 ms to write at 1 GB/s$' "$dir/fast"
result $? "the signal of examples/train_gpt.sbatch where that is enough"
# shellcheck disable=SC2086
saved_bytes() {
    token_file "$data" 20240520 1 4000 4000
    for half in "" --bf16; do
        "$BUILD/trine-plan" --hardware zen5-cores --ranks 1 $SMALL --hidden-size 512 $half --global-batch-size 1 >"$dir/out" 2>"$dir/err" &&
            planned=$(sed -n 's/^saves .* a checkpoint takes \([0-9.]* MiB\),.*/\1/p' "$dir/out") && rm -rf "$dir/sv" &&
            "$TRAIN" $SMALL --hidden-size 512 $half --data-path "$data" --train-iters 1 --device ref --save "$dir/sv" >"$dir/out" 2>"$dir/err" &&
            grep -q "^saved .*: $planned in " "$dir/out" || return 1
    done
}
check "a checkpoint has the bytes that are planned" saved_bytes
sed 's/\("matmul_rate_fp32": {"value": \)[0-9.e]*/\11e8/' hardware/zen5-cores.json >"$dir/slow.json"
# shellcheck disable=SC2086
machine=$dir/slow.json plan $few --tp 1 --global-batch-size 64
saves_late() { awk '/^ 1 / { step = $2 } /^saves/ { every = $3 + 0 } /^slurm/ { sub(/.*@/, ""); notice = $0 + 0 }
        END { exit !(step > 1800 && every == 1 && notice > 2 * step && notice < 2 * step + 61 + 2) }' "$dir/out"; }
check "steps of hours: every step is saved, and the signal is earlier" saves_late
# shellcheck disable=SC2086
sed '/"device"/d' hardware/zen5-cores.json >"$dir/old.json" && machine=$dir/old.json plan $few --tp 1 --global-batch-size 64
check "so is one whose file does not say it" has_device 0
# shellcheck disable=SC2086
plan $few --tp 1 --global-batch-size 64 --device cuda
check "a machine of GPUs has --device cuda, as where it is given" has_device 1
echo "--device cpu --tp 1" >"$dir/options"
# shellcheck disable=SC2086
plan $few --global-batch-size 64 @"$dir/options"
of_file() { has_device 0 && ! grep -q -e '--tp [2-9]' "$dir/out" && grep -qx "trine: --device cpu: --hardware h100 is a machine of --device cuda: times are those of its GPUs" "$dir/err"; }
check "CPUs on a machine of GPUs are said to be so, also by an @FILE" of_file
# shellcheck disable=SC2086
machine=zen5-cores plan $few --tp 1 --global-batch-size 64 --device cuda
other_device() { [ ! -s "$dir/out" ] && grep -qxF "trine: --device cuda: --hardware zen5-cores is a machine of --device cpu; leave --device out, or name a machine of GPUs" "$dir/err"; }
check "GPUs on a machine of CPUs are refused, with both" other_device

# ---- The usual others

# other NAME: its line
other() { sed -n "s/^  $1  *//p" "$dir/plan"; }
# agrees NAME: what is printed of it is what its own options alone give; the loss is against the first, and the part that
# costs more is the one that grows most
agrees() {
    line=$(other "$1")
    first=$(awk '$1 == 1 && $3 == "s" { print $2 }' "$dir/plan")
    # shellcheck disable=SC2046,SC2086
    plan --global-batch-size 64 --bf16 --schedule 1f1b --recompute-granularity none ${line##*; }
    awk -v line="$line" -v first="$first" '
        $1 == 1 && $3 == "s" { step = $2 }
        END {
            split(line, word, " ")
            loss = line; sub(/% slower.*/, "", loss); sub(/.* /, "", loss)
            d = word[1] / step - 1; e = (1 + loss / 100) / (step / first) - 1
            print line, step, first, d, e
            exit !(step > 0 && d < 1e-3 && d > -1e-3 && e < 1e-3 && e > -1e-3 && loss > 0)
        }' "$dir/out"
}
plan --global-batch-size 64 --bf16 --recompute-granularity none
cp "$dir/out" "$dir/plan"
cp "$dir/out" "$dir/all"
tp_costs() { other "tp 8, dp the rest" | grep -q 'slower: tp [0-9.e-]* s more; --dp 1 --tp 8 --pp 1 '; }
check "the usual others lose: by how much, and where" tp_costs
check "their step and their loss are those of their own search" agrees "tp 8, dp the rest"
cp "$dir/all" "$dir/plan"
check "the same of the first with another micro-batch" agrees "the first with half the micro-batch"
cp "$dir/all" "$dir/plan"
equal() {
    options=$(awk '$1 == 1 && $3 == "s" { sub(/.*GiB */, ""); print }' "$dir/plan")
    [ -n "$options" ] && grep -q '^others, compared' "$dir/plan" && ! sed -n '/^others, compared/,$p' "$dir/plan" | grep -q -- "; $options\$"
}
check "what equals the first is left out" equal
contradicts() { grep -q '^others, compared' "$dir/out" && ! grep -q '^  dp only' "$dir/out"; }
plan --global-batch-size 64 --bf16 --tp 8 --pp 1 --micro-batch-size 8
check "what contradicts an option is left out" contradicts

# A card with less memory than data parallelism needs, whatever is recomputed
sed 's/"memory_bytes": {"value": 8e10/"memory_bytes": {"value": 1e10/' hardware/h100.json >"$dir/small.json"
model="--model gpt2-xl --vocab-size 50257" machine=$dir/small.json plan --global-batch-size 8 --bf16 --schedule 1f1b --zero 1 --tokens 1e9 \
    --sequence-parallel --micro-batch-size 1 --num-virtual-stages-per-pipeline-rank 1
needs_room() {
    sed -n 's/^  dp only, ZeRO-1 *needs \([0-9.]*\) GiB of 9.3; --dp 8 --tp 1 --pp 1 .*--recompute-granularity full.*/\1/p' "$dir/out" |
        awk '$1 > 9.3 { found = 1 } END { exit !found }'
}
check "one that does not fit, even with full recomputation, says what it needs" needs_room

# Of 12 ranks in a node 8 heads take 4.
sed 's/"node_ranks": {"value": 8/"node_ranks": {"value": 12/' hardware/h100.json >"$dir/twelve.json"
# shellcheck disable=SC2086
"$BUILD/trine-plan" --hardware "$dir/twelve.json" --ranks 24 $model --global-batch-size 96 --bf16 --zero 1 --micro-batch-size 1 >"$dir/out" 2>"$dir/err"
widest() { grep -q '^  tp 4, dp the rest ' "$dir/out" && ! grep -q "^  tp .*not valid: --tp" "$dir/out"; }
check "tp in the node is one that the model can have" widest

# ---- No layout

# refuses TEXT...: exit status 1 and these words
refuses() {
    [ "$status" -eq 1 ] || return 1
    for text in "$@"; do grep -qF -- "$text" "$dir/err" || return 1; done
}
plan --global-batch-size 64 --bf16 --memory 1M && status=0 || status=$?
check "where none fits, what the nearest one needs" refuses "trine: no layout of 8 ranks fits: the nearest needs " " GiB of 0.0; --dp "
plan --global-batch-size 64 --bf16 --tp 3 && status=0 || status=$?
check "where none is valid, why, and which are" refuses "trine: no layout of 8 ranks is valid: " "--tp 3: must divide --num-attention-heads 8" "valid layouts for 8 ranks: --dp "
# shellcheck disable=SC2086
plan $few --global-batch-size 64 --bf16 --memory 40G --tp 1
check "a size is printed in the unit that it was given in" grep -q '^mpirun .* --memory 40G ' "$dir/out"

# ---- Ranges

# ranged ERROR: the step, the tokens a second and the days lie in their ranges, whose ends are that of the error
ranged() {
    awk -v e="$1" '
        function near(x, y) { d = x / y - 1; return d < 0.02 && d > -0.02 }
        function ends(text, value, low, high) { split(text, r, " "); sub(/\(/, "", r[1]); n++
            if (!near(r[1], value * low) || !near(r[3] + 0, value * high)) { print text, value; bad = 1 } }
        $1 == 1 && $3 == "s" { ends($4 " " $5 " " $6, $2, 1 / (1 + e), 1 / (1 - e)); ends($9 " " $10 " " $11, $7, 1 - e, 1 + e) }
        / rank-hours/ { ends($7 " " $8 " " $9, $5, 1 / (1 + e), 1 / (1 - e)); ends($12 " " $13 " " $14, $10, 1 / (1 + e), 1 / (1 - e)) }
        END { exit bad || n != 4 }' "$dir/out"
}
model="--model gpt2-xl --vocab-size 50257" plan --dp 8 --global-batch-size 64 --bf16 --zero 1 --micro-batch-size 8 --recompute-granularity none --tokens 3e13
check "each time has the range of the file's worst error" ranged 0.0839
check "and the file's checks are named" grep -qx 'h100: 20 measured steps, mean error 3.5%, worst 8.4%: the range of times' "$dir/out"
sed -e '/"checked"/d' -e '/"message_efficiency"/s/,$//' hardware/h100.json >"$dir/unchecked.json"
# shellcheck disable=SC2086
machine=$dir/unchecked.json plan $few --tp 1 --global-batch-size 64
unchecked() { grep -qx "$dir/unchecked.json: unchecked: times have no range" "$dir/out" && ! grep -q ' to [0-9.]*)' "$dir/out"; }
check "without checks a file says so, and times have no range" unchecked

# ---- A measured run

token_file "$data" 20240520 1 4096 4096
job 0 --data-path "$data" --tp 1 --micro-batch-size 2 --train-iters 9 --log "$log"
# the steps of a machine that is half as fast as h100, but for one that waited and the first two
one() { "$BUILD/trine-plan" --hardware "$1" --ranks 1 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 256 \
    --micro-batch-size 2 --global-batch-size 2 --dp 1 --tp 1 --pp 1 --zero 0 --recompute-granularity none --device cpu "$2" "$3"; }
step_of() { awk '$1 == 1 && $3 == "s" { print $2 }' "$1"; }
sed 's/"launch_time": {"value": 3e-6/"launch_time": {"value": 3e-3/' hardware/h100.json >"$dir/h.json"
one "$dir/h.json" --schedule 1f1b >"$dir/once" 2>&1
twice=$(awk -v x="$(step_of "$dir/once")" 'BEGIN { print 2 * x }')
sed -e "s/\"seconds\":[^,]*/\"seconds\":$twice/" -e '1,2s/"seconds":[^,]*/"seconds":9/' -e '7s/"seconds":[^,]*/"seconds":70/' "$log" >"$dir/half"
"$BUILD/trine-plan" --hardware "$dir/h.json" --calibrate "$dir/half" --out "$dir/scaled.json" >"$dir/out" 2>"$dir/err"
status=$?
calibrated() { # by the median of seven steps: 0.5, but for the digits that were printed
    [ "$status" -eq 0 ] && grep -q "^calibrated by $dir/half: 1 rank, 7 steps with a median of ${twice%0} s, predicted .* s: rates x 0\.\(5$\|5000\|4999\)" "$dir/out"
}
check "a log's median step, without the first two, calibrates a machine" calibrated
# of six steps the middle two: a tenth less and a tenth more
less=$(awk -v x="$twice" 'BEGIN { print 0.9 * x }') more=$(awk -v x="$twice" 'BEGIN { print 1.1 * x }')
head -n 8 "$dir/half" | sed -e "3,5s/\"seconds\":[^,]*/\"seconds\":$less/" -e "6,8s/\"seconds\":[^,]*/\"seconds\":$more/" \
    >"$dir/even"
even() {
    "$BUILD/trine-plan" --hardware "$dir/h.json" --calibrate "$dir/even" 2>&1 | tee "$dir/out"
    grep -q "^calibrated by $dir/even: 1 rank, 6 steps with a median of ${twice%0} s, predicted" "$dir/out"
}
check "the median of an even number of steps is between the middle two" even
scaled() {
    one "$dir/scaled.json" --schedule 1f1b >"$dir/again" 2>&1
    cat "$dir/again"
    awk -v a="$(step_of "$dir/again")" -v b="$twice" 'BEGIN { exit !(a > 0.9999 * b && a < 1.0001 * b) }'
}
check "the file that it writes predicts the measured step" scaled
check "and says that it was calibrated, and is unchecked" \
    grep -q "^$dir/scaled.json: calibrated to one run (rates x 0.5); unchecked: times have no range$" "$dir/again"
marked() {
    grep -q '"launch_time": {"value":0.00[56][0-9]*,"how":"fitted","source":"calibrated by .*: 0.003 of the file, stated: assumption' "$dir/scaled.json" &&
        grep -q '"memory_bytes": {"value":80000000000,"how":"stated","source":"NVIDIA' "$dir/scaled.json"
}
check "each number that changed is marked, with what it was" marked
one "$dir/h.json" --calibrate "$dir/half" >"$dir/again" 2>&1
same_call() { grep -q '^calibrated by ' "$dir/again" && [ "$(step_of "$dir/again")" = "$(step_of "$dir/now")" ]; }
one "$dir/scaled.json" --schedule 1f1b >"$dir/now" 2>&1
check "the predictions of the same call are scaled, too" same_call

# refused NAME TEXT LOG
refused() {
    "$BUILD/trine-plan" --hardware "$dir/h.json" --calibrate "$3" --out "$dir/none.json" >"$dir/out" 2>"$dir/err"
    [ $? -eq 1 ] && grep -qF -- "$2" "$dir/err" && [ ! -e "$dir/none.json" ]
    result $? "refused: $1" "$dir/err"
}
sed 's/,"run":{[^}]*}//' "$dir/half" >"$dir/bad"
refused "a log that does not say how its run was started" "$dir/bad: no line says how its run was started" "$dir/bad"
head -n 6 "$dir/half" >"$dir/bad"
refused "too few steps" "$dir/bad: 6 steps from its last \"run\" on, of which the first 2 are left out; at least 7 are needed" "$dir/bad"
{ cat "$dir/half"; head -n 3 "$dir/half"; } >"$dir/bad"
refused "too few steps of the last run" "$dir/bad: 3 steps from its last \"run\" on" "$dir/bad"
sed 's/"ranks":1/"ranks":0/' "$dir/half" >"$dir/bad"
refused "a run of no ranks" 'line 1: "run" does not say the number of ranks' "$dir/bad"
sed 's/num-layers=2/num-leyers=2/' "$dir/half" >"$dir/bad"
refused "an unknown option" 'line 1: this version does not accept the option "--num-leyers=2"' "$dir/bad"
sed 's/"nodes":1/"nodes":2/' "$dir/half" >"$dir/bad"
refused "other nodes than the machine's" "1 ranks on 2 nodes; with 8 ranks a node" "$dir/bad"
sed 's/"seconds":[^,]*/"seconds":900/' "$dir/half" >"$dir/bad"
refused "a run of another machine" "its steps took 900 s, but this machine is predicted to take" "$dir/bad"

done_testing

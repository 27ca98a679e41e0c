#!/bin/bash
# The file of --trace: it has each instruction, wait, collective and message of the traced steps once, on one clock, and
# changes no bit. The files of the ring: what each rank was doing when a run hung, lost a rank, met a NaN, was told to.
# shellcheck disable=SC2016,SC2086  # expressions are Perl's; words are meant to be split
set -uo pipefail
. tests/lib.sh
needs perl pgrep

"$BUILD/trine-tokens" --out "$dir/text" include/trine.h >/dev/null
data=$dir/text_train.bin

# is FILE EXPRESSION: tests/trace/events.pl
is() {
    perl tests/trace/events.pl "$@"
}

# ---- The steps

all="--data-path $data --tp 2 --pp 2 --global-batch-size 4 --zero 0"
job 4 $all --train-iters 4 --log "$log" --trace "$dir/t.json" --trace-steps 2-3
traced=$status
check "traced steps are said" \
    prints 1 "trace    $dir/t.json: 2 steps from step 2 on of 4 ranks; all on one clock"
[ $traced -eq 0 ] && messages 0
result $? "a traced run ends well"
numbers "$log" >"$dir/traced"
check "each instruction once, and with its waits the step's time" is "$dir/t.json" 'complete() == 8'
check "spans of a thread do not overlap" is "$dir/t.json" apart
check "an arrow for each message, from its send to its receive" is "$dir/t.json" 'arrows() == 32'
check "a thread for each group, and GB/s, bytes, unit and micro-batch" is "$dir/t.json" '
    my ($c) = grep { $_->{args}{group} eq "tp" && $_->{args}{micro_batch} == 3 } spans("collective");
    my %threads = map { ("$_->{args}{name}", 1) } grep { $_->{name} eq "thread_name" } @e;
    $c->{args}{bytes} == 2048 && exists $c->{args}{"GB/s"} && exists $c->{args}{unit} &&
        $threads{"instructions"} && $threads{"messages"} && $threads{"group tp"} && $other{steps} == 2'
job 4 $all --train-iters 4 --log "$log" --no-ring
numbers "$log" >"$dir/none"
cmp -s "$dir/traced" "$dir/none"
result $? "the numbers are those of a run that records nothing"

job 2 --data-path "$data" --pp 2 --train-iters 3 --trace "$dir/x.json"
messages 1 && says 1 "--trace-steps 10-12: --train-iters is 3" && ended
result $? "steps that the run does not have are refused, with both numbers"
job 2 --data-path "$data" --pp 2 --trace "$dir/none/x.json" --trace-steps 1-2
messages 1 && says 1 "--trace $dir/none/x.json: " && ended
result $? "a file that cannot be written is refused before the first step"

# ---- Clocks that differ

# Rank 1 in a time namespace, 3 s ahead.
cat >"$dir/ahead" <<'END'
#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" = 1 ] || exec "$@"
exec unshare --time --monotonic 3 --fork -- "$@"
END
chmod +x "$dir/ahead"
if unshare --time --monotonic 3 --fork true 2>/dev/null; then
    run tools/mpirun.sh -np 2 "$dir/ahead" "$TRAIN" $SMALL --data-path "$data" --pp 2 --ranks-per-node 1 \
        --global-batch-size 4 --trace "$dir/ahead.json" --trace-steps 1-3
    [ "$status" -eq 0 ] && prints 1 "of 2 ranks; clocks compared, at most " && is "$dir/ahead.json" '
        my $c = $other{"clock of rank 1"};
        why("@{$c->{offset_ns}}, error $c->{error_ns}");
        !(grep { abs($_ - 3e9) > $c->{error_ns} } @{$c->{offset_ns}}) && $c->{error_ns} > 0 &&
            complete() == 6 && arrows($c->{error_ns} / 500)'
    result $? "a node whose clock is 3 s ahead: the error holds, and so do the arrows"
else
    skip "a node whose clock is 3 s ahead: the error holds, and so do the arrows" "no time namespaces"
fi

# ---- The ring

# ring: the one file beside the log
ring() {
    set -- "$dir"/trine-trace-*.json
    [ $# -eq 1 ] && [ -e "$1" ] && echo "$1"
}

# names: the line of standard error that names it
names() {
    says 1 "the last two steps of this node's ranks: $(ring)"
}

start --tp 2 --pp 2 --global-batch-size 4 --timeout 8
stopped=$(pid_of 2)
kill -STOP "$stopped"
finish
# What the report says of the stopped rank: "instruction 25 of 34, BACKWARD u3 m3 s0 d1", or none between two steps
place=$(sed -n 's/^    rank 2 .*; instruction \([0-9]*\) of \([0-9]*\), \(.*\)$/\3 (\1 of \2)/p' "$dir/err")
export place
reported 2 stopped && names && is "$(ring)" '
    my $at = $ENV{place};
    why("stopped in $at, and: ", map { place($_) } 0 .. 3);
    $other{why} eq "timeout" && (!$at || index(place(2), $at) >= 0) &&
        3 == grep { place($_) =~ /: (in|waiting for) .* of step / && unfinished($_) } 0, 1, 3'
result $? "a run that hangs: the report names the file, and the file each rank's instruction"
rm -f "$dir"/trine-trace-*

# Open MPI 4 ends the other ranks so many seconds after one is gone. Open MPI 5 has a time of its own, which a busy machine
# may use up: with it one of five losses must be written. MPICH ends them at once.
export OMPI_MCA_odls_base_sigkill_timeout=3
losses=5
case $("${MPIRUN:-mpirun}" --version) in
    *"(Open MPI) 4"*) losses=1 ;;
    *HYDRA*) losses=0 ;;
esac
lost() {
    rm -f "$dir"/trine-trace-*
    start --tp 2 --pp 2 --global-batch-size 4
    kill -KILL "$(pid_of 1)"
    finish
    ended && says 1 "trine: rank 1 [pp0 dp0 tp1] on " && names && is "$(ring)" '
        why(map { place($_) } 0 .. 3);
        place(1) =~ /which has ended: (in|waiting for) .* of step |: after step / &&
            4 == grep { place($_) =~ / of step |after step / } 0 .. 3'
}
if [ $losses -gt 0 ]; then
    until lost; do losses=$((losses - 1)) && [ $losses -gt 0 ] || break; done
    [ $losses -gt 0 ]
    result $? "a rank that is killed: another writes what it was doing"
else
    skip "a rank that is killed: another writes what it was doing" "MPICH's mpirun ends the other ranks at once"
fi
rm -f "$dir"/trine-trace-*
unset OMPI_MCA_odls_base_sigkill_timeout

start --tp 2 --pp 2 --global-batch-size 4
kill -USR2 "$(pid_of 0)"
eventually 300 names && more=$(wc -l <"$log") && eventually 20 lines $((more + 3)) && is "$(ring)" '
    $other{why} eq "SIGUSR2" && $other{ranks} == 4 && 4 == grep { place($_) =~ / step \d/ } 0 .. 3'
result $? "SIGUSR2: a file, and the run goes on"
kill -TERM "$launcher"
finish
rm -f "$dir"/trine-trace-*

job 2 --data-path "$data" --pp 2 --train-iters 4 --lr 1e18 --clip-grad 0 --log "$log"
[ "$status" -eq 0 ] && prints 3 "gradient norm is not finite, update skipped; first in " &&
    prints 1 "; the last two steps: $(ring)" && is "$(ring)" '$other{why} eq "gradient norm is not finite" && complete() == 4 && arrows()'
result $? "a NaN: the first step that has one writes a file, with that step as a whole"
rm -f "$dir"/trine-trace-*

start --pp 2 --tp 2 --no-ring
kill -KILL "$(pid_of 1)"
finish
ended && ! ring && says 0 "the last two steps"
result $? "--no-ring: no file"
done_testing

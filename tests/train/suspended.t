#!/bin/sh
# TEST longer=wait timeout=1500
# A job whose processes are all suspended for longer than its --timeout, as by Slurm's suspend (SIGSTOP to all
# of its processes), continues when it is resumed: suspended time does not count as waiting. Twenty such jobs, two
# suspensions each, in make check-full. In this pipeline most ranks wait most of the time.
. tests/lib.sh

token_file "$data" 20240520 1 4096 4096
jobs=2
[ -z "${TRINE_FULL:-}" ] || jobs=20

# grows: the run completes steps
grows() {
    wanted=$(($(wc -l <"$log") + 3))
    eventually 300 grown_or_over && lines "$wanted"
}
grown_or_over() {
    lines "$wanted" || [ -z "$(below)" ]
}

# suspend SECONDS RANK: mpirun and all ranks, one after the other. This rank is stopped a second later than the others and
# goes on two seconds before them, so it is suspended in a wait for them, of which it sees less than the timeout. mpirun
# is the last that goes on: Open MPI's passes SIGCONT on to all ranks.
suspend() {
    pids="$launcher $(below)" others=$(ranks_below "[^$2]")
    # shellcheck disable=SC2086  # words are meant to be split
    kill -STOP $others
    sleep 1
    # shellcheck disable=SC2086
    kill -STOP $pids
    sleep "$1"
    kill -CONT "$(pid_of "$2")"
    sleep 2
    # shellcheck disable=SC2086
    kill -CONT $pids
}

job=0
while [ $job -lt $jobs ]; do
    job=$((job + 1))
    rm -rf "$dir/run"
    start --save "$dir/run" --timeout 5 --pp 4 --zero $((job % 4)) --num-layers 4 --hidden-size 256 --seq-length 128 \
        --micro-batch-size 8 --global-batch-size 16
    good=1
    if suspend 7 $((job % 4)) && grows && suspend 6 $(((job + 2) % 4)) && grows; then
        good=0
        kill -USR1 "$(pid_of 1)"
    fi
    finish
    [ $good -eq 0 ] && [ "$status" -eq 75 ] && says 0 "timed out" && prints 1 "saved $dir/run"
    result $? "a job that was suspended twice for longer than its timeout trains, and saves when asked to stop"
done
done_testing

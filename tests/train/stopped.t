#!/bin/sh
# TEST longer=wait timeout=900
# A rank stops in a blocking MPI call, before the first step or after the last: the job aborts with a nonzero
# status and one report that names that rank first, and the call. Every call with every rank in make check-full.
. tests/lib.sh

token_file "$data" 20240520 1 4096 4096
# shellcheck disable=SC2086  # words are meant to be split
run tools/mpirun.sh -np 1 "$TRAIN" $SMALL --data-path "$data" --save "$dir/run"
[ "$status" -eq 0 ] || cat "$dir/err"

TIMEOUT=4
# Its MPI_Init takes seconds on a busy machine.
case $("${MPIRUN:-mpirun}" --version 2>&1) in *"Open MPI) 5"*) TIMEOUT=12 ;; esac
CALLS="MPI_Init_thread MPI_Comm_dup MPI_Comm_split MPI_Comm_split_type MPI_Win_allocate_shared MPI_Win_free
       MPI_Finalize"

# Rows: program, call, number of the call, rank.
rows() {
    if [ -n "${TRINE_FULL:-}" ]; then
        for call in $CALLS; do
            for rank in 0 1 2 3; do
                echo "train $call 1 $rank"
                echo "generate $call 1 $rank"
            done
        done
        for nth in 2 3 4 5 6 7; do echo "train MPI_Comm_split $nth 1"; done
    else
        rank=0
        for call in $CALLS; do
            echo "train $call 1 $rank"
            rank=$(((rank + 1) % 4))
        done
        echo "generate MPI_Init_thread 1 3"
        echo "generate MPI_Comm_split 2 1"
        echo "generate MPI_Win_free 1 0"
        echo "generate MPI_Finalize 1 2"
    fi
    echo "mesh MPI_Init_thread 1 1"
    echo "mesh MPI_Comm_split 3 2"
}

# cell PROGRAM CALL NUMBER RANK FILE: runs it; writes its output to FILE, and to FILE.end the status and
# the seconds
cell() {
    began=$(date +%s.%N)
    case $1 in
        train) set -- "$@" "$BUILD/tests/train/stopped_driver" $SMALL --data-path "$data" --dp 2 --pp 2 --zero 1 \
            --timeout $TIMEOUT ;;
        generate) set -- "$@" "$BUILD/tests/generate/stopped_driver" "$dir/run" --tokens 3 --tp 2 --pp 2 --threads 1 \
            --timeout $TIMEOUT ;;
        mesh) set -- "$@" env TRINE_TIMEOUT=$TIMEOUT "$BUILD/tests/comm/stopped_driver" ;;
    esac
    call=$2 n=$3 rank=$4 file=$5
    shift 5
    own_session "${file##*/}"
    timeout -k 5 120 tools/mpirun.sh -np 4 "$@" \
        --stop "$call" "$n" "$rank" >"$file" 2>&1
    status=$?
    echo "$status $(date +%s.%N)" | awk -v began="$began" '{printf "%s %.1f\n", $1, $2 - began}' >"$file.end"
}

# Several at a time: they mostly wait.
rows >"$dir/rows"
running=0 i=0
while read -r program call n rank; do
    i=$((i + 1))
    # shellcheck disable=SC2086
    cell $program $call $n $rank "$dir/cell$i" &
    running=$((running + 1))
    if [ $running -ge 3 ]; then
        wait
        running=0
    fi
done <"$dir/rows"
wait

i=0
while read -r program call n rank; do
    i=$((i + 1)) file=$dir/cell$i
    read -r status seconds <"$file.end"
    cp "$file" "$dir/out"
    : >"$dir/err"
    # mpirun's behaviour after the report is not tested.
    [ "$status" -ne 137 ] || grep -q "mpirun hangs in its clean-up" "$file" || status=124
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] &&
        [ "$(sed "$SWEPT" "$file" | grep -c '^trine: ')" -eq 1 ] && grep -q "^trine: timed out: .* in $call (timeout $TIMEOUT s)" "$file" &&
        accused "$rank" "stopped by a signal or a debugger, in $call (blocking " "$file"
    result $? "$program, rank $rank in $call $n: $seconds s"
done <"$dir/rows"
done_testing

#!/bin/bash
# Failures with shared windows: a rank that is killed or stopped while its peers
# spin or sleep on its counters; the contents of /dev/shm while a job runs, and that nothing is left when
# it has exited, however it exits; a /dev/shm that is too small, or fills up at the worst moment. The
# test has a /dev/shm of its own, visible only to this test and its ranks: that takes a mount
# namespace, as root or in a user namespace. Where neither is allowed, the remaining cases run in the
# /dev/shm of the machine.
. tests/lib.sh

own_mounts /dev/shm "$@"
[ "$place" = shared ] || mount -t tmpfs -o size=1g tmpfs /dev/shm
DRIVER=$BUILD/tests/comm/shm_room_driver
token_file "$data" 20240520 1 641 641 # 40 windows
cp "$data" "$dir/bad.bin"
spoil "$dir/bad.bin" 330

# there: the names in /dev/shm; in the machine's own without folders, in which tests beside this one work
there() {
    if [ "$place" = shared ]; then
        find /dev/shm -mindepth 1 -maxdepth 1 ! -type d | sort
    else
        find /dev/shm -mindepth 1 | sort
    fi
}

{
    echo /dev/shm # never empty: grep -f would have no pattern
    there
} >"$dir/before"

# clean: every file in /dev/shm was there before, or another job uses it. MPICH 5 leaves its own segment after every
# job that fails: it is not Trine's, and is removed.
clean() {
    left=0
    for name in $(there | grep -v -x -F -f "$dir/before"); do
        if grep -q -s -F "$name" /proc/[0-9]*/maps; then continue; fi
        [ -e "$name" ] || continue
        case $name in */mpich_shm_*) rm -f "$name" && continue ;; esac
        echo "# left: $name"
        left=1
    done
    return $left
}

# resize MEBIBYTES: of /dev/shm
resize() {
    mount -o remount,size="$1"m /dev/shm
}

# ---- Exits

job 4 --data-path "$data" --tp 2 --transport shm
[ "$status" -eq 0 ] && messages 0 && prints 1 "transport shm:" && clean
result $? "a job that succeeds leaves nothing"

start --tp 2 --pp 2 --transport shm
there | sed 's/^/# while it runs: /'
# Windows are unlinked as soon as all ranks have opened them. (The remaining files are MPI's.)
windows=$(grep -c 'rw-s.*/dev/shm/.*(deleted)$' "/proc/$(pid_of 1)/maps")
named=$(there | grep -c -v -e 'vader_segment' -e 'sm_segment' -e 'mpich_shm_')
[ "$place" = own ] || named=0
kill -TERM "$launcher"
finish
gone && [ "$windows" -ge 2 ] && [ "$named" -eq 0 ] && clean
result $? "no window has a name while the job runs; nothing is left when its launcher is terminated"

for layout in "--tp 4" "--dp 4" "--pp 4 --num-layers 4 --global-batch-size 4"; do
    # shellcheck disable=SC2086  # words are meant to be split
    start $layout --transport shm --timeout 60
    victim=$(pid_of 2)
    kill -KILL "$victim"
    finish
    [ -n "$victim" ] && ended && silent && killed && clean
    result $? "a killed rank aborts the job and leaves nothing: $layout"

    # shellcheck disable=SC2086
    start $layout --transport shm --timeout 3
    victim=$(pid_of 2)
    kill -STOP "$victim"
    finish
    [ -n "$victim" ] && ended && messages 1 && reported 2 "stopped by a signal or a debugger" &&
        says 1 "(pid $victim): stopped" && grep -q "waiting in .* over group .*; instruction " "$dir/err" && clean
    result $? "ranks that wait for the counters of a stopped rank name it, and nothing is left: $layout"
done

job 4 --data-path "$dir/bad.bin" --vocab-size 70 --train-iters 10 --transport shm
messages 1 && says 1 "$dir/bad.bin: token 330" && ended && clean
result $? "an aborted job leaves nothing"

# Open MPI's own segments keep their names while it runs, and remain if mpirun is killed: with
# any transport. Windows have no names by then.
start --dp 2 --tp 2 --transport shm
segments=$(grep -o '/dev/shm/[a-z]*_segment[^ ]*' "/proc/$(pid_of 1)/maps" | sort -u)
kill -KILL "$launcher"
finish
gone
ended=$?
# shellcheck disable=SC2086  # words are meant to be split
rm -f $segments
[ $ended -eq 0 ] && clean
result $? "a killed launcher terminates the ranks, and no window is left"

# ---- What is left is found

# boards: the names of boards
boards() {
    there | grep '^/dev/shm/trine-places-'
}

# A program of which half is in a world: its board has no name, also while it runs, so nothing is left if it ends without
# trine_world_destroy, or is killed.
run_ranks 4 "$BUILD/tests/comm/callers_driver" leaves
[ "$status" -eq 0 ] && prints 1 "the world is there" && clean
result $? "a program that ends without destroying its world leaves nothing"

background tools/mpirun.sh -np 4 "$BUILD/tests/comm/callers_driver" waits
eventually 100 prints 1 "the world is there"
[ "$place" = own ] && boards >"$dir/boards"
victim=$(pid_of 0)
kill -KILL "$victim"
finish
prints 1 "the world is there" && [ ! -s "$dir/boards" ] && clean
result $? "nor does one that is killed, whose board has no name while it runs"

# rests NAME: boards as ended processes leave them: before the first write, after the header, while a slot was written,
# with a ring behind the slots (a file of some TiB that has few pages), and many of them
rests() {
    : >"$1-empty"
    head -c 4096 /dev/zero >"$1-header"
    { head -c 4096 /dev/zero && printf '\001' && head -c 1023 /dev/zero; } >"$1-written"
    { head -c 4096 /dev/zero && printf '\002' && head -c 1023 /dev/zero; } >"$1-slot"
    truncate -s 1T "$1-ring"
    for ((rest = 0; rest < 100; rest++)); do echo left >"$1-$rest"; done
}

if [ "$place" = own ]; then
    mine=/dev/shm/trine-places-left
    rests $mine
    mkfifo $mine-pipe && mkdir $mine-folder && ln -s "$dir/out" $mine-link && echo left >/dev/shm/trine-other
    count=$(boards | wc -l)
    mknod $mine-other p && chown 65534 $mine-other 2>"$dir/gone" && rm $mine-other && echo left >$mine-other && chown 65534 $mine-other
    echo used >$mine-used
    exec 9<$mine-used && flock -s 9
    job 2 --data-path "$data" --dp 2 --transport shm
    [ "$status" -eq 0 ] && says 1 "trine: removed 105 boards that ended jobs have left" && messages 0 &&
        [ "$count" = 108 ] && [ "$(boards | sed 's/.*-//' | sort | tr '\n' ' ')" = "folder link other pipe used " ] &&
        [ -e /dev/shm/trine-other ]
    result $? "the next start removes what ended jobs have left, once, and nothing else"
    exec 9<&-
    rm -rf $mine* /dev/shm/trine-other
    job 2 --data-path "$data" --dp 2 --transport shm
    [ "$status" -eq 0 ] && messages 0 && says 0 "removed" && clean
    result $? "and says nothing if there is nothing"
else
    skip "the next start removes what ended jobs have left" "no mount namespace is permitted here"
fi

# ---- Space

# mpi_needs_more: MPI_Init of four ranks needs more of /dev/shm than these cases provide
mpi_needs_more() {
    case $("${MPIRUN:-mpirun}" --version 2>&1 | tr -s ' \n' '  ') in *HYDRA*" Version: 5."*) true ;; *) false ;; esac
}

# sizes: a /dev/shm of 20 MiB is too small; the size that the message asks for is enough
sizes() {
    resize 20
    # shellcheck disable=SC2086
    job 4 --data-path "$data" $small
    need=$(sed -n 's|^trine:.* need [0-9]* MiB of /dev/shm, which has [0-9]* MiB free; enlarge it to \([0-9]*\) MiB.*--transport mpi.*|\1|p' "$dir/err")
    messages 1 && [ -n "$need" ] && ended && prints 0 "step" && clean
    result $? "a /dev/shm that is too small is refused at startup, once, with the size needed"

    wanted=$(sed -n 's|^trine:.* need \([0-9]*\) MiB of /dev/shm,.*|\1|p' "$dir/err")
    # shellcheck disable=SC2086
    planned=$("$TRAIN" $SMALL --data-path "$data" $small --dry-run |
        sed -n 's|^shm .*; \([0-9.]*\) MiB with .*|\1|p' | awk '{ print int($1 + 0.9999) }')
    echo "# wanted: $wanted MiB; planned: $planned MiB" && [ -n "$wanted" ] && [ "$wanted" = "$planned" ]
    result $? "--dry-run prints that size before"

    # shellcheck disable=SC2086
    job 4 --data-path "$data" $small --transport mpi
    sed 's/.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2/' "$log" >"$dir/mpi2"
    [ "$status" -eq 0 ] && messages 0 && [ -s "$dir/mpi" ] && cmp -s "$dir/mpi" "$dir/mpi2"
    result $? "a small /dev/shm is enough for --transport mpi, with the same losses"

    resize "${need:-1}"
    # shellcheck disable=SC2086
    job 4 --data-path "$data" $small --transport shm
    sed 's/.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2/' "$log" >"$dir/shm"
    [ "$status" -eq 0 ] && messages 0 && prints 1 "transport shm:" && cmp -s "$dir/mpi" "$dir/shm" && clean
    result $? "the size in the message is enough (${need:-none} MiB), with the same losses"

    resize $((${need:-2} - 1))
    # shellcheck disable=SC2086
    job 4 --data-path "$data" $small
    messages 1 && says 1 "enlarge it to $need MiB" && ended && clean
    result $? "one MiB less is not enough"
}

small="--tp 2 --dp 2 --hidden-size 128 --seq-length 64 --log $log"
if [ "$place" = own ]; then
    # shellcheck disable=SC2086  # words are meant to be split
    job 4 --data-path "$data" $small --transport mpi
    [ "$status" -eq 0 ] && messages 0 && prints 1 "transport mpi:" && clean
    result $? "--transport mpi uses no windows"
    sed 's/.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2/' "$log" >"$dir/mpi"

    if mpi_needs_more; then
        for name in "a /dev/shm that is too small is refused" "a small /dev/shm is enough for --transport mpi" \
            "the size in the message is enough" "one MiB less is not enough"; do
            skip "$name" "MPICH 5 itself ends by a signal in a /dev/shm of 20 MiB"
        done
    else
        sizes
    fi

    resize 64
    for window in 1 2; do
        : >"$dir/statuses"
        run tools/mpirun.sh -np 4 "$DRIVER" /dev/shm/filler $window
        [ "$(stat -c %s /dev/shm/filler)" -gt 1000000 ] && messages 1 && says 1 "no space left in /dev/shm" &&
            says 1 "--transport mpi" && prints 0 "there was room" && ended && says 0 "Bus error" &&
            rm /dev/shm/filler && clean
        result $? "a /dev/shm that fills up between check and use is reported (window $window)"
        rm -f /dev/shm/filler
    done
else
    for name in "--transport mpi uses no windows" "a /dev/shm that is too small is refused" \
        "a small /dev/shm is enough for --transport mpi" "the size in the message is enough" \
        "one MiB less is not enough" "a /dev/shm that fills up (window 1)" \
        "a /dev/shm that fills up (window 2)"; do
        skip "$name" "no mount namespace is permitted here"
    done
fi

done_testing

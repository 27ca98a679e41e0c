#!/bin/sh
# trine-doctor: its report on 1, 2 and 8 ranks and on nodes made of consecutive ranks, the findings
# that can be provoked anywhere (a shared core, a name without an address, too little memory and /dev/shm), and
# its exit status, which is not 0 if training could not start. Rates are not tested: the machine may be busy.
. tests/lib.sh

quick="--seconds 0.02"
host=$(hostname)

# doctor RANKS ARGUMENTS...: one rank runs without mpirun; $wrap is put before the program, $around before mpirun.
wrap='' around=''
doctor() {
    launch="tools/mpirun.sh -np $1"
    [ "$1" -gt 1 ] || launch=
    shift
    # shellcheck disable=SC2086  # words are meant to be split
    run $around $launch $wrap "$BUILD/trine-doctor" $quick "$@"
}

# has PATTERN...: standard output has a line that matches each
has() {
    for pattern in "$@"; do grep -q -e "$pattern" "$dir/out" || return 1; done
}

# json FILE PATTERN...: the file is one line of JSON that matches each
json() {
    file=$1
    shift
    [ "$(wc -l <"$file")" -eq 1 ] || return 1
    for pattern in "$@"; do grep -q -e "$pattern" "$file" || return 1; done
    ! command -v python3 >/dev/null || python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$file"
}

# ---- The report

TRINE_EMU_GPUS=1 doctor 1 --cuda-library "$BUILD/emu/libtrine_cuda.so"
[ $status -eq 0 ] && has "^Trine .*: 1 rank on 1 node, examined in " "^$host  *1 " "^oneDNN " \
    "^median of all ranks" "^    0 " "^transport  self" && ! has " none$" && ! has "^stops"
result $? "one rank with a usable GPU"

echo "an older report, longer than any line of the new one" >"$dir/json"
LC_ALL=de_DE.UTF-8 doctor 2 --json "$dir/json"
[ $status -eq 0 ] && has ": 2 ranks on 1 node" "^    0 " "^    1 " "^transport  shm" "^inside a node .* us" &&
    ! has "^stops" && json "$dir/json" '"starts":true' '"rank":1,' '"matmul":[1-9]' '"triad":[1-9]'
result $? "two ranks, also as JSON"

doctor 6 --ranks-per-node 2 --json "$dir/json"
[ $status -eq 0 ] && has ": 6 ranks on 3 nodes" "^$host and 2 like it  *2 " \
    "^inside a node .*: median of 3 nodes" "^between nodes .* median of 3 pairs" "^clocks  *within " &&
    json "$dir/json" '"a":0,"b":2,"latency":[0-9]' '"a":1,"b":2,"latency":[0-9.e-]*,"bandwidth":[1-9]'
result $? "six ranks, two to a node: every pair of nodes is measured"

# ---- How to start

# More is in tests/doctor/recommend.c. The process that starts the rank decides: mpirun binds ranks.
first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
around="taskset -c $first timeout 300"
doctor 1 --json "$dir/json"
[ $status -eq 0 ] && has "^launch     1 rank a node with 1 thread each: the one core$" \
    "^           mpi[a-z]* -n[p]* 1 .* train_gpt ... --threads 1$" \
    "^           srun[-=a-z ]* --nodes=1 --ntasks-per-node=1 --cpus-per-task=1 --cpu-bind=cores .* --threads 1$" &&
    json "$dir/json" '"launch":{"ranks":1,"threads":1,"why":"the one core","mpirun":"mpi' '"srun":"srun[-=a-z ]* --nodes=1 '
result $? "ranks and threads for one core, and the lines that start them"
around=''
wrap="taskset -c $first"
doctor 1 --json "$dir/json"
wrap=''
all=$(sed -n 's/.*"launch":{"ranks":\([0-9]*\),"threads":\([0-9]*\),.*/\1 * \2/p' "$dir/json")
cores=$(lscpu -p=CORE 2>/dev/null | grep -v '^#' | sort -u | wc -l)
echo "# of $cores cores: ${all:-no launch line}"
if [ "$cores" -gt 1 ]; then
    # shellcheck disable=SC2004  # a product, for dash
    [ $status -eq 0 ] && [ -n "$all" ] && [ $(($all)) -gt 1 ] && [ $(($all)) -le "$cores" ]
    result $? "a rank that is bound to one core: for all that its launcher may use"
else
    skip "a rank that is bound to one core" "this machine has one core"
fi

# ---- A hardware file

# hardware FILE: trine-plan predicts a row from it, and it says where its points are from
hardware() {
    printf 'heads,hidden,layers,seq,vocab,tp,pp,dp,batch,mbs\n4,256,2,64,512,2,1,1,4,2\n' >"$dir/row.csv"
    "$BUILD/trine-plan" --hardware "$1" --csv "$dir/row.csv" 2>&1 | grep -q ',[0-9.e-]*[1-9]$' &&
        grep -q '^    "device": "cpu",$' "$1" && grep -q '"measured": {"how": "measured", "source": "trine-doctor on .* cores, [12] ranks, 20' "$1" &&
        grep -q '\["linear_backward_weight", "f32", 1, \[' "$1" && grep -q '\["swiglu_forward", "f32", 1, ' "$1"
}

doctor 1 --quick --runs 1 --write-hardware "$dir/one.json"
[ $status -eq 0 ] && hardware "$dir/one.json" && ! grep -q '"all-reduce"' "$dir/one.json" &&
    has "^  products " "^  not measured: collectives and messages inside a node"
result $? "a hardware file of one rank: what it did not measure is said"

# One that is stopped keeps what was measured, and the next one goes on from there.
stopped() {
    tools/mpirun.sh -np 2 "$BUILD/trine-doctor" $quick --quick --runs 2 --write-hardware "$dir/kept.json" >"$dir/out" 2>"$dir/err" &
    eventually 300 test -e "$dir/kept.json.partial" && kill -TERM $!
    wait $!
    [ -e "$dir/kept.json.partial" ] && [ ! -e "$dir/kept.json" ] && hardware "$dir/kept.json.partial" &&
        grep -q "\"about\": \".* --runs 2\"" "$dir/kept.json.partial"
}
check "what was measured before a stop is a hardware file" stopped

# A partial file of other options is beside it.
cp "$dir/kept.json.partial" "$dir/two.json.partial"
doctor 2 --quick --runs 1 --write-hardware "$dir/two.json"
[ $status -eq 0 ] && hardware "$dir/two.json" && grep -q '\["linear_forward", "f32", 2, ' "$dir/two.json" &&
    grep -q '\["all-reduce", "f32", 2, \[65536\], ' "$dir/two.json" && grep -q '\["send", "f32", 2, ' "$dir/two.json" &&
    ! has "^  not measured: collectives"
result $? "of two ranks: also both at once, and what they send"

stages=$(sed -n 's/^measuring for .*two.json, stage 1 of \([0-9]*\): 1 rank at once, fp32$/\1/p' "$dir/out")
[ "$(grep -c "^measuring for .*two.json, stage [2-9] of $stages: .*; about .* left$" "$dir/out")" = "$((stages - 1))" ] &&
    [ ! -e "$dir/two.json.partial" ]
result $? "a line for each stage, with the time that is left"
[ $status -eq 0 ] && has "two.json.partial is from another measurement, \".* --runs 2\", and is replaced" &&
    [ "$(grep -c '^measuring for' "$dir/out")" = "$stages" ]
result $? "that of other options is not used, and it says so"

# kinds FILE: of its points, with type and ranks
kinds() { grep -o '^ *\["[^[]*' "$1" | sort -u; }
doctor 2 --quick --runs 2 --write-hardware "$dir/kept.json"
done=$(sed -n "s/.*kept.json.partial contains \([1-9]\) of $stages stages from an earlier job.*/\1/p" "$dir/out")
[ $status -eq 0 ] && [ "$(grep -c '^measuring for' "$dir/out")" = "$((stages - done))" ] && hardware "$dir/kept.json" &&
    [ ! -e "$dir/kept.json.partial" ] && kinds "$dir/kept.json" >"$dir/kinds" && kinds "$dir/two.json" | cmp - "$dir/kinds" &&
    [ -z "$(grep -o '^ *\["[^]]*\]' "$dir/kept.json" | sort | uniq -d)" ]
result $? "and the same command measures only the rest: the kinds of points that a whole one has, none twice"
sed 's/; partial: .*/",/' "$dir/two.json" >"$dir/mine.json.partial"
doctor 2 --quick --runs 1 --write-hardware "$dir/mine.json"
[ $status -ne 0 ] && says 1 "mine.json.partial exists and is not a partial hardware file; move it away"
result $? "a file of that name that is something else stays"

# beside_a_loop ARGUMENTS...: on one processor, of which a loop has half
beside_a_loop() {
    taskset -c "$first" sh -c 'while :; do :; done' &
    loop=$!
    LIMIT=60 run taskset -c "$first" "$BUILD/trine-doctor" --seconds 0.1 "$@"
    kill -KILL $loop
    wait $loop
    return 0
}
beside_a_loop --write-hardware "$dir/busy.json"
[ $status -ne 0 ] && [ ! -e "$dir/busy.json" ] &&
    grep -q "another program runs on $host: rank 0's threads got [1-8]*[0-9]% of their cores' time, and on an idle machine get 90%" "$dir/err"
result $? "a busy machine is refused, with what was seen"
beside_a_loop --quick --runs 1 --write-hardware "$dir/busy.json"
[ $status -eq 0 ] && [ -s "$dir/busy.json" ]
result $? "but not with --quick"

doctor 2 --device cuda --cuda-library "$dir/none.so" --write-hardware "$dir/gpu.json"
[ $status -ne 0 ] && says 1 "--write-hardware with --device cuda: only --device cpu is measured" && [ ! -e "$dir/gpu.json" ]
result $? "no hardware file of GPUs"

# ---- Findings

doctor 8 --json "$dir/json"
if [ "$cores" -gt 0 ] && [ "$cores" -lt 8 ]; then
    [ $status -eq 0 ] && has "^hurts .*ranks 0-7 share $cores core" && json "$dir/json" '"kind":"crowded-node"'
else
    [ $status -eq 0 ] && ! json "$dir/json" '"kind":"crowded-node"'
fi
result $? "more ranks than cores"

wrap="taskset -c $first"
if unshare -u hostname no-such-host.invalid 2>/dev/null; then
    # shellcheck disable=SC2016  # expanded inside
    printf '#!/bin/sh\nhostname no-such-host.invalid && exec "$@"\n' >"$dir/renamed"
    chmod +x "$dir/renamed"
    around="unshare -u $dir/renamed"
fi
doctor 2
[ $status -eq 0 ] && has "^hurts .*ranks 0-1 share 1 core"
result $? "two ranks bound to one core"
if [ -n "$around" ]; then
    has "^hurts .*no-such-host.invalid: the host name does not resolve"
    result $? "a host name without an address"
else
    skip "a host name without an address" "no namespace for host names is permitted here"
fi
wrap='' around=''

# ---- Training could not start

# More than any machine has: each is a finding.
doctor 2 --windows 1e8 --memory 1e8 --device cuda --cuda-library "$dir/none.so" --json "$dir/json"
[ $status -ne 0 ] && [ $status -ne 124 ] && has "^stops .*the shared windows of this node's 2 ranks" \
    "^stops .*of memory free for 2 ranks" "^stops .*ranks 0-1 on $host: no usable GPU: " &&
    json "$dir/json" '"starts":false' '"kind":"shared-memory"' '"kind":"memory"' '"kind":"gpu"'
result $? "missing shared memory, memory and GPUs: the status is not 0"

# asks MEMORY TEXT: --memory MEMORY is the size TEXT in the finding
asks() {
    doctor 2 --memory "$1"
    [ $status -ne 0 ] && [ $status -ne 124 ] && has "^stops .* each, less than --memory $2$"
}
asks 1e8 "95.4 TiB" && asks 95T "95.0 TiB" && asks 97280G "95.0 TiB" && doctor 1 --memory 1M --windows 0 && ! has "less than --memory"
result $? "a size is as everywhere, and without a unit of MiB"

doctor 1 --memory 85899345920
[ $status -ne 0 ] && says 1 "--memory: \"85899345920\" MiB are more than any machine has; a number without a unit is in MiB" &&
    doctor 1 --windows 3Gi && says 1 "--windows: \"3Gi\" is neither a memory size such as 512M or 80G (K, M, G and T: powers of 1024) nor a number of MiB"
result $? "what is more likely bytes is refused, and what is no size"

if mounts_at /dev/shm; then
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nmount -t tmpfs -o size=6m tmpfs /dev/shm && exec "$@"\n' >"$dir/mounted"
    chmod +x "$dir/mounted"
    around="unshare $mounts $dir/mounted"
    export UCX_POSIX_DIR="$dir" # Debian's MPICH uses UCX, which aborts the job if 6 MiB are not enough
    doctor 2
    unset UCX_POSIX_DIR
    [ $status -ne 0 ] && [ $status -ne 124 ] && has "^stops .*MPI's own need [0-9]* MiB of /dev/shm" \
        "^transport  mpi" "^    1 .* [1-9]"
    result $? "a /dev/shm that is too small: everything else is still measured"
    around=''
else
    skip "a /dev/shm that is too small" "no mount namespace is permitted here"
fi

# ---- Invalid options

doctor 2 --seconds 0
[ $status -ne 0 ] && says 1 --seconds && [ ! -s "$dir/out" ]
result $? "an invalid option is reported once"

doctor 1 --device tpu
[ $status -ne 0 ] && says 1 'unknown device "tpu"'
result $? "an unknown device"

doctor 1 --json "$dir/none/json"
[ $status -ne 0 ] && says 1 "none/json: No such file"
result $? "a file that cannot be written"

run "$BUILD/trine-doctor" --help
[ $status -eq 0 ] && has "^Usage: trine-doctor" "  --json FILE"
result $? "--help needs no mpirun"

done_testing

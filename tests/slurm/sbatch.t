#!/bin/bash
# TEST full=slurm timeout=1800
#
# examples/train_gpt.sbatch under a real Slurm (tests/slurm/cluster.sh), on two nodes with two ranks each: a
# job that reaches its limit, is suspended, loses a node, fails by itself, or is cancelled. Resumed
# runs must have the numbers of an undisturbed run, in all of their 17 digits. Installs
# Slurm and munge if they are missing. No case depends on how long something takes: limits are for hangs,
# and a job that is queued again, which Slurm delays by two minutes (here: an hour, AuthInfo=cred_expire),
# starts when `soon` says so.
set -uo pipefail
. tests/lib.sh
. tests/slurm/cluster.sh
build=$(realpath "$BUILD")

# Equal bits are promised for equal thread counts. Open MPI's session folder disappears with its node.
export OMP_NUM_THREADS=1
small="--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 1
    --global-batch-size 16 --lr 3e-4 --lr-decay-iters 100000 --seed 7 --threads 1 --data-path $dir/text_train.bin
    --dp 2 --pp 2 --zero 1 --save-interval 50 --log-interval 0"

clean_up() {
    cluster_stop
    rm -rf "$dir"
}

# check NAME COMMAND...: with Slurm's state on failure
check() {
    local name=$1
    shift
    if "$@" >"$dir/said" 2>&1; then
        result 0 "$name"
    else
        on_cluster squeue --all >>"$dir/said"
        on_cluster sinfo --Node --long >>"$dir/said"
        for log in "$dir"/*.out; do grep -v '^ ' "$log" | tail -n 12; done >>"$dir/said"
        result 1 "$name"
    fi
}

# submit NAME [OPTION...] -- ARGUMENTS...: submits the script, to train on 2 x 2 ranks up to the step in $dir/NAME.steps,
# which may change until the job starts. $dir/NAME.id is the job. Without an option for that, it waits for both nodes.
submit() {
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    echo 1000000000 >"$dir/$name.steps"
    # shellcheck disable=SC2086  # words are meant to be split
    LAUNCH="tools/mpirun.sh" TRAIN="${trainer:-$dir/train $dir/$name.steps}" OMPI_MCA_mpi_yield_when_idle=1 \
        OMPI_MCA_orte_tmpdir_base=/dev/shm \
        on_cluster sbatch --parsable --job-name="$name" --output="$dir/$name.out" --nodes=2 --mincpus=2 \
        --cpus-per-task=1 "${options[@]}" examples/train_gpt.sbatch $small --save "$dir/$name" \
        --log "$dir/$name.jsonl" "$@" >"$dir/$name.id"
}

# field NAME FIELD: a field of Slurm's record of the job
field() {
    on_cluster scontrol --oneliner show job "$(cat "$dir/$1.id")" | tr ' ' '\n' | sed -n "s/^$2=//p"
}

# is NAME STATE RESTARTS
is() {
    [ "$(field "$1" JobState) $(field "$1" Restarts)" = "$2 $3" ]
}

# update NAME FIELD=VALUE
update() {
    on_cluster scontrol update JobId="$(cat "$dir/$1.id")" "$2"
}

# queued NAME RESTARTS: it is pending and has been queued again that many times
queued() {
    eventually 300 is "$1" PENDING "$2"
}

# soon NAME: the pending job starts when it can, from the next second on; it may run already where Slurm has not
# delayed it. Slurm fails a job that starts in the second in which it was ended ("Job credential revoked").
soon() {
    sleep 1
    update "$1" StartTime=now || [ "$(field "$1" JobState)" = RUNNING ]
}

# ends NAME STATE RESTARTS [STATUS]: it reaches that state
ends() {
    eventually 300 is "$1" "$2" "$3" && { [ -z "${4:-}" ] || [ "$(field "$1" ExitCode)" = "$4" ]; }
}

steps() {
    steps_in "$dir/$1.jsonl"
}

has_steps() {
    [ "$(steps "$1")" -ge "$2" ]
}

# trains NAME: waits for at least sixty more steps, so that a checkpoint is saved
trains() {
    eventually 300 has_steps "$1" $(($(steps "$1") + 60))
}

# begins_again NAME RESTARTS: waits until it runs and trains again
begins_again() {
    eventually 300 is "$1" RUNNING "$2" && trains "$1"
}

# more NAME: makes it complete after some more steps when it runs again
more() {
    echo $(($(steps "$1") + 60)) >"$dir/$1.steps"
}

# node_is N PATTERN: of node_state
node_is() {
    # shellcheck disable=SC2053  # a pattern
    [[ $(node_state "$1") = $2 ]]
}

# has_said NAME COUNT TEXT: COUNT lines of its output have the text
has_said() {
    [ "$(grep -c -F -- "$3" "$dir/$1.out")" -eq "$2" ]
}

# processes NAME: of the job, on both nodes
processes() {
    pgrep -f -- "--save $dir/$1 "
}

no_processes() {
    ! processes "$1"
}

# as_undisturbed NAME: its log has every step exactly once, with the numbers of the undisturbed run
as_undisturbed() {
    grep '"loss":[0-9]' "$dir/$1.jsonl" >"$dir/told.steps" &&
        grep -m "$(steps "$1")" '"loss":[0-9]' "$dir/undisturbed.jsonl" >"$dir/all.steps" &&
        numbers "$dir/told.steps" >"$dir/a" && numbers "$dir/all.steps" >"$dir/b" && diff "$dir/a" "$dir/b"
}

# ---- The cases

both_nodes() {
    on_cluster sbatch --wait --nodes=2 --ntasks-per-node=2 --output="$dir/hosts.out" --wrap \
        "tools/mpirun.sh sh -c 'echo on \$(cat /proc/sys/kernel/hostname)'" &&
        [ "$(grep '^on ' "$dir/hosts.out" | sort | uniq -c | awk '{ printf "%s %s ", $1, $3 }')" = \
            "2 ${NODE_PREFIX}1 2 ${NODE_PREFIX}2 " ]
}

own_fault() {
    submit bad -- --no-such-option && ends bad FAILED 0 1:0 && has_said bad 0 "is requeued"
}

# The last of four ranks is killed every time.
bounded() {
    printf '#!/bin/sh\ncase $* in *--layouts*) exec %s/train_gpt "$@" ;; esac\n%s\nsleep 60\n' "$build" \
        '[ "$OMPI_COMM_WORLD_RANK" -ne 3 ] || kill -KILL $$' >"$dir/killed"
    chmod +x "$dir/killed"
    trainer=$dir/killed MAX_RESTARTS=2 submit crash -- && queued crash 1 && soon crash && queued crash 2 &&
        soon crash && ends crash FAILED 2 137:0 &&
        has_said crash 2 "is lost (status 137); job $(cat "$dir/crash.id") is requeued" &&
        has_said crash 1 "is lost (status 137), after 2 restarts (MAX_RESTARTS) without"
}

cancelled() {
    submit cancelled -- && trains cancelled && processes cancelled &&
        on_cluster scancel "$(cat "$dir/cancelled.id")" && ends cancelled CANCELLED 0 &&
        eventually 300 no_processes cancelled && has_said cancelled 0 "is requeued"
}

suspended() {
    trains long && on_cluster scontrol suspend "$(cat "$dir/long.id")" && eventually 300 is long SUSPENDED 0
}

# Its --timeout is 4 seconds.
resumed() {
    local at
    at=$(steps long)
    sleep 6
    [ "$(steps long)" -eq "$at" ] && on_cluster scontrol resume "$(cat "$dir/long.id")" &&
        trains long && is long RUNNING 0 && has_said long 0 "timed out"
}

told() {
    queued told 1 && has_said told 1 "SIGUSR1 to rank " && has_said told 1 "the run is saved; job" &&
        [ "$(field told ExitCode)" = 0:0 ]
}

# Slurm has not noticed the loss yet. A restart after an orderly end does not count for MAX_RESTARTS.
lost() {
    update told TimeLimit=60 && soon told && begins_again told 1 && node_kill 2 &&
        eventually 300 has_said told 1 "a node or a rank is lost (status " && ! node_is 2 'down*' && node_down 2 &&
        queued told 2 && queued long 1 && soon told && soon long
}

to_its_end() {
    more told && node_back 2 && ends told COMPLETED 2 0:0 &&
        has_said told 1 "; starting at step 0" && has_said told 2 "resumed from $dir/told/step-"
}

# Here Slurm detects it first. mpirun still waits for the other node then; when Slurm ends it, the script may have the
# time to say that it queues the job again.
frozen() {
    begins_again long 1 && down_after 20 && node_freeze 2 && queued long 2 && eventually 300 node_is 2 'down*' &&
        down_after 3600 && soon long && node_kill 2 && node_back 2
}

script_lost() {
    local times
    begins_again long 2 && times=$(grep -c "is requeued" "$dir/long.out") && node_kill 1 && node_down 1 &&
        queued long 3 && soon long && more long && node_back 1 && ends long COMPLETED 3 0:0 &&
        has_said long "$times" "is requeued"
}

# mpirun exits with 1 then, as for an invalid option.
dead_at_the_start() {
    node_kill 2
    submit dead -- && eventually 300 has_said dead 1 "a node or a rank is lost (status 1); job" && node_down 2 &&
        queued dead 1
}

# A node is idle for the next job only when it is back and nothing else runs.
all_back() {
    on_cluster scancel "$(cat "$dir/dead.id")" && node_back 2 && eventually 300 both_idle
}

# The requeued job starts on the node that is there when Slurm has seen that the other one is lost.
fewer() {
    trains range && node_kill 2 && eventually 300 has_said range 1 "a node or a rank is lost (status " &&
        down_after 20 && eventually 300 node_is 2 'down*' && down_after 3600 && eventually 300 nothing_to_say &&
        soon range && begins_again range 1 &&
        has_said range 1 "4 ranks: dp 1 x tp 2 x pp 2 on 4, by rule: equal bits (dp divides 16; "
}

# A node that answers again, but takes no job, is none.
drained() {
    on_cluster scontrol update NodeName="${NODE_PREFIX}2" State=DRAIN Reason=test && node_restarts 2 &&
        eventually 300 node_is 2 drained && trains range && has_said range 0 "and a node is idle: "
}

# The job asks for the second node at the first checkpoint after that is idle.
more_again() {
    node_resume 2 && eventually 300 has_said range 1 "and a node is idle: " &&
        eventually 300 has_said range 1 "the run is saved, for more than 4 ranks; job" && queued range 2 &&
        more range && soon range && ends range COMPLETED 2 0:0 &&
        has_said range 2 "8 ranks: dp 2 x tp 2 x pp 2 on 8, by rule: "
}

# parts NAME: its starts, as the trainer saw them: ranks, nodes, and the step after which it went on
parts() {
    sed -n -e 's/^no checkpoint in .*; starting at step \([0-9]*\)$/after \1/p' \
        -e 's/^resumed from .*: \([0-9]*\) steps.*/after \1/p' \
        -e 's/^layout *\([0-9]* ranks\) = .* \(on [0-9]* nodes*\);.*/\1 \2/p' "$dir/$1.out"
}

# range_as_undisturbed: on 8, 4 and 8 ranks, some steps on each, with the numbers of as many on 8
range_as_undisturbed() {
    local first second all
    all=$(steps range)
    read -r first second <<<"$(parts range | sed -n 's/^after //p' | tail -n +2 | tr '\n' ' ')"
    [ "$(parts range | grep -v after | tr '\n' ' ')" = "8 ranks on 2 nodes 4 ranks on 1 node 8 ranks on 2 nodes " ] &&
        [ "$first" -gt 0 ] && [ "$second" -gt "$first" ] && [ "$all" -gt "$second" ] || return 1
    # shellcheck disable=SC2086  # words are meant to be split
    tools/mpirun.sh -np 8 "$build/train_gpt" $small $range --train-iters "$all" --save "$dir/eight" \
        --log "$dir/eight.jsonl" &&
        all_numbers "$dir/range.jsonl" >"$dir/a" && all_numbers "$dir/eight.jsonl" >"$dir/b" &&
        [ "$(grep -c '"loss":[0-9]' "$dir/b")" -eq "$all" ] && cmp "$dir/a" "$dir/b"
}

# page: the commands of docs/first-cluster.md, steps 2 to 6, with small sizes, two ranks a node
page() {
    awk '/^## / { on = /^## [2-6]\./ } on && /^    / { print substr($0, 5) }' docs/first-cluster.md |
        sed -e 's/ranks=16 threads=8 /ranks=2 threads=1 /' -e 's/--write-hardware/--quick --write-hardware/' \
            -e "s/--model gpt2 --global-batch-size 512/--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 256 --global-batch-size 16/" \
            -e "s/--model gpt2/--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --threads 1 --log-interval 0/" \
            -e 's/--global-batch-size 512/--global-batch-size 16/; s/--train-iters 100000/--train-iters 20/' \
            -e 's/^sbatch/sbatch --wait --output=slurm-page.out/; s/^tail -f slurm-\*/cat slurm-page/' \
            -e "s|node.json|$dir/page/node.json|; s|--out text|--out $dir/page/text|; s|text_train.bin|$dir/page/text_train.bin|" \
            -e "s|corpus.txt|include/trine.h|; s|--save run --log run.jsonl|--save $dir/page/run --log $dir/page/run.jsonl|" \
            -e "s|trine-report run.jsonl|trine-report $dir/page/run.jsonl|; s|slurm-page|$dir/page/slurm|" >"$dir/page.sh"
    mkdir "$dir/page"
    [ "$(grep -c -e '^on [1$]' -e '^build/' -e '^sbatch' -e '^cat' "$dir/page.sh")" -eq 7 ] &&
        LAUNCH=tools/mpirun.sh OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_orte_tmpdir_base=/dev/shm on_cluster bash -eu "$dir/page.sh" &&
        [ "$(all_numbers "$dir/page/run.jsonl" | grep -c '"loss":[0-9]')" -eq 20 ] && [ -s "$dir/page/run.html" ]
}

undisturbed() {
    local most
    most=$(printf '%s\n' "$(steps told)" "$(steps long)" | sort -n | tail -n 1)
    # shellcheck disable=SC2086  # words are meant to be split
    tools/mpirun.sh -np 4 "$build/train_gpt" $small --train-iters "$most" --save "$dir/undisturbed" \
        --log "$dir/undisturbed.jsonl"
}

[ "$(id -u)" = 0 ] || skip_all "Slurm: needs root"
for tool in ip unshare; do
    command -v $tool >/dev/null || skip_all "Slurm: $tool not found"
done
trap clean_up EXIT
trap 'exit 1' INT TERM
cluster_install >"$dir/why" 2>&1 || skip_all "Slurm: cannot be installed: $(tail -n 1 "$dir/why")"
cluster_start 2>"$dir/why" || skip_all "Slurm: the cluster cannot be started: $(tail -n 1 "$dir/why")"
"$build/trine-tokens" --out "$dir/text" include/trine.h >/dev/null
printf '#!/bin/sh\nsteps=$(cat "$1")\nshift\nexec %s/train_gpt "$@" --train-iters "$steps"\n' "$build" >"$dir/train"
chmod +x "$dir/train"

# A job's limit is at least a minute, so this job is first and the others run concurrently.
MAX_RESTARTS=1 submit told --time=1 --signal=B:USR1@10 --
submit long -- --timeout 4
check "tools/mpirun.sh takes the nodes of the allocation, without ssh" both_nodes
check "a run that fails by itself is not queued again" own_fault
check "suspended" suspended
check "a cancelled job leaves no process and is not queued again" cancelled
check "a rank is killed every time: queued again MAX_RESTARTS times" bounded
check "signalled by Slurm near its time limit: it saves and queues itself again" told
check "resumed, suspended for longer than its --timeout: it trains" resumed
check "a node is lost: queued again before Slurm detects it" lost
check "the node is back: the job resumes and completes" to_its_end
check "a node hangs: Slurm marks it as down and queues the job again" frozen
check "the node of the script is lost: Slurm queues the job again, and it completes" script_lost
check "a node is dead before the job starts, and Slurm does not know: queued again" dead_at_the_start
check "the undisturbed run, on this machine without Slurm" undisturbed
check "the dead node is back, and no job is left" all_back
check "docs/first-cluster.md, steps 2 to 6" page # on both nodes
# Alone, so that a node that is back is idle.
range="--dp 2 --tp 2 --pp 2 --lr 3e-3 --exact"
# shellcheck disable=SC2086  # words are meant to be split
WATCH_SECONDS=1 submit range --nodes=1-2 --mincpus=4 -- $range
check "--nodes=1-2, a node is lost: on 4 of 8 ranks" fewer
check "it is back, but drained: still on 4 ranks" drained
check "it is idle: on 8 ranks after the next checkpoint" more_again
check "8, 4, 8 ranks: the steps of a run on 8" range_as_undisturbed
check "limit, lost node: the same numbers" as_undisturbed told
check "suspension, lost node, hanging node, lost script: the same numbers" as_undisturbed long
done_testing

#!/bin/sh
# A job in which one rank does not enter a call must abort, with a non-zero status and one message that names
# that rank.
. tests/lib.sh

# job RANKS HOW CULPRIT TIMEOUT: each rank first runs $boards, a shell command
boards=:
job() {
    ranks=$1
    shift
    run tools/mpirun.sh -np "$ranks" /bin/sh -c "$boards; exec \"\$@\"" sh "$BUILD/tests/comm/watchdog_driver" "$@"
}

named() { # named CULPRIT TEXT: aborted by the watchdog, with one report whose first rank is the culprit, with TEXT
    ended && says 1 "trine: timed out: " && says 0 "no answer" &&
        sed -n '/^trine: timed out/{n;p;}' "$dir/err" | grep -q "^    rank $1 \[pp$1 dp0 tp0\] on .*: .*$2"
}

job 4 loop 1 2
named 1 "not communicating, last call all-reduce #.* over group world; thinking of nothing" &&
    says 1 "waiting in recv #1 of 8 f32 over group pp from rank 2 (ranks 0 1 2 3), for " &&
    says 1 "    2 ranks (0, 2): waiting in all-reduce #1 of 8 f32 over group pp (ranks 0 1 2 3), for "
result $? "a rank in an endless loop is reported first, then the ranks that wait, and for which"

job 3 loop 0 2
named 0 "not communicating"
result $? "if the lowest rank is the culprit, the next one reports"

job 2 sleep 1 2
named 1 "not communicating"
result $? "two ranks, one asleep"

job 3 stop 2 2
named 2 "stopped by a signal or a debugger"
result $? "a stopped process does not delay the abort"

job 3 chain 0 2
ended && says 1 "trine: timed out: " && says 1 "every rank waits, but their calls do not match" &&
    says 1 "    3 ranks (0-2): waiting in recv #1 of 8 f32 over group pp, for "
result $? "a ring of receives: every rank is listed as waiting"

job 3 leave 1 2
named 1 "not communicating" &&
    says 1 "    2 ranks (0, 2): waiting in barrier #5 over group world (ranks 0 1 2), for "
result $? "a rank that does not free its windows"

job 4 nodes 1 2
named 1 "not communicating" &&
    says 1 "    3 ranks (0, 2-3): waiting in all-reduce #1 of 100000 f32 over group pp (ranks 0 1 2 3), for "
result $? "on two nodes all ranks answer, whether they wait in shared memory or for messages"

SLOW_YIELD=0.05
export SLOW_YIELD
job 4 nodes 1 2
unset SLOW_YIELD
named 1 "not communicating" && says 1 "    3 ranks (0, 2-3): waiting in all-reduce #1 of 100000"
result $? "ranks whose yields take long, because others use the processor, are reported as waiting"

# Ranks 0 and 1 have one board, and 2 and 3 another, as on two nodes.
# shellcheck disable=SC2016  # expanded by the ranks
boards='export SLURM_STEP_ID=$((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} / 2))'

job 4 loop 1 2
named 1 "not communicating" && says 1 "waiting in recv #1 of 8 f32 over group pp from rank 2" &&
    says 1 "    2 ranks (0, 2): waiting in all-reduce #1"
result $? "two boards: the board without the culprit is queried"

job 4 stop 2 2
named 2 "stopped by a signal or a debugger" && says 1 "    2 ranks (0-1): waiting in all-reduce #1"
result $? "two boards: a stopped rank on the other one is reported as stopped"

job 4 both 0 2
ended && says 1 "trine: timed out: " &&     says 1 "    2 ranks (0-1): no answer; check this node first" &&
    says 1 "    2 ranks (2-3): waiting in all-reduce #1"
result $? "two boards: the board that cannot answer is listed first"

job 4 files 1 2
[ "$status" -eq 0 ] && says 0 "timed out" && says 0 "with a message in it"
result $? "two boards: a rank that waits for its file system answers the other board"

# Each rank has a board of its own: all waiting ranks raise an alarm at once, and all but one defer.
# shellcheck disable=SC2016
boards='export SLURM_STEP_ID=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}'

# A rank that waits for answers is in no MPI call for 3 s: the timeout is longer than that.
job 4 files 1 4
[ "$status" -eq 0 ] && says 0 "timed out"
result $? "four boards: ranks that deferred to another continue when the alarm is cancelled"
boards=:

job 3 late 1 6
[ "$status" -eq 0 ] && says 0 "waited"
result $? "a rank that is late but within the timeout is not an error"

job 3 files 1 2
[ "$status" -eq 0 ] && says 0 "timed out"
result $? "a rank that waits for its file system for longer than the timeout is not reported"

job 3 hung 1 2
ended && says 1 "trine: timed out: rank 1 " && says 1 "in fsync of some/file (io-timeout 1 s); the job aborts"
result $? "a file-system call that never returns has its own limit"

# Which rank aborts first is random: ranks without an error message must not be the first.
silent=0
for culprit in 0 1 2 3; do
    job 4 fault $culprit 20
    if ! { ended && says 1 "the disk of rank $culprit" && messages 1; }; then silent=1 && break; fi
done
result $silent "the rank that has the error reports it"

done_testing

#!/bin/sh
# A job in which one rank does not come must end, with a non-zero status and one message that names
# that rank.
. tests/lib.sh

# job RANKS HOW CULPRIT TIMEOUT: each rank begins with $boards, a command of the shell
boards=:
job() {
    ranks=$1
    shift
    run tools/mpirun.sh -np "$ranks" /bin/sh -c "$boards; exec \"\$@\"" sh "$BUILD/tests/comm/watchdog_driver" "$@"
}

named() { # named CULPRIT TEXT: ended by the watchdog, one report, whose first rank is the culprit, with TEXT
    ended && says 1 "trine: timed out: " && says 0 "no answer" &&
        sed -n '/^trine: timed out/{n;p;}' "$dir/err" | grep -q "^    rank $1 \[pp$1 dp0 tp0\] on .*: .*$2"
}

job 4 loop 1 2
named 1 "in no communication, after all-reduce .* over group world; thinking of nothing" &&
    says 1 "waiting in recv 1 of 8 f32 over group pp from rank 2 (ranks 0 1 2 3), for " &&
    says 1 "    2 ranks 0, 2: waiting in all-reduce 1 of 8 f32 over group pp (ranks 0 1 2 3), for "
result $? "a rank in an endless loop is named, and who waits for whom"

job 3 loop 0 2
named 0 "in no communication"
result $? "the lowest rank is the culprit: the next one speaks"

job 2 sleep 1 2
named 1 "in no communication"
result $? "two ranks, one asleep"

job 3 stop 2 2
named 2 "stopped by a signal or a debugger"
result $? "a stopped process does not hold up the end"

job 3 chain 0 2
ended && says 1 "trine: timed out: " && says 1 "every rank waits, in calls that do not meet" &&
    says 1 "    3 ranks 0-2: waiting in recv 1 of 8 f32 over group pp, for "
result $? "a ring of receives: every rank is heard, none is accused"

job 3 leave 1 2
named 1 "in no communication" &&
    says 1 "    2 ranks 0, 2: waiting in barrier 5 over group world (ranks 0 1 2), for "
result $? "a rank that does not come to free its windows"

job 4 nodes 1 2
named 1 "in no communication" &&
    says 1 "    3 ranks 0, 2-3: waiting in all-reduce 1 of 100000 f32 over group pp (ranks 0 1 2 3), for "
result $? "over two nodes all ranks are heard, whether they wait in memory or for messages"

SLOW_YIELD=0.05
export SLOW_YIELD
job 4 nodes 1 2
unset SLOW_YIELD
named 1 "in no communication" && says 1 "    3 ranks 0, 2-3: waiting in all-reduce 1 of 100000"
result $? "ranks whose yields are long, because others have the processor, are known to wait"

# Ranks 0 and 1 have a board, and 2 and 3 another one, as on two nodes.
# shellcheck disable=SC2016  # expanded by the ranks
boards='export SLURM_STEP_ID=$((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} / 2))'

job 4 loop 1 2
named 1 "in no communication" && says 1 "waiting in recv 1 of 8 f32 over group pp from rank 2" &&
    says 1 "    2 ranks 0, 2: waiting in all-reduce 1"
result $? "two boards: the one on which nothing is wrong is asked"

job 4 stop 2 2
named 2 "stopped by a signal or a debugger" && says 1 "    2 ranks 0-1: waiting in all-reduce 1"
result $? "two boards: a stopped rank on the other one is known as stopped"

job 4 both 0 2
ended && says 1 "trine: timed out: " &&     says 1 "    2 ranks 0-1: no answer: look at the node first" &&
    says 1 "    2 ranks 2-3: waiting in all-reduce 1"
result $? "two boards: one of which nobody can answer is named first"

job 4 files 1 2
[ "$status" -eq 0 ] && says 0 "timed out" && says 0 "with a message in it"
result $? "two boards: a rank that waits for its file system answers the other one, too"

# Each rank has a board of its own: all that wait raise an alarm at once, and all but one give way.
# shellcheck disable=SC2016
boards='export SLURM_STEP_ID=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}'

# A rank that looks for answers is seen in no MPI call meanwhile: more than its 3 s.
job 4 files 1 4
[ "$status" -eq 0 ] && says 0 "timed out"
result $? "four boards: who gave way goes on when the alarm is called off"
boards=:

job 3 late 1 6
[ "$status" -eq 0 ] && says 0 "waited"
result $? "a rank that comes late but within the timeout is let in"

job 3 files 1 2
[ "$status" -eq 0 ] && says 0 "timed out"
result $? "a rank that waits for its file system for longer than the timeout is not taken for dead"

job 3 hung 1 2
ended && says 1 "trine: timed out: rank 1 " && says 1 "in fsync of some/file (io-timeout 1); the job ends"
result $? "a call of the file system that never comes back has a limit of its own"

# Who is first to end the job is chance: the ranks that have nothing to tell must not be it.
silent=0
for culprit in 0 1 2 3; do
    job 4 fault $culprit 20
    if ! { ended && says 1 "the disk of rank $culprit" && says 1 "trine: "; }; then silent=1 && break; fi
done
result $silent "the rank that knows what went wrong is the one that says it"

done_testing

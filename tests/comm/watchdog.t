#!/bin/sh
# A job in which one rank does not come must end, with a non-zero status and one message that names
# that rank. Run from the top of the tree, after the tests are built; BUILD may be set.
BUILD=${BUILD:-build}
MPIRUN=tools/mpirun.sh
DRIVER=$BUILD/tests/comm/watchdog_driver
out=$(mktemp)
trap 'rm -f "$out"' EXIT
number=0
failed=0

result() { # result STATUS NAME: prints one TAP line, and the job's output when it is a failure
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        echo "# status $status"
        sed 's/^/# /' "$out"
        failed=1
    fi
}

job() { # job RANKS HOW CULPRIT TIMEOUT: leaves the exit status in $status, all output in $out
    # The outer limit only ends a broken test; it is far above anything that is waited for.
    timeout -k 5 120 $MPIRUN -np "$1" "$DRIVER" "$2" "$3" "$4" >"$out" 2>&1
    status=$?
}

ended() { # ended: with a failure, before the outer limit; that mpirun may have had to be ended is not ours
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] &&
        { [ "$status" -ne 137 ] || grep -q "mpirun hangs in its own clean-up" "$out"; }
}

says() { # says COUNT TEXT: the output has exactly COUNT lines with TEXT
    [ "$(grep -c -F -- "$2" "$out")" -eq "$1" ]
}

named() { # named CULPRIT: ended by the watchdog, one message, the culprit and nobody else in it
    ended && says 1 "a rank has waited longer than" && says 1 "no word from" &&
        says 1 "no word from rank $1 [pp$1 dp0 tp0]"
}

echo "1..9"

job 4 loop 1 2
named 1 && says 3 "in FORWARD unit 3 micro-batch 1" && says 1 "recv from rank 2 of 8 f32" &&
    says 2 "all-reduce of 8 f32 over group pp (ranks 0 1 2 3)"
result $? "a rank in an endless loop is named, and who waits for whom"

job 3 loop 0 2
named 0
result $? "the lowest rank is the culprit: the next one speaks"

job 2 sleep 1 2
named 1
result $? "two ranks, one asleep"

job 3 stop 2 2
named 2
result $? "a stopped process does not hold up the end"

job 3 chain 0 2
ended && says 1 "a rank has waited longer than" &&
    says 0 "no word from" && says 1 "every rank waits, in calls that do not meet" &&
    says 1 "recv from rank 2" && says 1 "recv from rank 0" && says 1 "recv from rank 1"
result $? "a ring of receives: every rank is heard, none is accused"

job 3 leave 1 2
ended && says 1 "a rank has waited longer than" && says 1 "no word from rank 1 [pp1 dp0 tp0]" &&
    says 2 "barrier over group world (ranks 0 1 2)"
result $? "a rank that does not come to free its windows"

job 4 nodes 1 2
named 1 && says 3 "all-reduce of 100000 f32 over group pp (ranks 0 1 2 3)"
result $? "over two nodes all ranks are heard, whether they wait in memory or for messages"

job 3 late 1 6
[ "$status" -eq 0 ] && says 0 "waited"
result $? "a rank that comes late but within the timeout is let in"

# Who is first to end the job is chance: the ranks that have nothing to tell must not be it.
silent=0
for culprit in 0 1 2 3; do
    job 4 fault $culprit 20
    if ! { ended && says 1 "the disk of rank $culprit" && says 1 "trine: "; }; then silent=1 && break; fi
done
result $silent "the rank that knows what went wrong is the one that says it"

exit $failed

#!/bin/bash
# Tests the test runner in a tree of its own: the plan for each marker, errors for invalid markers, that a failed
# and a hanging test fail, which tests run beside each other, and that what was skipped is not passed.
set -eu
. tests/lib.sh
needs prove perl flock

lib=$PWD/tests/lib.sh
tree=$dir/tree
mkdir -p "$tree/tools" "$tree/tests/suite" "$tree/tests/other" "$tree/build/tests/suite"
cp tests/plan.sh tests/run.sh tests/environment.sh tests/full.sh tests/path.sh tests/Slots.pm "$tree/tests/"
cp tools/deps.sh "$tree/tools/"
cd "$tree"

# plans WHICH ONLY NAMES: the wrappers' names, without folder and .t
plans() {
    local got
    got=$(tests/plan.sh build "$1" "$2" | sed 's|.*/||; s|\.t$||' | tr '\n' ' ')
    echo "got: $got"
    [ "$got" = "${3:+$3 }" ]
}

# bad FIRST-LINE MESSAGE
bad() {
    echo "$1" >tests/suite/bad.c
    local said status=0
    said=$(tests/plan.sh build 2>&1) || status=$?
    rm tests/suite/bad.c
    echo "$said"
    [ $status != 0 ] && [[ $said == *tests/suite/bad.c:1:*$2* ]]
}

fails() {
    ! "$@"
}

echo '/* TEST np=0 */' >tests/suite/alone.c
echo '/* TEST np=1,4 device */' >tests/suite/ranks.c
echo '/* TEST np=8 full=slow2 timeout=900 device */' >tests/other/long.c
echo '/* TEST np=2 longer=slow2 */' >tests/suite/longer.c
echo '/* TEST np=none */' >tests/other/none.c
echo '/* TEST np=1,3 apart full=slow2 */' >tests/other/apart.c
printf '#!/bin/sh\n# TEST full=other timeout=3\n' >tests/other/script.t

check "all except the long ones" plans all "" "suite-alone-np0 suite-longer-np2 suite-ranks-np1-4"
check "the long ones too" plans full "" \
    "other-apart-np1 other-apart-np3 other-long-np8 suite-alone-np0 suite-longer-np2 suite-ranks-np1-4 other-script"
check "a part: its own tests, and those with longer=PART" plans full=slow2 "" "other-apart-np1 other-apart-np3 other-long-np8 suite-longer-np2"
check "another part" plans full=other "" "other-script"
check "the parts" plans parts "" "other slow2"
check "single processes only" plans alone "" "suite-alone-np0"
without_plain() {
    echo '/* TEST np=0 plain */' >tests/suite/plain.c
    plans alone "" "suite-alone-np0" && plans all suite/plain "suite-plain-np0"
    local status=$?
    rm tests/suite/plain.c
    return $status
}
check "those that are plain are not among them" without_plain
check "the tests of a GPU, long or not" plans device "" "other-long-np8 suite-ranks-np1-4"
check "one folder" plans full other "other-apart-np1 other-apart-np3 other-long-np8 other-script"
check "one file" plans all suite/ranks "suite-ranks-np1-4"
check "an unknown plan" fails tests/plan.sh build long
one_launch() {
    grep -qx -- 'timeout -k 10 1800 env TRINE_WORLDS="1 4" tools/mpirun.sh -np 4 build/tests/suite/ranks' \
        build/t/suite-ranks-np1-4.t
}
check "one launch for all sizes, with the time of all" one_launch
check "a first line without a marker" bad '#include "harness.h"' "no marker; the first line must be"
check "a number of ranks that is not a number" bad '/* TEST np=two */' 'invalid "np=two"'
check "an unknown argument of a marker" bad '/* TEST np=2 long */' 'unknown word "long"'
check "a long test without a part" bad '/* TEST np=2 full */' 'invalid "full"'
check "a part in capitals" bad '/* TEST np=2 full=MPI */' "PART of lower-case letters and digits"
check "two parts" bad '/* TEST np=2 full=a longer=b */' "more than one part: a and longer=b"
check "a number of slots that is not a number" bad '/* TEST np=0 ranks=all */' 'invalid "ranks=all"'
check "a longer test without a part" bad '/* TEST np=2 */ get'"env(\"TRINE_FULL\")" "uses TRINE_FULL without longer=PART"
check "a folder without tests" fails tests/run.sh build all nowhere

printf '#!/bin/sh\necho 1..1; echo ok 1\n' >build/tests/suite/alone
chmod +x build/tests/suite/alone
check "a good test passes" tests/run.sh build all suite/alone
printf '#!/bin/sh\necho 1..1; echo ok 1; exit 1\n' >build/tests/suite/alone
check "a test that prints ok and exits with 1 fails" fails tests/run.sh build all suite/alone
printf '#!/bin/sh\necho 1..2; echo ok 1\n' >build/tests/suite/alone
check "a test that exits too early fails" fails tests/run.sh build all suite/alone
printf '#!/bin/sh\necho 1..1; echo ok 1; exec sleep 100\n' >build/tests/suite/alone
# A limit ends what hangs. One that a busy machine can reach, or one under sanitizers, is a fault.
no_tight_limit() {
    ! grep -E '^(/\*|#) TEST .*timeout=' "${lib%/*}"/*/*.[ct] | grep -vE 'timeout=(9[0-9]{2}|[0-9]{4,})'
}
check "no test of the tree has a limit below 900 seconds" no_tight_limit
patient() {
    tests/plan.sh build alone suite/alone >/dev/null && grep -q -- 'timeout -k 10 2700 ' build/t/suite-alone-np0.t
}
check "under the sanitizers a test has three times as long" patient
echo '/* TEST np=0 timeout=1 */' >tests/suite/alone.c
check "a test that hangs is killed and fails" fails tests/run.sh build all suite/alone

# The tests of this folder note how many slots are taken while they run. A test of 8 ranks takes all but one. mpirun is
# a script here.
mkdir -p tests/slots build/tests/slots
printf '#!/bin/sh\nshift 2\nexec "$@"\n' >tools/mpirun.sh
cat >build/tests/slots/a_1 <<'END'
#!/bin/bash
note() {
    flock lock sh -c 'n=$(($(cat taken) + $1)) && echo $n >taken && echo $n >>all' sh "$1"
}
note "${0##*_}"
sleep 0.2
note "-${0##*_}"
echo 1..1
echo ok 1
END
for takes in 1 2 3; do
    for test in a b; do
        [ $test$takes = a1 ] || cp build/tests/slots/a_1 "build/tests/slots/${test}_$takes"
        echo "/* TEST np=$((takes == 3 ? 8 : takes)) */" >"tests/slots/${test}_$takes.c"
    done
done
chmod +x tools/mpirun.sh build/tests/slots/*
slots() { # slots NUMBER MOST
    echo 0 >taken && : >all
    PROVE_JOBS=$1 tests/run.sh build all slots || return 1
    echo "taken: $(tr '\n' ' ' <all)"
    [ "$(sort -n all | tail -n 1)" -le "$2" ] && [ "$(wc -l <all)" -eq 12 ] && [ "$(cat taken)" -eq 0 ]
}
check "no more slots are taken than there are" slots 4 4
check "one slot: one at a time, of any size" slots 1 3

# Each of two tests waits until the other is there.
mkdir -p tests/pair build/tests/pair
for test in a b; do
    echo '/* TEST np=2 timeout=60 */' >tests/pair/$test.c
    printf '#!/bin/sh\n: >here.%s\nuntil [ -e here.a ] && [ -e here.b ]; do sleep 0.1; done\necho 1..1; echo ok 1\n' \
        $test >build/tests/pair/$test
done
chmod +x build/tests/pair/*
check "small worlds run beside each other" env PROVE_JOBS=4 tests/run.sh build all pair
beside() {
    rm here.* tests/pair/b.c
    sed 's/np=2/np=8/' tests/pair/a.c >a.c && mv a.c tests/pair/a.c
    { echo '#!/bin/sh'; echo '# TEST timeout=60'; tail -n +2 build/tests/pair/b; } >tests/pair/b.t
    chmod +x tests/pair/b.t
    PROVE_JOBS=2 tests/run.sh build all pair
}
check "a script runs beside a test that takes all slots" beside

# The longest is first, by recorded seconds, of the last run before older ones.
printf 'slots-b_2 50\nslots-a_3 90\n' >tests/costs
sed -i '$d' build/t/*.times # these took no time
echo 'slots-a_3 20' >build/costs
order() {
    PROVE_JOBS=1 tests/run.sh build all slots >said || return 1
    grep -o 'slots-[a-c]_[1-3]' said | head -n 2 | tr '\n' ' ' | grep -qx 'slots-b_2 slots-a_3 '
}
check "the longest is first" order

kept() {
    printf '0m0s 0m0s\n0m1s 0m1s\n%s\n' 7 >build/t/slots-a_3-np8.times
    printf '0m0s 0m0s\n0m1s 0m1s\n%s\n' 3 >build/t/slots-b_2-np1.times
    printf '0m0s 0m0s\n0m1s 0m1s\n%s\n' 4 >build/t/slots-b_2-np2-4.times
    printf 'slots-a_3 2\nslots-b_2 5\nother-long 90\n' >build/costs
    [ "$(tests/plan.sh build costs | tr '\n' ' ')" = "other-long 90 slots-a_3 7 slots-b_2 4 " ]
}
check "the seconds of a run are kept, the longest of each test" kept

# The first of two parts fails: the second still runs, and the table has both.
mkdir -p build/tests/other
rm tests/other/apart.c
printf '#!/bin/sh\n# TEST full=first\necho 1..1; echo not ok 1\n' >tests/other/bad.t
printf '#!/bin/sh\n# TEST full=other\necho 1..1; [ -n "$TRINE_FULL" ] && echo ok 1\n' >tests/other/script.t
printf '#!/bin/sh\n# TEST full=third\necho "1..0 # SKIP no moon"\n' >tests/other/moon.t
printf '#!/bin/sh\n# TEST full=fourth\necho "1..0 # SKIP no sun"\n' >tests/other/sun.t
printf '#!/bin/sh\n# TEST full=fourth\necho 1..2; echo ok 1; echo "ok 2 - orbit # SKIP no moon"\n' >tests/other/most.t
chmod +x tests/other/*.t
# table STATUS PATTERN PART...: full.sh exits so, and its output matches
table() {
    local said status=0 want=$1 pattern=$2
    shift 2
    said=$(tests/full.sh build "$@" 2>&1) || status=$?
    echo "$said"
    [ $status = "$want" ] && grep -qzE -- "$pattern" <<<"$said"
}
check "parts are run one after the other, with a table" table 1 'first +[0-9]+ s  FAILED.other +[0-9]+ s  passed' first other
check "a part whose test was skipped is not run, with the reason" \
    table 77 'other +[0-9]+ s  passed.third +[0-9]+ s  not run:. +other-moon: no moon' other third
check "nor is one in which another test was run" table 77 'fourth +[0-9]+ s  not run:. +other-sun: no sun' fourth
check "a failure comes before that" table 1 'third .*not run:.*first .*FAILED' third first
check "skips are counted by reason" table 77 '1 case skipped: no moon .other-most..1 test skipped: no sun .other-sun' fourth
printf '#!/bin/sh\n# TEST full=fifth\necho 1..2\nfor n in 1 2; do echo "# skipped: no stars"; echo ok $n; done\n' >tests/other/parts.t
chmod +x tests/other/parts.t
check "parts of a case, once for each test" table 0 '1 part of a case skipped: no stars .other-parts.' fifth
check "an unknown part" fails tests/full.sh build nowhere
check "one part alone" tests/full.sh build other
nothing_run() {
    local status=0
    sed -i 2d tests/other/moon.t
    tests/run.sh build all other/moon || status=$?
    [ $status = 77 ]
}
check "make test: a test that was skipped is not run" nothing_run

# What tests/lib.sh skips has a reason.
cp "$lib" tests/lib.sh
printf '#!/bin/sh\n. tests/lib.sh\nskip_all "Slurm: the cluster cannot be started: $(true)"\n' >tests/other/moon.t
check "a skip without a reason fails" fails tests/other/moon.t

# Who asks only whether a test fails (tools/mutants.sh) does not wait for what follows its first failure.
printf '#!/bin/sh
. tests/lib.sh
result 0 one
result 1 two
result 0 three
done_testing
' >tests/other/moon.t
run env TRINE_FIRST_FAILURE=1 tests/other/moon.t
check "a script can end at its first failure" test "$status $(tail -n 1 "$dir/out")" = "1 1..2"
done_testing

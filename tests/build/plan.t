#!/bin/bash
# Tests the test runner in a tree of its own: the plan for each marker, errors for invalid markers, and that a failed
# and a hanging test fail.
set -eu
. tests/lib.sh
needs prove

tree=$dir/tree
mkdir -p "$tree/tools" "$tree/tests/suite" "$tree/tests/other" "$tree/build/tests/suite"
cp tests/plan.sh tests/run.sh tests/full.sh tests/path.sh tests/rules.yml "$tree/tests/"
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
printf '#!/bin/sh\n# TEST full=other timeout=3\n' >tests/other/script.t

check "all except the long ones" plans all "" "suite-alone-np0 suite-longer-np2 suite-ranks-np1 suite-ranks-np4"
check "the long ones too" plans full "" \
    "other-long-np8 suite-alone-np0 suite-longer-np2 suite-ranks-np1 suite-ranks-np4 other-script"
check "a part: its own tests, and those with longer=PART" plans full=slow2 "" "other-long-np8 suite-longer-np2"
check "another part" plans full=other "" "other-script"
check "the parts" plans parts "" "other slow2"
check "single processes only" plans alone "" "suite-alone-np0"
check "the tests of a GPU, long or not" plans device "" "other-long-np8 suite-ranks-np1 suite-ranks-np4"
check "one folder" plans full other "other-long-np8 other-script"
check "one file" plans all suite/ranks "suite-ranks-np1 suite-ranks-np4"
check "an unknown plan" fails tests/plan.sh build long
check "time limits" grep -q -- 'timeout -k 10 300 .*-np 4' build/t/suite-ranks-np4.t
check "a first line without a marker" bad '#include "harness.h"' "no marker; the first line must be"
check "a number of ranks that is not a number" bad '/* TEST np=two */' 'invalid "np=two"'
check "an unknown argument of a marker" bad '/* TEST np=2 long */' 'unknown word "long"'
check "a long test without a part" bad '/* TEST np=2 full */' 'invalid "full"'
check "a part in capitals" bad '/* TEST np=2 full=MPI */' "PART of lower-case letters and digits"
check "two parts" bad '/* TEST np=2 full=a longer=b */' "more than one part: a and longer=b"
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
echo '/* TEST np=0 timeout=1 */' >tests/suite/alone.c
check "a test that hangs is killed and fails" fails tests/run.sh build all suite/alone

# The first of two parts fails: the second still runs, and the table has both.
mkdir -p build/tests/other
printf '#!/bin/sh\n# TEST full=first\necho 1..1; echo not ok 1\n' >tests/other/bad.t
printf '#!/bin/sh\n# TEST full=other\necho 1..1; [ -n "$TRINE_FULL" ] && echo ok 1\n' >tests/other/script.t
chmod +x tests/other/*.t
table() {
    local said status=0
    said=$(tests/full.sh build first other 2>&1) || status=$?
    echo "$said"
    [ $status = 1 ] && [[ $said == *"first "*" s  FAILED"*"other "*" s  passed"* ]]
}
check "parts are run one after the other, with a table" table
check "an unknown part" fails tests/full.sh build nowhere
check "one part alone" tests/full.sh build other
done_testing

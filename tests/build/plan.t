#!/bin/bash
# The test runner itself: what is planned for which marker, that bad markers are refused, that a failed
# and a hanging test fail, in a tree of its own.
set -eu
. tests/lib.sh
needs prove

tree=$dir/tree
mkdir -p "$tree/tools" "$tree/tests/room" "$tree/tests/other" "$tree/build/tests/room"
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
    echo "$1" >tests/room/bad.c
    local said status=0
    said=$(tests/plan.sh build 2>&1) || status=$?
    rm tests/room/bad.c
    echo "$said"
    [ $status != 0 ] && [[ $said == *tests/room/bad.c:1:*$2* ]]
}

fails() {
    ! "$@"
}

echo '/* TEST np=0 */' >tests/room/alone.c
echo '/* TEST np=1,4 device */' >tests/room/ranks.c
echo '/* TEST np=8 full=slow2 timeout=900 device */' >tests/other/long.c
echo '/* TEST np=2 longer=slow2 */' >tests/room/longer.c
echo '/* TEST np=none */' >tests/other/none.c
printf '#!/bin/sh\n# TEST full=other timeout=3\n' >tests/other/script.t

check "all but the long ones" plans all "" "room-alone-np0 room-longer-np2 room-ranks-np1 room-ranks-np4"
check "the long ones too" plans full "" \
    "other-long-np8 room-alone-np0 room-longer-np2 room-ranks-np1 room-ranks-np4 other-script"
check "a part: its own, and what is longer in it" plans full=slow2 "" "other-long-np8 room-longer-np2"
check "another part" plans full=other "" "other-script"
check "the parts" plans parts "" "other slow2"
check "single processes only" plans alone "" "room-alone-np0"
check "what a GPU runs, long or not" plans device "" "other-long-np8 room-ranks-np1 room-ranks-np4"
check "one room" plans full other "other-long-np8 other-script"
check "one file" plans all room/ranks "room-ranks-np1 room-ranks-np4"
check "no such plan" fails tests/plan.sh build long
check "time limits" grep -q -- 'timeout -k 10 300 .*-np 4' build/t/room-ranks-np4.t
check "no first line" bad '#include "harness.h"' "the first line must be"
check "ranks that are no number" bad '/* TEST np=two */' "what is np=two"
check "an unknown word" bad '/* TEST np=2 long */' 'what is "long"'
check "a long one without a part" bad '/* TEST np=2 full */' "what is full"
check "a part of capitals" bad '/* TEST np=2 full=MPI */' "of small letters and digits"
check "two parts" bad '/* TEST np=2 full=a longer=b */' "one part, not a and longer=b"
check "one that is longer in no part" bad '/* TEST np=2 */ get'"env(\"TRINE_FULL\")" "say longer=PART"
check "a room without tests" fails tests/run.sh build all nowhere

printf '#!/bin/sh\necho 1..1; echo ok 1\n' >build/tests/room/alone
chmod +x build/tests/room/alone
check "a good test passes" tests/run.sh build all room/alone
printf '#!/bin/sh\necho 1..1; echo ok 1; exit 1\n' >build/tests/room/alone
check "a test that says ok and exits with 1 fails" fails tests/run.sh build all room/alone
printf '#!/bin/sh\necho 1..2; echo ok 1\n' >build/tests/room/alone
check "a test that ends too early fails" fails tests/run.sh build all room/alone
printf '#!/bin/sh\necho 1..1; echo ok 1; exec sleep 100\n' >build/tests/room/alone
echo '/* TEST np=0 timeout=1 */' >tests/room/alone.c
check "a test that hangs is ended and fails" fails tests/run.sh build all room/alone

# Of two parts the first fails: the second is run all the same, and the table has both.
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
check "a part that there is not" fails tests/full.sh build nowhere
check "one part alone" tests/full.sh build other
done_testing

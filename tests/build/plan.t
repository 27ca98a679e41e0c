#!/bin/bash
# The test runner itself: what is planned for which marker, that bad markers are refused, that a failed
# and a hanging test fail, in a tree of its own.
set -eu

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/tests/room" "$tree/tests/other" "$tree/build/tests/room"
cp tests/plan.sh tests/run.sh tests/rules.yml "$tree/tests/"
cd "$tree"
count=0

check() {
    count=$((count + 1))
    local name=$1
    shift
    if "$@" >said 2>&1; then echo "ok $count - $name"; else
        echo "not ok $count - $name"
        sed 's/^/# /' said
    fi
}

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
echo '/* TEST np=1,4 */' >tests/room/ranks.c
echo '/* TEST np=8 full timeout=900 */' >tests/other/long.c
echo '/* TEST np=none */' >tests/other/none.c
printf '#!/bin/sh\n# TEST full timeout=3\n' >tests/other/script.t

check "all but the long ones" plans all "" "room-alone-np0 room-ranks-np1 room-ranks-np4"
check "the long ones too" plans full "" "other-long-np8 room-alone-np0 room-ranks-np1 room-ranks-np4 other-script"
check "single processes only" plans alone "" "room-alone-np0"
check "one room" plans full other "other-long-np8 other-script"
check "one file" plans all room/ranks "room-ranks-np1 room-ranks-np4"
check "time limits" grep -q -- 'timeout -k 10 300 .*-np 4' build/t/room-ranks-np4.t
check "no first line" bad '#include "harness.h"' "the first line must be"
check "ranks that are no number" bad '/* TEST np=two */' "what is np=two"
check "an unknown word" bad '/* TEST np=2 long */' 'what is "long"'
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
echo "1..$count"

#!/bin/bash
# The planter of faults itself: that it tells caught from survived and stops where its list is wrong, in
# a tree of its own with one source and one test; and that the texts of the real list are in its files.
set -eu
. tests/needs.sh
needs git make

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
if TEXTS=1 tools/mutants.sh "$tree/texts" >"$tree/said" 2>&1; then echo "ok 1 - all texts are there"; else
    echo "not ok 1 - all texts are there"
    sed 's/^/# /' "$tree/said"
fi
mkdir -p "$tree/tools" "$tree/tests/room" "$tree/tests/mutants" "$tree/src"
cp tools/mutants.sh "$tree/tools/"
cp tests/plan.sh "$tree/tests/"
cd "$tree"
git init -q .
echo /build/ >.gitignore
cat >Makefile <<'END'
build/tests/%: tests/%.c src/sum.c
	mkdir -p $(@D)
	$(CC) -o $@ $^
END
echo 'int sum(int a, int b) { return a + b; }
int twice(int a) { return a + a; }' >src/sum.c
cat >tests/room/sum.c <<'END'
/* TEST np=0 */
#include <stdio.h>
int sum(int, int);
int main(void) {
    int good = sum(1, 2) == 3;
    printf("1..1\n%s 1 - adds\n", good ? "ok" : "not ok");
    return !good;
}
END
count=1

# mutant NAME FIND PUT [CASE]
mutant() {
    printf 'mutant %s\nbreaks it\nfile src/sum.c\ntest room/sum 0 %s\nfind\n    %s\nput\n    %s\n\n' \
        "$1" "${4:-adds}" "$2" "$3"
}

# check NAME STATUS TEXT: the list as it is now
check() {
    count=$((count + 1))
    local status=0
    MUTANT_SECONDS=3 tools/mutants.sh build >said 2>&1 || status=$?
    if [ $status = "$2" ] && grep -q -- "$3" said; then echo "ok $count - $1"; else
        echo "not ok $count - $1"
        sed 's/^/# /' said
    fi
}

list=tests/mutants/list
{ mutant minus "a + b" "a - b"; mutant times "a + b" "a * b"; } >$list
check "faults are caught" 0 "2 faults planted, 0 survived"
check "with what the test said" 0 "not ok 1 - adds"
{ mutant minus "a + b" "a - b"; mutant swapped "a + b" "b + a"; } >$list
check "a survivor fails" 1 "SURVIVED  swapped"
mutant for-ever "return a + b;" "for (;;) ;" >$list
check "what hangs survived" 1 "SURVIVED  for-ever.*runs for ever"
mutant nowhere "a / b" "a - b" >$list
check "a text that is not there" 1 "not in the file.*nowhere"
mutant twice "return a" "return 1" >$list
check "a text that is there twice" 1 "more than once: twice"
mutant broken "a + b" "a +" >$list
check "what does not compile" 1 "broken does not compile"
mutant nameless "a + b" "a - b" subtracts >$list
check "a case that there is not" 1 "subtracts does not pass without any fault"
{ mutant same "a + b" "a - b"; mutant same "a + b" "a * b"; } >$list
check "a name that is there twice" 1 "same is there twice"
echo "mutant one two" >$list
check "a line that means nothing" 1 'what is "mutant one two"'
mutant minus "a + b" "a - b" >$list
mkdir -p build/mutants/tree/src && echo 'int sum(int a, int b) { return 0; }' >build/mutants/tree/src/sum.c
check "what an interrupted run left is undone" 0 "1 faults planted, 0 survived"
echo "1..$count"

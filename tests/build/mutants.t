#!/bin/bash
# Tests tools/mutants.sh in a tree of its own with one source and one test: it tells caught from survived, and stops
# when its list is wrong. Also checks that the texts of the real list are in their files.
set -eu
. tests/lib.sh
needs git make

tree=$dir/tree
check "all texts are there" env TEXTS=1 tools/mutants.sh "$dir/texts"
mkdir -p "$tree/tools" "$tree/tests/suite" "$tree/tests/mutants" "$tree/src"
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
cat >tests/suite/sum.c <<'END'
/* TEST np=0 */
#include <stdio.h>
int sum(int, int);
int main(void) {
    int good = sum(1, 2) == 3;
    printf("1..1\n%s 1 - adds\n", good ? "ok" : "not ok");
    return !good;
}
END

# mutant NAME FIND PUT [CASE]
mutant() {
    printf 'mutant %s\nbreaks it\nfile src/sum.c\ntest suite/sum 0 %s\nfind\n    %s\nput\n    %s\n\n' \
        "$1" "${4:-adds}" "$2" "$3"
}

# planting NAME STATUS TEXT: runs it with the list as it is now; exit status and a text of its output
planting() {
    MUTANT_SECONDS=3 run tools/mutants.sh build
    cat "$dir/err" >>"$dir/out"
    if [ $status = "$2" ] && grep -q -- "$3" "$dir/out"; then result 0 "$1"; else result 1 "$1"; fi
}

list=tests/mutants/list
{ mutant minus "a + b" "a - b"; mutant times "a + b" "a * b"; } >$list
planting "faults are caught" 0 "2 faults planted, 0 survived"
planting "with the test's message" 0 "not ok 1 - adds"
{ mutant minus "a + b" "a - b"; mutant swapped "a + b" "b + a"; } >$list
planting "a survivor fails" 1 "SURVIVED  swapped"
mutant for-ever "return a + b;" "for (;;) ;" >$list
planting "a mutant that hangs survives" 1 "SURVIVED  for-ever.*runs into the limit of 3 s"
mutant nowhere "a / b" "a - b" >$list
planting "a text that is missing" 1 "missing from the file.*nowhere"
mutant twice "return a" "return 1" >$list
planting "a text that occurs twice" 1 "more than once: twice"
mutant broken "a + b" "a +" >$list
planting "a mutant that does not compile" 1 "mutant broken does not compile"
mutant nameless "a + b" "a - b" subtracts >$list
planting "an unknown case" 1 "subtracts fails on the unchanged tree"
{ mutant same "a + b" "a - b"; mutant same "a + b" "a * b"; } >$list
planting "a duplicate name" 1 "duplicate mutant same"
echo "mutant one two" >$list
planting "an invalid line" 1 'invalid line "mutant one two"'
mutant minus "a + b" "a - b" >$list
mkdir -p build/mutants/1/tree/src && echo 'int sum(int a, int b) { return 0; }' >build/mutants/1/tree/src/sum.c
planting "the remains of an interrupted run are undone" 0 "1 faults planted, 0 survived"
done_testing

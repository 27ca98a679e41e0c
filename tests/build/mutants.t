#!/bin/bash
# Tests tools/mutants.sh and tools/matrix.sh in a tree of their own with one source and few tests: caught is told from
# survived, a wrong list stops them, the matrix names what fails. Also checks the real list and matrix: the texts are in
# their files, and each fault is caught by a test of make check.
set -eu
. tests/lib.sh
needs git make

tree=$dir/tree
# The fault that is planted in such a tree has replaced its text.
case $PWD in
    */mutants/*/tree) skip "all texts are there" "a fault may be planted here" ;;
    *) check "all texts are there" env TEXTS=1 tools/mutants.sh "$dir/texts" ;;
esac
check "each fault is caught by a test of make check" tools/matrix.sh check
mkdir -p "$tree/tools" "$tree/tests/suite" "$tree/tests/mutants" "$tree/src"
cp tools/mutants.sh tools/matrix.sh tools/coverage.sh tools/deps.sh "$tree/tools/"
cp tests/sizes.sh tests/environment.sh tests/path.sh "$tree/tests/"
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
mutant for-ever "return a + b;" "int pause(void); for (;;) pause();" >$list
planting "a mutant that hangs survives" 1 "SURVIVED  for-ever.*runs into the limit of 3 s"
mkdir mine
printf '#!/bin/sh\n' >mine/surplus
printf '#!/bin/sh\necho 1..1\nsurplus && echo "ok 1 - calls"\n' >tests/suite/calls.t
chmod +x mine/surplus tests/suite/calls.t
mutant calls "a + b" "a - b" | sed 's|suite/sum 0 adds|suite/calls - calls|' >$list
TARGETS=build/tests/suite/sum PATH=$tree/mine:$PATH \
    planting "a test sees the commands that it sees in make check" 1 "surplus: not found"
rm tests/suite/calls.t
mutant nowhere "a / b" "a - b" >$list
planting "a text that is missing" 1 "missing from the file.*nowhere"
mutant twice "return a" "return 1" >$list
planting "a text that occurs twice" 1 "more than once: twice"
{ mutant two "a + b" "a - b" | sed '$d'; printf 'put\n    a * b\n'; } >$list
planting "a field that is given twice" 1 'a second "put"'
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

# another NAME CONDITION [MARKER]: one more test
another() {
    cat >"tests/suite/$1.c" <<END
/* TEST np=0 ${3:-}*/
#include <stdio.h>
int sum(int, int);
int main(void) {
    int good = $2;
    printf("1..1\n%s 1 - holds\n", good ? "ok" : "not ok");
    return !good;
}
END
}

# has LINE: the matrix has it; its second word, a sum, is left out
has() {
    sed 's/^\([^ ]*\) [0-9]* /\1 /' tests/mutants/matrix | grep -qx -- "$1"
}

another bad 0
another long "sum(1, 2) == 3" "full=all "
another other "sum(1, 2) == 3"
another positive "sum(1, 2) > 0"
another single 1
printf 'all: ;\ntests: $(patsubst %%.c,build/%%,$(wildcard tests/*/*.c))\n' >>Makefile
{ mutant minus "a + b" "a - b"; mutant times "a + b" "a * b"; mutant more "a + b" "a + b + 1"; } >$list
printf '# What catches what.\nmore unrun\ngone 12 all 1 suite/sum:0\n' >tests/mutants/matrix
export MATRIX=1 J=1 MATRIX_FAILURES=3
planting "a test that fails without a fault does not count" 0 "suite/bad on 0 ranks fails on the unchanged tree"
check "the matrix has those that fail, until three have" has "minus enough 0 suite/sum:0 suite/other:0"
check "and those that pass" has "times all 2 suite/sum:0 suite/other:0"
check "a fault that has left the list leaves the matrix" test "$(grep -c . tests/mutants/matrix)" = 4
rm tests/suite/bad.c
mutant minus "a + b" "a * b" >$list
planting "a fault with another text is tried again" 0 "minus .* all 2 suite/sum:0 suite/other:0"
run tools/mutants.sh build
check "one with the same text is not" test "$status$(cat "$dir/out" "$dir/err")" = 0
check "the matrix is complete" tools/matrix.sh check

# Of the tests that see a fault, one that has seen another of this file comes first.
cp tests/mutants/matrix before
{ mutant minus "a + b" "a - b"; mutant times "a + b" "a * b"; } >$list
printf '# What catches what.\ntimes 1 enough 0 suite/positive:0\n' >tests/mutants/matrix
MATRIX_FAILURES=2 planting "the likely one first" 0 "^minus .* suite/sum:0 suite/positive:0"
mv before tests/mutants/matrix

# Later runs add to what the matrix has.
export MATRIX_FAILURES=1
{ mutant minus "a + b" "a - b"; mutant times "a + b" "a * b"; mutant more "a + b" "a + b + 1"; } >$list
planting "one failure may be enough" 0 "minus .* enough 0 suite/sum:0"
export MATRIX_FAILURES=2
run env MATRIX=left tools/mutants.sh build
check "those that too few have caught are left" test "$(xargs <"$dir/out")" = "minus times more"
run env MATRIX_MINUTES=0 tools/mutants.sh build
check "none is begun after the minutes given" test "$status$(cat "$dir/out" "$dir/err")" = 0
planting "they are run against further tests" 0 "minus .* enough 0 suite/sum:0 suite/other:0"
run env MATRIX=left MATRIX_FAILURES=4 tools/mutants.sh build
check "more failures leave more" test "$(xargs <"$dir/out")" = "minus times more"
MATRIX_FAILURES=4 planting "until all have run" 0 "minus .* all 1 suite/sum:0 suite/other:0 suite/positive:0"
run env MATRIX=left MATRIX_FAILURES=4 tools/mutants.sh build
check "then nothing is left" test "$status$(cat "$dir/out" "$dir/err")" = 0
mutant minus "a + b" "a * b" >$list
export MATRIX_FAILURES=3
planting "another text again" 0 "minus .* all 2 suite/sum:0 suite/other:0"
mutant single "a + b" "b + a" >>$list
run tools/matrix.sh check
check "a fault without a line is an error" prints 1 "single: not in tests/mutants/matrix"
planting "a fault that nothing catches" 0 "single [0-9]* all"
run tools/matrix.sh check
check "is an error" prints 1 "single: no test of make check catches it"
sed -i '/^single /d' tests/mutants/matrix
run tools/matrix.sh unrun
run tools/matrix.sh check
check "one that has not been run is told" prints 1 "1 mutants have not been run yet"
printf 'test suite/other 1.0\ntest suite/sum 1.0\nsrc/more.c 8\nsrc/sum.c c\n' >tests/coverage
run tools/matrix.sh without suite/sum
check "without a test a mutant would keep one" prints 1 "minus: caught by suite/sum; suite/other would be left"
check "and no file would be lost" prints 0 "executed"
run tools/matrix.sh without suite/other
check "without another a file would" prints 1 "src/more.c: executed by suite/other alone"
check "which fails" test $status = 1
run tools/matrix.sh without suite/third
check "a test that is in no record is told" prints 1 "suite/third: not in tests/coverage"
cp tests/mutants/matrix "$dir/matrix"
tools/matrix.sh forget suite/sum
run env MATRIX=left tools/mutants.sh build
check "what a changed test has caught is left" prints 1 minus
check "what others have caught is kept" has "minus enough 2 suite/other:0"
cp "$dir/matrix" tests/mutants/matrix
run tools/matrix.sh
check "the report has what a test catches alone" prints 1 "    suite/positive"
done_testing

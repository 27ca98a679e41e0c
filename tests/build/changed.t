#!/bin/bash
# Tests tests/changed.sh (make test CHANGED=1) and the record of tools/coverage.sh in a tree of their own: a changed
# source runs the tests that execute it, the cheapest first, and no more than the limit; what is left out is told.
set -eu
. tests/lib.sh
needs git make gcc gcov
export CC=gcc # the counters are its own

tree=$dir/tree
mkdir -p "$tree/tools" "$tree/tests/suite" "$tree/src"
cp tools/coverage.sh "$tree/tools/"
cp tests/environment.sh tests/sizes.sh tests/changed.sh "$tree/tests/"
printf '#!/bin/sh\necho "$PATH"\n' >"$tree/tests/path.sh"
chmod +x "$tree/tests/path.sh"
cd "$tree"
echo /build/ >.gitignore
cat >Makefile <<'END'
BUILD = build
all benches: ;
tests: $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/*.c))
$(BUILD)/tests/%: tests/%.c $(BUILD)/src/sum.o $(BUILD)/src/product.o
	mkdir -p $(@D)
	$(CC) $(SAN) -o $@ $^
$(BUILD)/src/%.o: src/%.c
	mkdir -p $(@D)
	$(CC) $(SAN) -c -o $@ $<
END
echo 'int sum(int a, int b) {
    if (a > 1000) return b + a;
    return a + b;
}' >src/sum.c
echo 'int product(int a, int b) { return a * b; }' >src/product.c
echo '#define LIMIT 3' >src/limit.h

# program NAME EXPRESSION [MARKER]
program() {
    cat >"tests/suite/$1.c" <<END
/* TEST ${3:-np=0} */
int sum(int, int), product(int, int);
int main(void) {
    return !($2);
}
END
}
program adds "sum(1, 2) == 3"
program large "sum(2000, 2) == 2002"
program both "product(2, sum(1, 2)) == 6"
program neither 1
program long "sum(1, 2) == 3" "np=0 full=more"
printf '#!/bin/sh\necho 1..1; echo ok 1 - a script\n' >tests/suite/script.t
chmod +x tests/suite/script.t
git init -q .
git add -A
git -c user.name=a -c user.email=a@b commit -q -m all

record=tests/coverage
run tools/coverage.sh build
check "the record is made" test "$status" = 0
check "of the tests of make check" test "$(grep -c '^test ' $record)" = 5
# adds, both, large, neither, script: 8 4 2 1, 8
check "which execute a source" grep -qx "src/sum.c e0" $record
check "and another" grep -qx "src/product.c 40" $record
run tools/coverage.sh build --lines src/sum.c 2 2
check "a line has the tests that come to it" test "$(cut -d' ' -f1,2 "$dir/out" | tr '\n' ' ')" = \
    "suite/adds 0 suite/both 0 suite/large 0 "
run tools/coverage.sh build --lines src/sum.c 3 3
check "and only these" test "$(cut -d' ' -f1,2 "$dir/out" | tr '\n' ' ')" = "suite/adds 0 suite/both 0 "
printf 'test suite/adds 40.0\ntest suite/both 1000\ntest suite/large 3.0\ntest suite/neither 0.1\ntest suite/script 1\n' >"$dir/tests"
{ cat "$dir/tests"; grep '^src' $record; } >"$dir/record"
mv "$dir/record" $record
git add -A
git -c user.name=a -c user.email=a@b commit -q -m record

# chooses NAME TESTS [TOLD]
chooses() {
    run tests/changed.sh build $((60 / $(nproc))) # of all cores
    cat "$dir/err" >"$dir/said"
    if [ "$(tr '\n' ' ' <"$dir/out")" = "${2:+$2 }" ] && grep -q -e "${3:-}" "$dir/err"; then result 0 "$1"; else result 1 "$1"; fi
    git checkout -q .
    git clean -q -f -d
}
chooses "nothing has changed" "" "nothing has changed since the last commit"
echo >>src/sum.c
chooses "the cheapest first, as many as the time allows" "suite/large suite/adds" "left out: suite/both"
echo >>src/sum.c
echo "suite-large 59" >tests/costs
chooses "a test that waits takes longer than its CPU seconds" "suite/adds" "left out: suite/large"
echo >>src/product.c
chooses "one that takes too long is left out" "" "left out: suite/both"
echo >>tests/suite/both.c
echo >>src/sum.c
chooses "a changed test comes first" "suite/both" "left out: suite/large .*suite/adds"
program new 1
chooses "a new test" "suite/new"
echo >>tests/suite/script.t
chooses "a script" "suite/script"
echo >>Makefile
chooses "what the record does not know" "" "Makefile: no test of make check is known to execute it"
echo >>tests/suite/long.c
chooses "a long test" "" "tests/suite/long.c: no test of make check is known to execute it"
mkdir -p build/obj build/tests/suite
echo "build/obj/product.o: src/product.c src/limit.h" >build/obj/product.o.d
echo "build/tests/suite/neither.o: tests/suite/neither.c src/limit.h" >build/tests/suite/neither.o.d
echo >>src/limit.h
chooses "a header stands for what includes it" "suite/neither" "left out: suite/both"
sed -i '/^test/s|suite/large|suite/gone|' $record
git -c user.name=a -c user.email=a@b commit -q -a -m older
echo >>src/sum.c
chooses "a test that is gone is not chosen, and one that the record lacks is counted" "suite/adds" "1 tests of make check are not in"
done_testing

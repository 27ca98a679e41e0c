#!/bin/sh
#
# tests/docs/console.sh accepts a page whose output matches its commands, and no other.
# shellcheck disable=SC2016,SC1003  # the pages' own variables and backquotes
. tests/lib.sh
export BUILD

page() { # page LINE...: one console block of these lines, with surrounding text that is not run
    printf '%s\n' 'Text.' '```' '$ false' '```' '```console' "$@" '```' '' '$ false' >"$dir/page.md"
    run env LIMIT="${seconds:-60}" tests/docs/console.sh "$dir/page.md"
}
good() { # good COUNT: that many cases, all pass
    [ "$status" -eq 0 ] && prints "$1" "ok " && prints 0 "not ok " && prints 1 "1..$1"
}
bad() { # bad CASE TEXT...: only this case failed, with these lines as the reason
    [ "$status" -eq 1 ] && prints 1 "not ok " && grep -q "^not ok $1 - $dir/page.md:" "$dir/out" || return 1
    shift
    for text in "$@"; do
        grep -q -x -F -- "# $text" "$dir/out" || return 1
    done
}

page '$ seq 3' 1 2 3 '$ echo a \' '    b' 'a b' '$ echo; echo c; echo' '' c
good 3
result $? "full output, a command over two lines, blank lines"

page '$ seq 20' 1 2 ... 9 10 ... 20 '$ seq 20' ... 19 20 '$ seq 20' 1 ... '$ seq 2' ... 1 ... 2 ... '$ seq 2' ...
good 5
result $? "a line of dots matches any number of lines, including none"

page '$ echo "took 3 ms at 4 GB/s on host"' 'took ... ms at ... GB/s ...' '$ echo "0....=..1="' '0....=..1='
good 2
result $? "three dots in a line match any text; more and fewer dots are literal"

page '$ echo 0.....=' '0....='
bad 1 "shown, but not printed: 0....=" "printed instead:        0.....="
result $? "a different number of dots is a mismatch"

page '$ sh -c "echo no >&2; exit 3"' no '[status 3]' '$ echo after' after
good 2
result $? "standard error is output; an expected status"

page '$ x=5' '$ f() { echo $((x + 1)); }' '$ f >build/out' '$ cat build/out' 6
good 4
result $? "commands share variables, functions and files; one without output is run"

page '$ seq 5' 1 2 4 ... '$ echo b' b
bad 1 "shown, but not printed: 4" "printed instead:        3" "    seq 5" "    5"
result $? "a changed line is reported with the command and its output"

page '$ seq 5' ... 3 5
bad 1 "shown, but not printed: 3" "printed instead:        4"
result $? "a missing line without dots"

page '$ seq 5' ... 4 ... 2 ...
bad 1 "shown, but not printed: 2" "looked for after:       4"
result $? "lines in another order"

page '$ seq 2' 1
bad 1 "printed, but not shown: 2"
result $? "additional output at the end"

page '$ seq 2' 2
bad 1 "shown, but not printed: 2" "printed instead:        1"
result $? "additional output at the start"

page '$ true' 'something'
bad 1 "shown, but not printed: something" "printed instead:        (nothing more)"
result $? "a command without output where the page shows output"

page '$ echo a' a '$ sh -c "exit 1"'
bad 2 "exit status 1, not 0" '    sh -c "exit 1"'
result $? "a command that fails"

page '$ echo a' a '[status 1]'
bad 1 "exit status 0, not 1"
result $? "a command that succeeds where the page expects a status"

page '$ echo a' b '$ if then'
[ "$status" -eq 1 ] && prints 2 "not ok " && prints 1 "the shell that runs the page exited with"
result $? "a command that exits the shell of the page"

seconds=1
page '$ sleep 100' '$ echo a'
seconds=
[ "$status" -eq 1 ] && prints 2 "not ok " && prints 1 "not done after 1 s" && prints 1 "not run"
result $? "a command that does not terminate"

page 'output first' '$ true'
[ "$status" -eq 2 ] && says 1 "output without a command: output first"
result $? "a block that starts with output is refused"

page
[ "$status" -eq 2 ] && says 1 "has no block"
result $? "a page without commands is refused"

page '$ ls README.md && mpirun -np 2 /bin/sh -c "echo rank"' README.md rank rank
good 1
result $? "the source tree and mpirun are available"

BUILD=$(realpath "$BUILD")
page '$ echo "$BUILD"' build
good 1
result $? "the build is named as there, wherever it is: a page's scripts may read BUILD"

printf '%s\n' '```console' '$ seq 3' 1 ... '```' >"$dir/page.md"
run tests/docs/console.sh --show "$dir/page.md"
[ "$status" -eq 0 ] && grep -q '^-------- shown' "$dir/out" && prints 1 "printed, status 0" &&
    [ "$(grep -c -x 1 "$dir/out")" -eq 2 ] && [ "$(grep -c -x 3 "$dir/out")" -eq 1 ]
result $? "--show prints the shown and the actual output"
done_testing

#!/bin/sh
# Runs the commands of a page and compares their output with the page; TAP, a case for each command.
#
#     tests/docs/console.sh PAGE             from the top of the tree; BUILD names the build, "build" if not set
#     tests/docs/console.sh --show PAGE      prints for each command what is shown and all that is printed, to update
#                                            a page by hand
#
# Commands stand in fenced blocks:
#
#     ```console
#     $ build/train_gpt --dry-run --model gpt2 \
#         --dp 2
#     model    12 layers, hidden 768, ...
#     ...
#              total               2597.561
#     [status 1]
#     ```
#
# A command starts with "$ " and continues after a backslash at the end of its line. Its output follows, with standard
# error. A line of three dots matches any number of lines, three dots within a line match any text (more dots
# and fewer are literal); everything else must equal the output, except for blanks at the end of a line. A command
# without output below it is run, too. Its exit status must be 0, or that of a line [status N].
#
# One POSIX shell runs all commands of a page in order, so they may use each other's variables and files. Its working
# directory has links to the tree and to the files of the build, and its own folder `build`, which BUILD names: a page
# writes below `build/` only. Its mpirun is a script that calls tools/mpirun.sh, which works as root and on few cores.
. tests/lib.sh
needs awk

show=
if [ "${1:-}" = --show ]; then
    show=yes
    shift
fi
if [ $# -ne 1 ] || [ ! -f "$1" ]; then
    echo "Usage: tests/docs/console.sh [--show] PAGE" >&2
    exit 2
fi
page=$1 root=$PWD steps=$dir/steps
mkdir "$steps" "$dir/bin" "$dir/tree" "$dir/tree/build"
count=$(awk -v steps="$steps" -f tests/docs/split.awk "$page") || exit 2
[ "$count" -gt 0 ] || {
    echo "$page has no block \`\`\`console with a command" >&2
    exit 2
}

for file in "$root"/*; do
    [ "${file##*/}" = build ] || ln -s "$file" "$dir/tree/"
done
built=$(realpath "$BUILD")
find "$built" -maxdepth 1 -type f -exec ln -s -t "$dir/tree/build" {} +
launcher=$(command -v "${MPIRUN:-mpirun}") || launcher=mpirun
cat >"$dir/bin/mpirun" <<END
#!/bin/sh
MPIRUN='$launcher' exec '$root/tools/mpirun.sh' "\$@"
END
chmod +x "$dir/bin/mpirun"

cat >"$dir/driver" <<'END'
console_at=0
while [ $console_at -lt "$console_count" ]; do
    console_at=$((console_at + 1))
    {
        eval "$(cat "$console_steps/$console_at.command")"
    } </dev/null >"$console_steps/$console_at.printed" 2>&1
    echo $? >"$console_steps/$console_at.status"
done
END
run env -C "$dir/tree" BUILD=build PATH="$dir/bin:$PATH" console_count="$count" console_steps="$steps" sh "$dir/driver"
over=$status

# compared N: the output and status of command N match the page
compared() {
    [ -e "$steps/$1.status" ] || {
        if [ ! -e "$steps/$1.printed" ]; then
            echo "not run"
        elif [ "$over" -eq 124 ]; then
            echo "not done after ${LIMIT:-120} s for the whole page (LIMIT)"
        else
            echo "the shell that runs the page exited with $over in this command"
        fi
        return 1
    }
    good=0
    [ "$(cat "$steps/$1.status")" -eq "$(cat "$steps/$1.expected")" ] || {
        echo "exit status $(cat "$steps/$1.status"), not $(cat "$steps/$1.expected")"
        good=1
    }
    awk -f tests/docs/match.awk "$steps/$1.shown" "$steps/$1.printed" || good=1
    return $good
}

# explained N: the same; on a failure also prints the command and its output
explained() {
    compared "$1" && return
    echo "the command:"
    sed 's/^/    /' "$steps/$1.command"
    echo "all it printed:"
    [ ! -e "$steps/$1.printed" ] || sed 's/^/    /' "$steps/$1.printed"
    return 1
}

: >"$dir/out"
: >"$dir/err"
at=0
while [ "$at" -lt "$count" ]; do
    at=$((at + 1))
    status=$(cat "$steps/$at.status" 2>/dev/null) || status=
    if [ -z "$show" ]; then
        check "$(cat "$steps/$at.name")" explained "$at"
    else
        echo "======== $(cat "$steps/$at.name")"
        sed '1d;s/^/         /' "$steps/$at.command"
        compared "$at" || true
        echo "-------- shown"
        cat "$steps/$at.shown"
        echo "-------- printed, status ${status:-unknown}"
        [ ! -e "$steps/$at.printed" ] || cat "$steps/$at.printed"
    fi
done
[ -n "$show" ] || done_testing

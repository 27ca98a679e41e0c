#!/bin/bash
# Runs the benchmarks: bench/run.sh BUILD [PART...], parts matmul, kernels, step, layouts, demo (all, if
# none is named), from the top of the tree. JSON=FILE writes all numbers there, FLAGS are handed to every
# part (build/bench/PART --help). A part that cannot run fails the script; no figure does.
set -euo pipefail

build=$1
shift
[ $# -gt 0 ] || set -- matmul kernels step layouts demo

# Before anything is measured.
for part in "$@"; do
    [ "$part" != worker ] && [ -x "$build/bench/$part" ] && continue
    echo "bench: there is no part \"$part\": matmul, kernels, step, layouts, demo" >&2
    exit 1
done
if [ -n "${JSON:-}" ]; then : >"$JSON"; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

failed=
for part in "$@"; do
    # shellcheck disable=SC2086  # flags are several words
    if ! "$build/bench/$part" --dir "$work" --json "$work/$part.json" ${FLAGS:-}; then
        echo "bench: $part did not run to its end" >&2
        failed="$failed $part"
        rm -f "$work/$part.json"
    fi
done

# The parts' files as one object, by name.
if [ -n "${JSON:-}" ]; then
    comma='{'
    for part in "$@"; do
        [ -e "$work/$part.json" ] || continue
        printf '%s"%s": ' "$comma" "$part"
        cat "$work/$part.json"
        comma=','
    done >"$work/all.json"
    [ "$comma" = ',' ] || printf '{' >>"$work/all.json"
    printf '}\n' >>"$work/all.json"
    cat "$work/all.json" >"$JSON"
fi
[ -z "$failed" ]

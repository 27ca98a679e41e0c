#!/bin/bash
# Runs the benchmarks: bench/run.sh BUILD [PART...], parts matmul, kernels, step, settings, layouts, demo,
# checkpoint, generate (all, if none is named), from the top of the tree. JSON=FILE writes all numbers there, FLAGS are
# handed to every part (build/bench/PART --help). DEVICE=cuda: on the GPU, matmul, kernels and step alone, by the object
# that was built in BUILD unless CUDA_LIBRARY names another; without a GPU that is an error. A part that cannot
# run fails the script; no figure does.
set -euo pipefail

build=$1
shift
if [ "${DEVICE:-cpu}" = cuda ]; then
    [ $# -gt 0 ] || set -- matmul kernels step
    library=${CUDA_LIBRARY:-$build/libtrine_cuda.so}
    FLAGS="--device cuda $([ ! -e "$library" ] && [ -z "${CUDA_LIBRARY:-}" ] || echo "--cuda-library $library") ${FLAGS:-}"
else
    [ $# -gt 0 ] || set -- matmul kernels step settings layouts demo checkpoint generate
    FLAGS="${DEVICE:+--device $DEVICE} ${FLAGS:-}"
fi

# Before anything is measured.
for part in "$@"; do
    [ "$part" != worker ] && [ -x "$build/bench/$part" ] && continue
    echo "bench: there is no part \"$part\": matmul, kernels, step, settings, layouts, demo, checkpoint, generate" >&2
    exit 1
done
if [ -n "${JSON:-}" ]; then : >"$JSON"; fi

# Checkpoints want a disk: /tmp may be memory.
work=$(mktemp -d)
disk=$(mktemp -d "$build/bench-XXXXXX")
trap 'rm -rf "$work" "$disk"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

failed=
for part in "$@"; do
    dir=$work
    [ "$part" != checkpoint ] || dir=$disk
    # shellcheck disable=SC2086  # flags are several words
    "$build/bench/$part" --dir "$dir" --json "$work/$part.json" $FLAGS && continue
    status=$?
    echo "bench: $part did not run to its end" >&2
    failed="$failed $part"
    rm -f "$work/$part.json"
    # 2: what was asked for is not on this machine, nor for the parts to come.
    [ $status -ne 2 ] || break
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

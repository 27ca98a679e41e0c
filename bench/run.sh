#!/bin/bash
# Runs the benchmarks: bench/run.sh BUILD [PART...], from the root of the repository. Parts: matmul, kernels, step,
# settings, layouts, demo, checkpoint, generate (default: these), schedules, bubble, planned. JSON=FILE writes all numbers to
# FILE; FLAGS are passed to every part (build/bench/PART --help). DEVICE=cuda runs on the GPU, matmul, kernels and step only, with the object
# in BUILD unless CUDA_LIBRARY names another; without a GPU that is an error. A part that cannot run fails the
# script; no figure does.
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

# Unknown parts are reported before anything is measured.
for part in "$@"; do
    [ "$part" != alternate_rank ] && [ -x "$build/bench/$part" ] && continue
    echo "bench: unknown part \"$part\"; valid: matmul, kernels, step, settings, layouts, demo, checkpoint, generate, schedules, bubble, planned" >&2
    exit 1
done
if [ -n "${JSON:-}" ]; then : >"$JSON"; fi

# Checkpoints need a disk: /tmp may be memory.
work=$(mktemp -d)
disk=$(mktemp -d "$build/bench-XXXXXX")
trap 'rm -rf "$work" "$disk"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

failed=
for part in "$@"; do
    dir=$work
    [ "$part" != checkpoint ] || dir=$disk
    # shellcheck disable=SC2086  # flags are several arguments
    "$build/bench/$part" --dir "$dir" --json "$work/$part.json" $FLAGS && continue
    status=$?
    echo "bench: $part failed (exit status $status)" >&2
    failed="$failed $part"
    rm -f "$work/$part.json"
    # 2: the device is not on this machine, so the other parts would fail, too.
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

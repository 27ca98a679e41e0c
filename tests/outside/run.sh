#!/bin/sh
# Runs the tests of tests/outside, and tests/ckpt/transformers.t, with the Python of tools/venv.sh.
# Usage: tests/outside/run.sh BUILD; PROVE_FLAGS are passed to prove.
set -eu

BUILD=$1
TRINE_PYTHON=$(tools/venv.sh "$BUILD" llamacpp)
export BUILD TRINE_PYTHON
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}" # as in tests/run.sh
status=0
# shellcheck disable=SC2086  # split into arguments
prove_all() { prove --timer --failures --comments ${PROVE_FLAGS:-} "$@" || status=1; }
prove_all --exec '' tests/ckpt/transformers.t
prove_all --exec "$TRINE_PYTHON" tests/outside/*.py
exit $status

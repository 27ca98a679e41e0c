#!/bin/sh
# Runs the tests of tests/outside, and tests/ckpt/transformers.t, with a Python that has the packages of requirements.txt:
# TRINE_PYTHON, or that of a venv under the build folder, which is made once and again when the requirements change.
# Only making it needs the network. Usage: tests/outside/run.sh BUILD; PROVE_FLAGS are passed to prove.
set -eu

BUILD=$1
wanted=tests/outside/requirements.txt
venv=$BUILD/venv-outside
if [ -z "${TRINE_PYTHON:-}" ]; then
    TRINE_PYTHON=$venv/bin/python
    if ! cmp -s $wanted "$venv/installed.txt"; then
        echo "installing $(tr '\n' ' ' <$wanted)from PyPI to $venv"
        python3 -m venv --clear "$venv"
        "$TRINE_PYTHON" -m pip install --quiet --disable-pip-version-check -r $wanted
        cp $wanted "$venv/installed.txt"
    fi
fi
export BUILD TRINE_PYTHON
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}" # as in tests/run.sh
# A Python without them must fail here, not be skipped.
"$TRINE_PYTHON" -c 'import torch, transformers, safetensors, numpy, xxhash
print("PyTorch", torch.__version__, "transformers", transformers.__version__)'
status=0
# shellcheck disable=SC2086  # split into arguments
prove_all() { prove --timer --failures --comments ${PROVE_FLAGS:-} "$@" || status=1; }
prove_all --exec '' tests/ckpt/transformers.t
prove_all --exec "$TRINE_PYTHON" tests/outside/*.py
exit $status

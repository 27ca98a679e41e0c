#!/bin/sh
# TEST timeout=600
#
# Hugging Face's transformers at both ends: it loads what build/trine-export writes, and what it saves
# is loaded here; logits are compared each time. Wants a Python with torch and transformers, which
# TRINE_PYTHON names (python3); is skipped without. What is checked, and how closely, stands in
# transformers_both_ends.py.
python=${TRINE_PYTHON:-python3}
. tests/lib.sh
"$python" -c 'import torch, transformers' 2>/dev/null ||
    skip_all "$python has no torch and transformers (TRINE_PYTHON=... names one that has)"
rm -r "$dir"
exec "$python" tests/ckpt/transformers_both_ends.py

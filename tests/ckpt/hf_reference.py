#!/usr/bin/env python3
"""Writes hf_tied.txt and hf_untied.txt: logits of two small GPT-2s by Hugging Face's transformers.

The weights are a function of the tensor's name and the element's index in the file, so that no file
of weights is needed; they are exact in bf16 and fp16, too. hf_logits.c writes the same folder, loads
it and compares.

    pip install torch transformers
    python3 tests/ckpt/hf_reference.py        # rewrites both files in this folder

Computed in float64; the test's tolerance is the rounding of fp32.
"""
import os

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

MODELS = {
    "hf_tied": dict(n_layer=2, n_embd=32, n_head=4, n_positions=16, vocab_size=61,
                    tie_word_embeddings=True),
    "hf_untied": dict(n_layer=3, n_embd=24, n_head=3, n_inner=40, n_positions=13, vocab_size=47,
                      tie_word_embeddings=False),
}


def words(name, count):
    """32-bit words: FNV-1a of the name, mixed with the element's number."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    h = (np.arange(count, dtype=np.uint64) * 2654435761 + seed) % 2**32
    h ^= h >> np.uint64(15)
    h = h * 2246822519 % 2**32
    return (h ^ h >> np.uint64(13)).astype(np.int64)


def values(name, shape):
    """n / 512 from -1/4 to 1/4; gains of norms 1 + n / 64 from 3/4 to 5/4."""
    w = words(name, int(np.prod(shape)))
    gain = ".ln_" in name and name.endswith(".weight")
    v = 1 + (w % 32 - 16) / 64 if gain else (w % 256 - 128) / 512
    return torch.tensor(v.reshape(tuple(shape)), dtype=torch.float64)


def token(i, vocabulary):
    return (7 * i + i * i) % vocabulary


def logits(config):
    """(2, T, V): two samples of T tokens, numbered consecutively."""
    sizes = GPT2Config(bos_token_id=None, eos_token_id=None, **config)
    model = GPT2LMHeadModel(sizes).double().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(values(name, p.shape))
        T, V = config["n_positions"], config["vocab_size"]
        ids = torch.tensor([[token(i, V) for i in range(b * T, (b + 1) * T)] for b in range(2)])
        return model(ids).logits.numpy()


def write(name, config):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".txt")
    with open(path, "w") as out:
        print("# Written by hf_reference.py (transformers, float64): sizes; then a line of logits for",
              file=out)
        print("# each of T positions of two samples. Token i is (7 i + i^2) mod vocab_size.",
              file=out)
        for key, value in config.items():
            print(key, int(value), file=out)
        for row in logits(config).reshape(-1, config["vocab_size"]):
            print("logits", *("%.8g" % x for x in row), file=out)


if __name__ == "__main__":
    for name, config in MODELS.items():
        write(name, config)

"""Packed, masked conversations: ten steps of Trine in fp32, in layouts of 1 to 8 ranks, and of transformers with PyTorch
in float64, from the same folders; run by make check-outside.

PyTorch has each conversation alone, so that nothing could cross a boundary and no position go on. Its ids and masks are those of
transformers' template and tokenizer: which tokens are supervised is found by rendering what is before a turn. The losses of their
tokens are summed, and divided once, by the supervised tokens of the global batch. Of Trine's file it has only which conversations
share a sample."""
import json
import os
import random
import sys
import tempfile

sys.path[:0] = ["tests", "tests/golden", "tests/tokenizer"]

import makers
import torch
from lib import call, check, done, result
from reference import key_of, permute
from shared.conversations import Model, smollm2_template, trl, windows
from shared.training import FP32, Wide, adamw, compare_steps, new_model, options, train_ours, update, wide_model
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

T, ROWS, STEPS = 160, 100, 10
# An epsilon as in families.py.
RUN = dict(seq_length=T, seed=77, global_batch_size=8, lr=2e-3, min_lr=2e-4, lr_warmup_iters=3, lr_decay_iters=10, weight_decay=0.1,
           adam_beta1=0.9, adam_beta2=0.95, adam_eps=1e-5, clip_grad=2.0)
LAYOUTS = [
    (1, ["--micro-batch-size", 2]),
    (2, ["--dp", 2, "--zero", 1, "--recompute-granularity", "full"]),
    (2, ["--tp", 2, "--sequence-parallel", "--micro-batch-size", 4]),
    (2, ["--pp", 2, "--schedule", "interleaved", "--num-virtual-stages-per-pipeline-rank", 2]),
    (4, ["--pp", 4, "--schedule", "zb"]),
    (4, ["--dp", 4, "--zero", 3, "--micro-batch-size", 2]),
    (8, ["--dp", 2, "--pp", 2, "--tp", 2, "--zero", 2, "--schedule", "zbv", "--sequence-parallel"]),
    (8, ["--tp", 8, "--sequence-parallel", "--recompute-granularity", "selective"]),
]
# Rotary positions are relative: where attention stays in a document, they may begin anywhere.
WITHOUT = {"gpt2": [["--reset-attention-mask", "no"], ["--reset-position-ids", "no"]], "llama": [["--reset-attention-mask", "no"]]}


# ---- Conversations and models ----------------------------------------------------------------------

WORDS = ("What is a rank? Each one has its own shard of the model and reads 3 of the 12 samples, slowly.\n"
         "Été, größer, Ελλάδα, мир, 日本語のテキスト, 🙂 and some() { code; }").split(" ")


def conversations():
    r = random.Random(1)

    def content(most):
        return " ".join(r.choice(WORDS) for _ in range(r.randint(1, most)))

    for _ in range(ROWS):
        roles = ["system"] * (r.random() < .5) + ["user", "assistant"] * r.choice([1, 1, 2])
        yield [dict(role=role, content=content(12 if role == "assistant" else 3)) for role in roles]


def tokenizer(special, texts):
    """tokenizer.json of a few hundred tokens."""
    vocab, merges = makers.trained_bytes(texts, 420)
    return makers.whole(makers.bpe(vocab, merges), [makers.added(len(vocab) + i, token) for i, token in enumerate(special)], None,
                        makers.pre(makers.split(makers.QWEN2), makers.byte_level(False)), makers.byte_level(False),
                        makers.DECODE_BYTES)


SIZES = dict(vocab_size=440, initializer_range=0.1, bos_token_id=None, eos_token_id=None)
FAMILIES = {  # class, configuration, special tokens, template, the token before a text
    "gpt2": (GPT2LMHeadModel,
             lambda: GPT2Config(n_layer=4, n_embd=48, n_inner=88, n_head=8, n_positions=T, resid_pdrop=0.0, embd_pdrop=0.0,
                                attn_pdrop=0.0, **SIZES),
             ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], smollm2_template, None),
    "llama": (LlamaForCausalLM,
              lambda: LlamaConfig(num_hidden_layers=4, hidden_size=48, intermediate_size=88, num_attention_heads=8,
                                  num_key_value_heads=2, head_dim=10, rms_norm_eps=1e-5, max_position_embeddings=T,
                                  tie_word_embeddings=False, rope_parameters=dict(rope_type="default", rope_theta=500.0), **SIZES),
              ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
              lambda: trl("llama3"), "<|begin_of_text|>"),
}


def make_folder(family, folder, talks):
    kind, config, special, template, begin = FAMILIES[family]
    texts = [message["content"] for messages in talks for message in messages] * 2 + [template()]
    model = Model(folder, tokenizer(special, texts), template(), begin)
    new_model(kind, config()).save_pretrained(folder)
    return model


def make_file(model, talks):
    rows, out = (os.path.join(model.folder, name) for name in ("rows.jsonl", "talks"))
    with open(rows, "w", encoding="utf-8") as file:
        for messages in talks:
            file.write(json.dumps(dict(messages=messages)) + "\n")
    call("trine-tokens", "--tokenizer", model.folder, "--chat", "--seq-length", T, "--val-fraction", 0, "--out", out, rows)
    return out + "_train.bin"


# ---- PyTorch, each conversation alone --------------------------------------------------------------

def encode(model, messages):
    """Ids and mask by transformers alone."""
    ids, begins = model.encode(model.render(messages), False)
    return ids, model.supervised(begins, [model.rendered_before(messages, i) for i, m in enumerate(messages)
                                          if m["role"] == "assistant"])


def samples(name, model, talks, path):
    """Of each window of the file its conversations, [(ids, mask)] by transformers."""
    known = {}
    for messages in talks:
        ids, mask = encode(model, messages)
        known.setdefault(tuple(ids), []).append((ids, mask))
    packed = [[known[tuple(ids)].pop() for ids, _ in documents] for documents in windows(path, T)]
    counts = [sum(sum(mask) for _, mask in sample) for sample in packed]
    result(not any(known.values()) and sum(len(sample) > 1 for sample in packed) > len(packed) / 2 and len(set(counts)) > 5,
           "%s: %d conversations in %d samples, of which %d to %d tokens are supervised" % (
               name, len(talks), len(packed), min(counts), max(counts)))
    return packed


def global_batch(packed, step):
    """The order of src/data/sampler.h."""
    G = RUN["global_batch_size"]
    for sample in range((step - 1) * G, step * G):
        epoch, index = divmod(sample, len(packed))
        yield packed[permute(key_of(RUN["seed"], "data.epoch.%d" % epoch), len(packed), index)]


def loss_sum(model, ids, mask):
    """Of the supervised tokens of one conversation."""
    with Wide():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    assert logits.dtype == torch.float64
    counts = torch.tensor(mask[1:])
    return cross_entropy(logits[:-1][counts], torch.tensor(ids[1:])[counts], reduction="sum")


def train_theirs(family, folder, packed):
    """(loss, gradient norm), and the supervised tokens, of each step."""
    model, rows, counts = wide_model(FAMILIES[family][0], folder), [], []
    optimizer = adamw(model, RUN)
    for step in range(1, STEPS + 1):
        talks = [talk for sample in global_batch(packed, step) for talk in sample]
        count, loss = sum(sum(mask) for _, mask in talks), 0.0
        for ids, mask in talks:
            part = loss_sum(model, ids, mask) / count
            part.backward()
            loss += part.item()
        rows.append((loss, update(model, optimizer, RUN, step)))
        counts.append(count)
    clipped = sum(norm > RUN["clip_grad"] for _, norm in rows)
    result(0 < clipped < STEPS and rows[-1][0] < 0.9 * rows[0][0] and len(set(counts)) > STEPS / 2,
           "%s in PyTorch: loss %.2f to %.2f, %d of %d steps clipped, %d to %d tokens supervised"
           % (family, rows[0][0], rows[-1][0], clipped, STEPS, min(counts), max(counts)))
    return rows, counts


# ---- Both ------------------------------------------------------------------------------------------

def compare_layout(name, folder, path, ranks, words, want, counts):
    mine = train_ours(folder, path, STEPS, options(RUN) + words, ranks)
    compare_steps(name, "fp32", mine, want, FP32)
    result([line["supervised"] for line in mine] == counts, name + ": supervised tokens of each step")


def compare_without(name, folder, path, words, want):
    """Or the comparisons could not fail."""
    mine = train_ours(folder, path, 1, options(RUN) + words, 1)
    off = abs(mine[0]["loss"] / want[0][0] - 1)
    result(off > 100 * FP32, "%s: another loss, by %.1e" % (name, off))


def train(dir, family):
    talks = list(conversations())
    model = make_folder(family, os.path.join(dir, family), talks)
    path = make_file(model, talks)
    want, counts = train_theirs(family, model.folder, samples(family, model, talks, path))
    for ranks, words in LAYOUTS:
        name = " ".join(map(str, [family, "np", ranks, *words]))
        check(name, lambda: compare_layout(name, model.folder, path, ranks, words, want, counts))
    for words in WITHOUT[family]:
        name = " ".join([family, *words])
        check(name, lambda: compare_without(name, model.folder, path, words, want))


with tempfile.TemporaryDirectory() as dir:
    for family in FAMILIES:
        if not sys.argv[1:] or family in sys.argv[1:]:
            check(family, lambda: train(dir, family))
done()

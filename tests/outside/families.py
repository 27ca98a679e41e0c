"""Llama, Mistral, Qwen2 and Qwen3: Trine and transformers with PyTorch, from the same folders; run by make
check-outside.

In: the logits of folders of save_pretrained, under several layouts. Out: from_pretrained loads checkpoints of
train_gpt and their exports. Training: losses and gradient norms of PyTorch's AdamW on the same samples. Refused: what
transformers would compute differently. transformers and PyTorch compute in float64.
"""
import json
import os
import shutil
import sys
import tempfile

sys.path[:0] = ["tests", "tests/golden"]

import torch
from lib import call, check, compare, done, edit, formula_ids, ours, result, run, write_tokens
from reference import global_batch, token_stream
from shared import training
from shared.training import FP32, Wide, adamw, compare_steps, options, train_ours, update, wide_model
from torch.nn.functional import cross_entropy
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

# Trine computes logits in fp32: the largest are about 5, where a step of fp32 is 4.8e-7, and sums are of 100 terms.
LOGITS = 1e-5
# Relative, as FP32: a step of bf16 is 7.8e-3; the errors of the terms average here, too.
BF16 = 1e-2

# Eight query heads on two heads of keys and values: tp 4 and 8 have several ranks on one of them. A base of 500 and an
# original length of 64 give wavelengths on both sides of llama3's two limits and between them.
SIZES = dict(num_hidden_layers=3, hidden_size=48, intermediate_size=88, num_attention_heads=8,
             num_key_value_heads=2, max_position_embeddings=80, vocab_size=101, initializer_range=0.1,
             bos_token_id=None, eos_token_id=None)
FAMILIES = {
    "llama": (LlamaConfig, LlamaForCausalLM, dict(head_dim=10, rms_norm_eps=1e-5)),
    "mistral": (MistralConfig, MistralForCausalLM, dict(sliding_window=None)),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, dict(head_dim=12)),
}
ROPES = {
    "default": dict(rope_type="default", rope_theta=500.0),
    "linear": dict(rope_type="linear", rope_theta=10000.0, factor=2.5),
    "llama3": dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=64),
}
LAYOUTS = [(1, 1), (2, 2), (4, 1), (8, 1)]  # tp, pp


# ---- Models of transformers ------------------------------------------------------------------------

def their_model(family, folder):
    return wide_model(FAMILIES[family][1], folder)


def theirs(family, folder):
    model = their_model(family, folder)
    ids = formula_ids(model.config.max_position_embeddings, model.config.vocab_size)
    with torch.no_grad(), Wide():
        logits = model(torch.tensor([ids])).logits[0]
    if logits.dtype != torch.float64:
        raise RuntimeError("the reference is in %s" % logits.dtype)
    return logits


def compare_logits(way, name, mine, other):
    compare(way, name, mine, other, LOGITS)


def new_model(family, rope="default", tied=False, **more):
    config, model, own = FAMILIES[family]
    return training.new_model(model, config(**{**SIZES, **own, "rope_parameters": ROPES[rope], "tie_word_embeddings": tied,
                                               **more}))


def as_before(folder, rope, type_name):
    """rope_theta and rope_scaling, as transformers 4 wrote them; rope_type was called type before 4.43."""
    scaling = {type_name if key == "rope_type" else key: x for key, x in ROPES[rope].items() if key != "rope_theta"}
    edit(folder, rope_parameters=None, rope_theta=ROPES[rope]["rope_theta"])
    if rope != "default":
        edit(folder, rope_scaling=scaling)


# ---- In --------------------------------------------------------------------------------------------

def load(dir, name, family, rope, model, type, shards, style, layouts):
    folder = os.path.join(dir, "in")
    model.to(type).save_pretrained(folder, **(dict(max_shard_size="40KB") if shards else {}))
    if os.path.exists(os.path.join(folder, "model.safetensors.index.json")) != shards:
        raise RuntimeError("not the files that were meant: %s" % os.listdir(folder))
    if style != "rope_parameters":
        as_before(folder, rope, style)
    other = theirs(family, folder)
    for tp, pp in layouts:
        compare_logits("in", "in: %s, tp %d, pp %d" % (name, tp, pp), ours(folder, tp, pp), other)
    shutil.rmtree(folder)


def models(dir):
    F32, B16, F16 = torch.float32, torch.bfloat16, torch.float16
    new, old, older = "rope_parameters", "rope_type", "type"
    for f, family in enumerate(FAMILIES):
        for r, rope in enumerate(ROPES):
            # Over the families each scaling is stored in each of the ways.
            at = (f + r) % 4
            type, shards = [(F32, False), (B16, True), (F32, True), (F16, False)][at]
            style = [new, old, older][(f + r) % 3]
            tied = (f + r) % 2 == 1
            name = "%s, %s, %s, %s, %s, %s" % (family, rope, "tied" if tied else "untied",
                                              str(type).split(".")[1], "shards" if shards else "one file", style)
            check(name, lambda: load(dir, name, family, rope, new_model(family, rope, tied), type, shards, style,
                                     LAYOUTS))
        # What the twelve leave out: both kinds of head in each family in either kind of file.
        for type, shards, tied in [(F16, True, True), (B16, False, False)]:
            name = "%s, %s, %s, %s" % (family, "tied" if tied else "untied", str(type).split(".")[1],
                                      "shards" if shards else "one file")
            check(name, lambda: load(dir, name, family, "llama3", new_model(family, "llama3", tied), type, shards,
                                     old, [(1, 1)]))
    check("in: both names", lambda: both_names(dir))
    check("in: a sliding window", lambda: window(dir))
    for family in FAMILIES:
        check("in: %s, entries left out" % family, lambda: left_out(dir, family))
    check("in: layer_types", lambda: layer_types(dir))


def both_names(dir):
    """With rope_scaling and rope_parameters in one file transformers takes the first."""
    folder = os.path.join(dir, "in")
    new_model("llama").save_pretrained(folder)
    edit(folder, rope_scaling=dict(rope_type="linear", factor=4.0), rope_theta=77.0)
    compare_logits("in", "in: llama, rope_scaling beside rope_parameters", ours(folder), theirs("llama", folder))
    edit(folder, rope_scaling={})
    compare_logits("in", "in: llama, an empty rope_scaling beside rope_parameters", ours(folder),
                   theirs("llama", folder))
    shutil.rmtree(folder)


def window(dir):
    """Within its window a Mistral sees all, so the window is the longest sequence."""
    folder = os.path.join(dir, "in")
    new_model("mistral", sliding_window=8, max_position_embeddings=32).save_pretrained(folder)
    mine, other = ours(folder), theirs("mistral", folder)
    result(len(mine) == 8, "in: mistral, a sliding window of 8 limits the sequence to %d" % len(mine))
    compare_logits("in", "in: mistral, within its sliding window", mine, other[:8])
    shutil.rmtree(folder)


def left_out(dir, family):
    """Entries that config.json lacks, and null, are what transformers makes of them. Of the sizes only those that are
    demanded are left."""
    folder = os.path.join(dir, "in")
    config = FAMILIES[family][0](num_hidden_layers=2, hidden_size=64, intermediate_size=88, num_attention_heads=32,
                                 vocab_size=101, initializer_range=0.1, bos_token_id=None, eos_token_id=None)
    torch.manual_seed(7)
    FAMILIES[family][1](config).save_pretrained(folder)
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        had = json.load(file)
    kept = {key: had[key] for key in ("model_type", "num_hidden_layers", "hidden_size", "intermediate_size",
                                      "num_attention_heads", "vocab_size")}
    with open(path, "w") as file:
        json.dump(kept, file)
    compare_logits("in", "in: %s, six entries" % family, ours(folder), theirs(family, folder))
    # The weights have as many heads of keys and values as queries in all but Mistral's, whose class refuses null.
    nulls = dict(rope_parameters=None, rope_scaling=None, layer_types=None)
    if family != "mistral":
        nulls["num_key_value_heads"] = None
    with open(path, "w") as file:
        json.dump({**kept, **nulls}, file)
    compare_logits("in", "in: %s, null in %s" % (family, ", ".join(nulls)), ours(folder), theirs(family, folder))
    shutil.rmtree(folder)


def layer_types(dir):
    """Which layers slide is decided by layer_types, or by max_window_layers; a window of 8 in no layer is none."""
    folder = os.path.join(dir, "in")
    for family in ("qwen2", "qwen3"):
        for types, first, length in [(["full_attention"] * 3, 0, 80), (None, 3, 80), (None, 2, 8),
                                     (["full_attention", "sliding_attention", "full_attention"], 28, 8)]:
            new_model(family, use_sliding_window=True, sliding_window=8, max_window_layers=first,
                      layer_types=types).save_pretrained(folder)
            edit(folder, layer_types=types)
            mine, other = ours(folder), theirs(family, folder)
            result(len(mine) == length, "in: %s, layer_types %s, max_window_layers %d: %d positions"
                   % (family, types, first, len(mine)))
            compare_logits("in", "in: %s, as far as the windows see all" % family, mine, other[:len(mine)])
            shutil.rmtree(folder)


# ---- Training --------------------------------------------------------------------------------------

# Adam divides a gradient by its size. One of 1e-8, as large as its error in fp32, would change its weight by any
# fraction of the learning rate (with an epsilon of 1e-8, in a llama: norms off by 2e-5); an epsilon of 1e-5 is larger
# than the errors and smaller than most gradients.
STEPS = 12
RUN = dict(seq_length=32, vocab_size=SIZES["vocab_size"], tokens=1000, seed=77, global_batch_size=8, lr=2e-3,
           min_lr=2e-4, lr_warmup_iters=3, lr_decay_iters=10, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95,
           adam_eps=1e-5, clip_grad=2.0)
OPTIONS = options({key: value for key, value in RUN.items() if key not in ("vocab_size", "tokens")})
TRAININGS = [
    (1, ["--micro-batch-size", 2]),
    (2, ["--tp", 2, "--sequence-parallel"]),
    (2, ["--dp", 2, "--zero", 3]),
    (4, ["--tp", 4, "--sequence-parallel", "--recompute-granularity", "selective"]),
    (4, ["--pp", 2, "--tp", 2, "--schedule", "zb"]),
    (8, ["--tp", 8]),
    (8, ["--dp", 2, "--tp", 4, "--zero", 3, "--sequence-parallel", "--micro-batch-size", 2]),
    (8, ["--dp", 2, "--pp", 2, "--tp", 2, "--zero", 3, "--schedule", "zb", "--sequence-parallel"]),
]
IN_BF16 = [TRAININGS[0], TRAININGS[5], TRAININGS[7]]


def train_theirs(family, folder):
    """(loss, gradient norm) of each step."""
    model, stream, rows = their_model(family, folder).train(), token_stream(RUN), []
    optimizer = adamw(model, RUN)
    for step in range(1, STEPS + 1):
        tokens, targets = (torch.tensor(x, dtype=torch.long) for x in global_batch(RUN, stream, step))
        with Wide():
            logits = model(tokens, use_cache=False).logits
        loss = cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        rows.append((loss.item(), update(model, optimizer, RUN, step)))
    return rows


def compare_training(dir, folder, want, name, ranks, words, kind, tolerance):
    mine = train_ours(folder, os.path.join(dir, "tokens.bin"), STEPS, OPTIONS + words, ranks)
    compare_steps(name, kind, mine, want, tolerance)


def train(dir, family, rope, tied):
    folder = os.path.join(dir, "start")
    new_model(family, rope, tied).save_pretrained(folder)
    want = train_theirs(family, folder)
    clipped = sum(norm > RUN["clip_grad"] for _, norm in want)
    result(0 < clipped < STEPS and want[-1][0] < 0.9 * want[0][0],
           "training: %s in PyTorch: loss %.2f to %.2f, %d of %d steps clipped"
           % (family, want[0][0], want[-1][0], clipped, STEPS))
    for kind, tolerance, layouts in [("fp32", FP32, TRAININGS), ("bf16", BF16, IN_BF16)]:
        for ranks, options in layouts:
            name = " ".join(map(str, [family, rope, kind, "np", ranks, *options]))
            more = options + (["--bf16"] if kind == "bf16" else [])
            check(name, lambda: compare_training(dir, folder, want, name, ranks, more, kind, tolerance))
    shutil.rmtree(folder)


def trainings(dir):
    for family, rope, tied in [("llama", "llama3", False), ("mistral", "default", True), ("qwen2", "linear", True),
                               ("qwen3", "default", False)]:
        check("training: " + family, lambda: train(dir, family, rope, tied))


# ---- Out -------------------------------------------------------------------------------------------

def export(dir, name, family, rope, tied, ranks, options):
    """Four steps with a large learning rate, so that every tensor changes. The sequence of the run, 32, becomes that of
    the model. In 16 bits the checkpoint has the rounded weights, the export the masters."""
    start, save, out = (os.path.join(dir, x) for x in ("start", "run", "out"))
    new_model(family, rope, tied).save_pretrained(start)
    call("train_gpt", "--load", start, "--data-path", os.path.join(dir, "tokens.bin"), *OPTIONS, "--train-iters", 4,
         "--lr-decay-iters", 4, "--lr", 0.01, "--threads", 1, "--save", save, *options, ranks=ranks)
    call("trine-export", save, out)
    step = os.path.join(save, "step-4")
    before, after = their_model(family, start).state_dict(), their_model(family, out).state_dict()
    same = [key for key in after if torch.equal(before[key], after[key])]
    result(before.keys() == after.keys() and not same, "out: %s: every tensor has changed" % name, *same)
    other = theirs(family, out)
    compare_logits("out", "out: %s, exported" % name, ours(out, 2, 2), other)
    if "--bf16" not in options:
        compare_logits("out", "out: %s, as it is" % name, ours(step), theirs(family, step))
    else:
        weights = their_model(family, step).state_dict()
        off = [key for key in after if not torch.equal(weights[key], after[key].bfloat16().double())]
        result(not off, "out: %s, as it is: the masters, rounded" % name, *off)
    for folder in (start, save, out):
        shutil.rmtree(folder)


def checkpoints(dir):
    for name, family, rope, tied, ranks, options in [
            ("llama of one rank", "llama", "llama3", True, 1, []),
            ("mistral of tp 2, pp 2", "mistral", "linear", False, 4, ["--tp", 2, "--pp", 2]),
            ("qwen2 of tp 4, ZeRO-1", "qwen2", "default", True, 4, ["--tp", 4, "--zero", 1]),
            ("qwen2 of one rank, untied", "qwen2", "llama3", False, 1, []),
            ("qwen3 of dp 2, ZeRO-3, bf16", "qwen3", "llama3", False, 2, ["--dp", 2, "--zero", 3, "--bf16"]),
            ("qwen3 of tp 8", "qwen3", "default", True, 8, ["--tp", 8])]:
        check("out: " + name, lambda: export(dir, name, family, rope, tied, ranks, options))


# ---- Refused ---------------------------------------------------------------------------------------

def refuse(dir, family, says, length=16, **entries):
    """A folder with these entries in its config.json; the message must have these words."""
    folder = os.path.join(dir, "refused")
    new_model(family).save_pretrained(folder)
    edit(folder, **entries)
    status, out, err = run("train_gpt", "--load", folder, "--data-path", os.path.join(dir, "tokens.bin"),
                           "--train-iters", 1, "--threads", 1, "--seq-length", length)
    good = status == 1 and all(word in err for word in says)
    result(good, "refused: %s %s, --seq-length %d" % (family, json.dumps(entries), length),
           *([err] if good else [status, out, err]))
    shutil.rmtree(folder)


def refusals(dir):
    def rope(kind, **more):
        return dict(rope_parameters=dict(rope_type=kind, rope_theta=10000.0, factor=2.0, **more))

    cases = [("llama", ["rope_type", kind, "supported"], rope(kind)) for kind in ("yarn", "dynamic", "longrope")]
    cases += [
        ("qwen2", ["rope_type", "yarn"],
         dict(rope_parameters=None, rope_theta=1e4, rope_scaling=dict(type="yarn", factor=4.0))),
        ("llama", ["attention_bias"], dict(attention_bias=True)),
        ("qwen3", ["attention_bias"], dict(attention_bias=True)),
        ("llama", ["mlp_bias"], dict(mlp_bias=True)),
        ("qwen3", ["full_attention", "by layer type"],
         dict(rope_parameters=dict(full_attention=ROPES["default"], sliding_attention=ROPES["linear"]))),
        ("qwen2", ["layer_types", "no window"], dict(layer_types=["full_attention"] * 2 + ["sliding_attention"])),
        ("mistral", ["model_type is mixtral"], dict(model_type="mixtral")),
        ("qwen2", ["model_type is qwen2_moe"], dict(model_type="qwen2_moe")),
        ("qwen3", ["model_type is qwen3_moe"], dict(model_type="qwen3_moe")),
        ("llama", ["architectures", "LlamaForSequenceClassification"],
         dict(architectures=["LlamaForSequenceClassification"])),
        ("llama", ["quantization_config"], dict(quantization_config=dict(quant_method="gptq", bits=4))),
        ("llama", ["partial_rotary_factor"], dict(partial_rotary_factor=0.5)),
        ("llama", ["partial_rotary_factor"], rope("default", partial_rotary_factor=0.5)),
        ("llama", ["hidden_act is gelu"], dict(hidden_act="gelu")),
        # transformers 4 takes the one, transformers 5 the other.
        ("llama", ["original_max_position_embeddings is another"],
         dict(rope_parameters=ROPES["llama3"], original_max_position_embeddings=32)),
        # Above the window, transformers masks; above max_position_embeddings, the folder may be edited.
        ("mistral", ["--seq-length 16", "8 positions"], dict(sliding_window=8, max_position_embeddings=32)),
        ("qwen3", ["--seq-length 16", "8 positions"],
         dict(use_sliding_window=True, sliding_window=8, max_window_layers=0, layer_types=None)),
        ("llama", ["--seq-length 16", "15 positions"], dict(max_position_embeddings=15)),
    ]
    for family, says, entries in cases:
        check("refused: %s" % entries, lambda: refuse(dir, family, says, **entries))


with tempfile.TemporaryDirectory() as dir:
    write_tokens(os.path.join(dir, "tokens.bin"), token_stream(RUN), RUN["vocab_size"])
    for part in (refusals, models, checkpoints, trainings):
        if not sys.argv[1:] or part.__name__ in sys.argv[1:]:
            part(dir)
done()

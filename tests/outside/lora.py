"""Low-rank adapters: Trine and PEFT with PyTorch, from the same folders; run by make check-outside.

Training: losses and gradient norms of PEFT's models in float64 by PyTorch's AdamW, from the same initial adapters, which
Trine makes, under eight layouts; the base is frozen, and in one layout more it trains with the adapters. Out: a merged
export has the logits of PEFT's model with the adapters, and PEFT loads an exported adapter. In: PEFT's folders.
"""
import json
import os
import shutil
import sys
import tempfile

sys.path[:0] = ["tests", "tests/golden"]

import torch
from lib import call, check, compare, done, formula_ids, ours, result, run, write_tokens
from peft import LoraConfig, PeftModel, get_peft_model
from reference import global_batch, token_stream
from safetensors.torch import load_file
from shared import training
from shared.training import FP32, Wide, compare_steps, options, train_ours, update, wide_model
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

STEPS = 10
PREFIX = "base_model.model."
LOGITS = 1e-5
SIZES = dict(num_hidden_layers=3, hidden_size=48, intermediate_size=88, num_attention_heads=8, num_key_value_heads=2,
             max_position_embeddings=80, vocab_size=101, initializer_range=0.1, bos_token_id=None, eos_token_id=None,
             tie_word_embeddings=False)
# What PEFT is told, and what Trine is. alpha is large, since B begins at zero.
FAMILIES = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SIZES), dict(r=8, lora_alpha=64), ["--lora-rank", 8, "--lora-alpha", 64]),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**{**SIZES, "head_dim": 12}),
              dict(r=8, lora_alpha=32, use_rslora=True, target_modules="all-linear"),
              ["--lora-rank", 8, "--lora-alpha", 32, "--lora-rslora", "--lora-targets", "all-linear"]),
    "gpt2": (GPT2LMHeadModel, GPT2Config(n_layer=3, n_embd=48, n_head=8, n_positions=32, vocab_size=101,
                                         initializer_range=0.1, bos_token_id=None, eos_token_id=None, resid_pdrop=0,
                                         embd_pdrop=0, attn_pdrop=0),
             dict(r=4, lora_alpha=64, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True),
             ["--lora-rank", 4, "--lora-alpha", 64, "--lora-targets", "c_attn,mlp.c_proj"]),
}
RUN = dict(seq_length=32, vocab_size=SIZES["vocab_size"], tokens=1000, seed=77, global_batch_size=8, lr=2e-3,
           min_lr=2e-4, lr_warmup_iters=3, lr_decay_iters=10, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95,
           adam_eps=1e-5, clip_grad=2.0)
OPTIONS = options({key: value for key, value in RUN.items() if key not in ("vocab_size", "tokens")})
TRAININGS = [
    (1, ["--micro-batch-size", 2]),
    (2, ["--tp", 2, "--sequence-parallel"]),
    (2, ["--dp", 2, "--zero", 3]),
    (4, ["--tp", 4, "--sequence-parallel", "--recompute-granularity", "full"]),
    (4, ["--pp", 2, "--tp", 2, "--schedule", "zb"]),
    (8, ["--tp", 8]),
    (8, ["--dp", 2, "--tp", 4, "--zero", 2, "--micro-batch-size", 2, "--split-backward"]),
    (8, ["--dp", 2, "--pp", 2, "--tp", 2, "--zero", 3, "--sequence-parallel"]),
]


def start_of(dir, family):
    """A folder of the base, and Trine's initial adapters: of a step whose learning rate is zero."""
    kind, config, _, words = FAMILIES[family]
    base, save = os.path.join(dir, "base"), os.path.join(dir, "start")
    training.new_model(kind, config).save_pretrained(base)
    call("train_gpt", "--load", base, "--data-path", os.path.join(dir, "tokens.bin"), *OPTIONS, "--lr", 0, "--min-lr", 0,
         "--train-iters", 1, "--threads", 1, "--save", save, *words)
    tensors = load_file(os.path.join(save, "step-1", "adapter_model.safetensors"))
    return base, {name.removeprefix(PREFIX): x.double() for name, x in tensors.items()}


def peft_model(family, base, adapters, whole):
    kind, _, options, _ = FAMILIES[family]
    model = get_peft_model(wide_model(kind, base), LoraConfig(task_type="CAUSAL_LM", **options)).double()
    found = 0
    with torch.no_grad():
        for name, p in model.named_parameters():
            if whole:
                p.requires_grad_(True)
            if ".lora_" in name:
                p.copy_(adapters[name.removeprefix(PREFIX).replace(".default", "")])
                found += 1
    result(found == len(adapters), "%s: PEFT has %d adapters, Trine %d" % (family, found, len(adapters)))
    return model


def decayed(name, p):
    return p.ndim == 2 and not name.endswith("wpe.weight")


def train_theirs(family, base, adapters, whole):
    model, stream, rows = peft_model(family, base, adapters, whole).train(), token_stream(RUN), []
    groups = [dict(params=[p for n, p in model.named_parameters() if decayed(n, p) == decays],
                   weight_decay=RUN["weight_decay"] * decays) for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=RUN["lr"], betas=(RUN["adam_beta1"], RUN["adam_beta2"]), eps=RUN["adam_eps"])
    for step in range(1, STEPS + 1):
        tokens, targets = (torch.tensor(x, dtype=torch.long) for x in global_batch(RUN, stream, step))
        with Wide():
            logits = model(tokens, use_cache=False).logits
        loss = cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        rows.append((loss.item(), update(model, optimizer, RUN, step)))
    return rows


def train(dir, family):
    base, adapters = start_of(dir, family)
    for whole in (False, True):
        compare_layouts(dir, family, base, train_theirs(family, base, adapters, whole),
                        TRAININGS[-1:] if whole else TRAININGS, ["--train", "*"] if whole else [])


def compare_layouts(dir, family, base, want, trainings, more):
    result(want[-1][0] < want[0][0] - 0.05, "%s in PEFT: loss %.2f to %.2f" % (family, want[0][0], want[-1][0]))
    for ranks, words in trainings:
        words = words + more
        name = " ".join(map(str, [family, "np", ranks, *words]))
        check(name, lambda: compare_steps(name, family, train_ours(base, os.path.join(dir, "tokens.bin"), STEPS,
                                                                   OPTIONS + FAMILIES[family][3] + words, ranks),
                                          want, FP32))


# ---- Files -----------------------------------------------------------------------------------------

def logits_of(model):
    ids = formula_ids(32, SIZES["vocab_size"])
    with torch.no_grad(), Wide():
        return model.eval()(torch.tensor([ids])).logits[0]


def out_of_ours(dir, family, ranks, words):
    """A checkpoint as it is, its merged export, and the base of the checkpoint with an exported adapter in PEFT."""
    kind, _, _, adapters = FAMILIES[family]
    base, save, merged, alone = (os.path.join(dir, x) for x in ("base", "run", "merged", "alone"))
    call("train_gpt", "--load", base, "--data-path", os.path.join(dir, "tokens.bin"), *OPTIONS, "--train-iters", 4,
         "--lr", 0.01, "--threads", 1, "--save", save, *adapters, *words, ranks=ranks)
    call("trine-export", "--merge", save, merged)
    call("trine-export", save, alone)
    step = os.path.join(save, "step-4")
    mine = ours(step, 2, 2, formula_ids(32, SIZES["vocab_size"]))
    other = logits_of(wide_model(kind, merged))
    compare("out", "out: %s, merged" % family, mine, other, LOGITS)
    model = wide_model(kind, base)
    without = logits_of(model)
    theirs = logits_of(PeftModel.from_pretrained(model, alone).double())
    compare("out", "out: %s, the adapter in PEFT" % family, mine, theirs, LOGITS)
    compare("out", "out: %s, the checkpoint in PEFT" % family, mine,
            logits_of(PeftModel.from_pretrained(wide_model(kind, base), step).double()), LOGITS)
    result((without - theirs).abs().max() > 100 * LOGITS, "out: %s, the adapter counts" % family)


def in_of_theirs(dir, family):
    """PEFT's own folder, with a B that is not zero, merged by trine-export."""
    kind, _, options, _ = FAMILIES[family]
    base, adapter, merged = (os.path.join(dir, x) for x in ("base", "theirs", "in"))
    torch.manual_seed(3)
    model = get_peft_model(wide_model(kind, base), LoraConfig(task_type="CAUSAL_LM", **options))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".lora_B" in name:
                p.copy_(torch.randn_like(p) * 0.05)
    model.float().save_pretrained(adapter)
    call("trine-export", base, merged, "--merge", "--adapter", adapter)
    compare("in", "in: %s, PEFT's adapter merged" % family, ours(merged, 1, 1, formula_ids(32, SIZES["vocab_size"])),
            logits_of(model.double()), LOGITS)
    for key, value, says in [("use_dora", True, "use_dora"), ("bias", "all", "bias"), ("r", 5, "shape"),
                             ("rank_pattern", {"q_proj": 3}, "rank_pattern"),
                             ("target_modules", ["c_none"], "c_none"),
                             ("target_modules", ["c_fc", "up_proj", "k_proj"], "names no matrix")]:
        edit_adapter(adapter, key, value)
        status, _, err = run("trine-export", base, os.path.join(dir, "no"), "--merge", "--adapter", adapter)
        result(status == 1 and says in err, "in: %s, %s %r is refused" % (family, key, value), err)


def edit_adapter(folder, key, value):
    path = os.path.join(folder, "adapter_config.json")
    with open(path) as file:
        config = json.load(file)
    if os.path.exists(path + ".first"):
        with open(path + ".first") as file:
            config = json.load(file)
    else:
        shutil.copy(path, path + ".first")
    with open(path, "w") as file:
        json.dump({**config, key: value}, file)


def files(dir, family):
    kind, config, _, _ = FAMILIES[family]
    training.new_model(kind, config).save_pretrained(os.path.join(dir, "base"))
    ranks, words = TRAININGS[5 if family == "qwen3" else 7 if family == "gpt2" else 3]
    check("out: " + family, lambda: out_of_ours(dir, family, ranks, words))
    check("in: " + family, lambda: in_of_theirs(dir, family))


with tempfile.TemporaryDirectory() as dir:
    write_tokens(os.path.join(dir, "tokens.bin"), token_stream(RUN), RUN["vocab_size"])
    for family in FAMILIES:
        with tempfile.TemporaryDirectory(dir=dir) as own:
            os.link(os.path.join(dir, "tokens.bin"), os.path.join(own, "tokens.bin"))
            if not sys.argv[1:]:
                check(family, lambda: train(own, family))
            shutil.rmtree(os.path.join(own, "base"), ignore_errors=True)
            check(family, lambda: files(own, family))
done()

"""Logits of transformers' GPT2LMHeadModel and of Trine, from the same folder; run by transformers.t.

In: Trine loads folders of save_pretrained (one file, shards, fp32, bf16, fp16, tied, untied, GPT2Model without
its head). Out: from_pretrained loads checkpoints of train_gpt, their exports by trine-export, and exports of these
exports. Both compute in fp32 from the same weights, so that logits differ only by rounding: by 1e-5 at most,
where the largest are about 3 (a step of fp32 is 2.4e-7 there).
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, "tests")

import torch
from lib import call, check, compare, config_of, done, formula_ids, load_strictly, ours, result, write_tokens
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, GPT2Model

TOLERANCE = 1e-5
SIZES = dict(n_layer=3, n_embd=48, n_head=4, n_positions=24, vocab_size=101, bos_token_id=None,
             eos_token_id=None)


def their_model(folder):
    return load_strictly(GPT2LMHeadModel, folder)


def theirs(folder):
    model = their_model(folder)
    ids = formula_ids(model.config.n_positions, model.config.vocab_size)
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double()


def compare_logits(way, name, mine, other):
    compare(way, name, mine, other, TOLERANCE)


# ---- In -------------------------------------------------------------------------------------------

def spread(model):
    """In a new model gains and biases are 1 and 0, and weights small: an exchange of two would not show."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.add_(torch.randn_like(p) * (0.2 if "ln_" in name or "bias" in name else 0.1))


def load(dir, name, model, layout=(1, 1), spreading=True, type=torch.float32, **saving):
    folder = os.path.join(dir, "in")
    if spreading:
        spread(model)
    model.to(type).save_pretrained(folder, **saving)
    compare_logits("in", "in: " + name, ours(folder, *layout), theirs(folder))
    out = os.path.join(dir, "out")
    call("trine-export", folder, out)
    compare_logits("out", "out again: " + name, ours(folder), theirs(out))
    stored = config_of(out)["torch_dtype"]
    result(stored == str(type).split(".")[1] and os.path.getsize(out + "/model.safetensors") > 0,
           "out again: %s: the type is %s" % (name, stored))
    shutil.rmtree(folder)
    shutil.rmtree(out)


def write_text(dir):
    """The most likely token at each position, up to the last. Embeddings are large, and the head is another
    matrix, so that it is not always the same token."""
    folder = os.path.join(dir, "text")
    torch.manual_seed(11)
    model = GPT2LMHeadModel(GPT2Config(tie_word_embeddings=False, **SIZES))
    spread(model)
    with torch.no_grad():
        model.transformer.wte.weight.normal_(0, 1)
        model.transformer.wpe.weight.normal_(0, 1)
    model.save_pretrained(folder)
    begin, more = [5, 17, 90], SIZES["n_positions"] - 3
    said = call("trine-generate", folder, "--ids", " ".join(map(str, begin)), "--tokens", str(more),
                "--temperature", "0").split()
    ids = torch.tensor([begin])
    want = their_model(folder).generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=more,
                                        do_sample=False, pad_token_id=0)[0, 3:].tolist()
    result([int(x) for x in said[-more:]] == want and len(set(want)) > 3,
           "in: trine-generate writes what generate does", said, want)


def models(dir):
    def new(kind=GPT2LMHeadModel, **more):
        torch.manual_seed(7)
        return kind(GPT2Config(**{**SIZES, **more}))

    untied = dict(tie_word_embeddings=False, n_inner=80)
    for name, model, saving in [
            ("a new model", new(), dict(spreading=False)),
            ("one file", new(), {}),
            ("one file, by tp 2 and pp 2", new(), dict(layout=(2, 2))),
            ("shards", new(), dict(max_shard_size="50KB")),
            ("untied, an MLP of its own width", new(**untied), {}),
            ("untied, shards, bf16", new(**untied), dict(max_shard_size="30KB", type=torch.bfloat16)),
            ("bf16", new(), dict(type=torch.bfloat16)),
            ("fp16", new(), dict(type=torch.float16)),
            ("GPT2Model", new(GPT2Model), {}),
            ("gelu_pytorch_tanh", new(activation_function="gelu_pytorch_tanh"), {})]:
        check(name, lambda: load(dir, name, model, **saving))


# ---- Out ------------------------------------------------------------------------------------------

def compare_weights(name, step, out):
    """The weights with which a run in 16 bits computed: the masters, rounded."""
    weights, masters = their_model(step).state_dict(), their_model(out).state_dict()
    kind = getattr(torch, config_of(step)["torch_dtype"])
    off = [key for key in masters if not torch.equal(weights[key], masters[key].to(kind).float())]
    result(kind != torch.float32 and weights.keys() == masters.keys() and not off, name, off)


def export(dir, name, ranks, *options, weights_are_masters=True):
    """Some steps with a large learning rate, so that every tensor changes."""
    run, out = os.path.join(dir, "run"), os.path.join(dir, "out")
    call("train_gpt", "--data-path", os.path.join(dir, "tokens.bin"), "--num-layers", "3",
         "--hidden-size", "48", "--num-attention-heads", "4", "--seq-length", "24", "--vocab-size",
         "101", "--train-iters", "4", "--lr", "0.01", "--decay-all", "--global-batch-size", "4",
         "--threads", "1", "--save", run, *options, ranks=ranks)
    call("trine-export", run, out)
    step = os.path.join(run, "step-4")
    compare_logits("out", "out: " + name, ours(step), theirs(out))
    if weights_are_masters:
        compare_logits("out", "out: %s, without an export" % name, ours(step), theirs(step))
    else:
        compare_weights("out: %s, without an export" % name, step, out)
    compare_logits("in", "in: " + name, ours(out), theirs(out))
    shutil.rmtree(run)
    shutil.rmtree(out)


def checkpoints(dir):
    chooser = random.Random(5)
    write_tokens(os.path.join(dir, "tokens.bin"), [chooser.randrange(101) for _ in range(2000)], 101)
    for name, ranks, options in [
            ("a checkpoint of one rank", 1, []),
            ("untied, of dp 1, tp 2, pp 2", 4, ["--tp", "2", "--pp", "2", "--untied"]),
            ("bf16 with masters, ZeRO-3", 2, ["--dp", "2", "--zero", "3", "--bf16", "--device", "ref"])]:
        check(name, lambda: export(dir, name, ranks, *options, weights_are_masters="--bf16" not in options))


def tokenizer(dir):
    """AutoTokenizer finds in a checkpoint and in its export what the run was given."""
    own, run, out = (os.path.join(dir, name) for name in ("own", "run", "out"))
    os.mkdir(own)
    with open(os.path.join(own, "tokenizer.json"), "wb") as file:
        file.write(subprocess.run(["perl", "tests/ckpt/tokenizer.pl", "300", "e", "o"], check=True,
                                  capture_output=True).stdout)
    write_tokens(os.path.join(dir, "tokens.bin"), [i % 300 for i in range(200)], 300)
    call("train_gpt", "--data-path", os.path.join(dir, "tokens.bin"), "--num-layers", "1", "--hidden-size", "48",
         "--num-attention-heads", "4", "--seq-length", "24", "--vocab-size", "300", "--train-iters", "1",
         "--threads", "1", "--tokenizer", own, "--save", run)
    call("trine-export", run, out)
    text = "the house of Bethel, 42 \u00e9 <|endoftext|>"
    want = AutoTokenizer.from_pretrained(own)(text).input_ids
    for name, folder in ("a checkpoint", os.path.join(run, "step-1")), ("an export", out):
        found = AutoTokenizer.from_pretrained(folder)
        got = found(text).input_ids
        result(got == want and want[-1] == 299 and max(want[:-1]) > 255 and found.decode(got) == text,
               "out: AutoTokenizer of " + name, got, want)


with tempfile.TemporaryDirectory() as dir:
    models(dir)
    check("in: trine-generate", lambda: write_text(dir))
    checkpoints(dir)
    check("out: AutoTokenizer", lambda: tokenizer(dir))
done()

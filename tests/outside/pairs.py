"""Minimal pairs: the sums of log-probabilities that trine-eval --pairs finds for 1,000 pairs beside those of transformers in
float64, for a GPT-2 (whose sentences follow <|endoftext|>) and a Llama (whose template begins with <s>), on one rank and others;
accuracies counted from the sums here."""
import json
import os
import random
import sys
import tempfile

sys.path[:0] = ["tests", "tests/golden", "tests/tokenizer"]

import torch
from lib import call, check, done, keep_largest, result
from makers import DECODE_BYTES, added, bpe, byte_level, template, trained_bytes, whole
from shared.training import Wide, new_model, wide_model
from tokenizers import Tokenizer
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

# Relative, of a sum of 8 to 30 log-probabilities of some 6 nats each: a step of fp32 is 1.2e-7, logits of up to 5 are sums of
# 100 terms, and their errors average over the tokens.
SUMS = 1e-6
PAIRS = 1000
NOUNS, PLURALS = ["cat", "dog", "teacher", "actress", "painter"], ["cats", "dogs", "teachers", "actresses", "painters"]
VERBS = [("sees", "see"), ("likes", "like"), ("helps", "help"), ("hires", "hire")]


def sentence(rng, kind):
    """A pair of this kind: agreement, anaphora, word order, or one that only names differ in."""
    one, many, other = rng.choice(NOUNS), rng.choice(PLURALS), rng.choice(NOUNS)
    right, wrong = rng.choice(VERBS)
    tail = " " + " ".join(rng.choice(["today", "in Paris", "again", "with caf\u00e9 owners", "(twice)"]) for _ in range(rng.randrange(4)))
    if kind == "subject_verb":
        return "The %s %s the %s%s." % (one, right, other, tail), "The %s %s the %s%s." % (one, wrong, other, tail)
    if kind == "plural_subject":
        return "The %s %s the %s%s." % (many, wrong, other, tail), "The %s %s the %s%s." % (many, right, other, tail)
    if kind == "order":
        return "The %s %s a %s%s." % (one, right, other, tail), "%s The %s a %s%s." % (right, one, other, tail)
    return "Kim %s herself%s." % (right, tail), "Kim %s himself%s." % (right, tail)


def make_pairs(path):
    rng = random.Random(7)
    kinds = ["subject_verb", "plural_subject", "order", "reflexive"]
    pairs = [(kind, *sentence(rng, kind)) for kind in (rng.choice(kinds) for _ in range(PAIRS))]
    pairs[5] = (pairs[5][0], pairs[5][1], pairs[5][1])  # a tie
    with open(path, "w", encoding="utf-8") as out:
        for n, (kind, good, bad) in enumerate(pairs):
            out.write(json.dumps({"sentence_good": good, "sentence_bad": bad, "UID": kind, "pairID": str(n), "field": "syntax"}) + "\n")
    return pairs


def make_folder(folder, family, texts):
    vocab, merges = trained_bytes(texts, 400)
    size = len(vocab) + 2
    tokens = [added(size - 2, "<s>"), added(size - 1, "<|endoftext|>")]
    post = template([("<s>", size - 2)]) if family == "llama" else byte_level(True)
    if family == "llama":
        model = new_model(LlamaForCausalLM, LlamaConfig(
            num_hidden_layers=3, hidden_size=48, intermediate_size=88, num_attention_heads=8, num_key_value_heads=2,
            max_position_embeddings=96, vocab_size=size, initializer_range=0.1, bos_token_id=size - 2, eos_token_id=size - 1))
    else:
        model = new_model(GPT2LMHeadModel, GPT2Config(
            n_layer=3, n_embd=48, n_head=8, n_positions=96, vocab_size=size, initializer_range=0.1, bos_token_id=size - 1,
            eos_token_id=size - 1))
    model.save_pretrained(folder)
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as out:
        json.dump(whole(bpe(vocab, merges), tokens, None, byte_level(True), post, DECODE_BYTES), out)
    return size - 2 if family == "llama" else size - 1


def their_sum(model, tokenizer, first, text):
    ids = torch.tensor([[first] + tokenizer.encode(text, add_special_tokens=False).ids])
    with torch.no_grad(), Wide():
        logits = model(ids).logits[0]
    assert logits.dtype == torch.float64
    return logits[:-1].log_softmax(-1).gather(1, ids[0, 1:, None]).sum().item()


def accuracies(pairs, sums):
    right = {}
    for (kind, _, _), (good, bad) in zip(pairs, sums):
        right.setdefault(kind, []).append(good > bad)
    return {kind: sum(list) / len(list) for kind, list in right.items()}


def compare(dir, family):
    folder, path, scores = (os.path.join(dir, name) for name in (family, "pairs.jsonl", "scores.jsonl"))
    pairs = make_pairs(path)
    first = make_folder(folder, family, [text for pair in pairs for text in pair[1:]])
    model = wide_model({"llama": LlamaForCausalLM, "gpt2": GPT2LMHeadModel}[family], folder)
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    want = [tuple(their_sum(model, tokenizer, first, text) for text in pair[1:]) for pair in pairs]
    # Pairs whose sums differ by less than rounding may fall on either side.
    close = sum(abs(a - b) < 1e-4 and a != b for a, b in want)
    for ranks, words in (1, []), (2, ["--tp", 2]), (4, ["--dp", 2, "--pp", 2]):
        mine = json.loads(call("trine-eval", folder, "--pairs", path, "--scores", scores, "--json", "--threads", 1, *words, ranks=ranks))
        lines = [json.loads(line) for line in open(scores)]
        off = max(abs(x / y - 1) for line, pair in zip(lines, want) for x, y in zip((line["good"], line["bad"]), pair))
        keep_largest("pairs", off)
        name = "%s, %s: %d sums" % (family, " ".join(map(str, words)) or "one rank", 2 * len(lines))
        result(len(lines) == PAIRS and off < SUMS and [line["UID"] for line in lines] == [pair[0] for pair in pairs],
               name, "largest relative difference %.1e" % off)
        own = accuracies(pairs, [(line["good"], line["bad"]) for line in lines])
        theirs = accuracies(pairs, want)
        result(mine["pairs"] == PAIRS and mine["ties"] == 1 and all(abs(mine["uids"][k]["acc"] - own[k]) < 1e-12 for k in own) and
               (close or own == theirs), name + ": accuracies", "%d pairs are close" % close)


with tempfile.TemporaryDirectory() as dir:
    for family in "gpt2", "llama":
        check(family, lambda: compare(dir, family))
done()

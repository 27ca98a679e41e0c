"""Tokenizers that trine-tokenizer trains beside those of Hugging Face's BpeTrainer, on the same documents: equal merges and ids of
tokens, with GPT-2's words and Llama 3's, on English, on code, and on words of all scripts; then ids of texts by the trained
folder, in Trine, in `tokenizers`, and in transformers' AutoTokenizer.

    build/venv-outside/bin/python tests/outside/train_bpe.py             as in make check-outside
    build/venv-outside/bin/python tests/outside/train_bpe.py FILE.jsonl VOCAB    times both on a corpus: JSON lines with "text"

TRINE_SEED makes other words."""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path[:0] = ["tests", "tests/tokenizer"]

import corpus
import makers
from compare import BUILD, Encoding, compare
from known import known
from tap import check, done, result
from tokenizers import Regex, Tokenizer, __version__, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

SEED = int(os.environ.get("TRINE_SEED", 1))
SPECIALS = ["<|endoftext|>", "<pad>"]
VOCAB = 6000


# ---- Both trainers -----------------------------------------------------------------------------------

def words_of(split):
    if split == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    stages = [pre_tokenizers.Split(Regex(makers.LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    return pre_tokenizers.Sequence(stages)


def theirs(documents, split, vocab):
    """{token: id}, [[left, right]]"""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = words_of(split)
    trainer = trainers.BpeTrainer(vocab_size=vocab, min_frequency=2, special_tokens=SPECIALS, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(documents, trainer)
    return model_of(tokenizer.to_str())


def model_of(text):
    model = json.loads(text)["model"]
    return model["vocab"], [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]


def ours(folder, path, split, vocab):
    specials = [word for special in SPECIALS for word in ("--special", special)]
    command = [BUILD + "/trine-tokenizer", "--vocab-size", str(vocab), "--split", split, *specials, "--out", folder, path]
    said = subprocess.run(command, capture_output=True, text=True)
    if said.returncode:
        raise RuntimeError(said.stderr)
    return said.stdout


def first_difference(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return "merge %d: ours %r, theirs %r; %d and %d in all" % (at, a[at:at + 3], b[at:at + 3], len(a), len(b))


# ---- Corpora -----------------------------------------------------------------------------------------

def write_lines(path, documents):
    with open(path, "w", encoding="utf-8") as file:
        for text in documents:
            file.write(json.dumps({"text": text}) + "\n")


def corpora():
    characters = corpus.Characters(known())
    c = corpus.Corpus(characters, SEED)
    files = [text.decode(errors="replace") for _, text in c.files()]
    # A byte that is no UTF-8 is in both; special tokens, which BpeTrainer has as words, are in neither.
    files = [text for text in files if set(text) <= set(characters.all) and not any(s in text for s in SPECIALS)]
    english = [text for text in files if text.count(" ") > text.count("\n") * 8] + [corpus.kjv()[:3 << 20].decode(errors="ignore")]
    scripts = [c.prose(4000, [name]) for name in c.words] + [c.prose(3000) for _ in range(200)]
    return {"English": english, "code": files, "many scripts": scripts}


# ---- Comparing ---------------------------------------------------------------------------------------

def by_transformers(folder, texts):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer, [tokenizer(text.decode(errors="replace"), add_special_tokens=False)["input_ids"] for text in texts]


def compare_ids(name, folder, documents):
    texts = [text[at:at + 5000].encode() for text in documents for at in (0, len(text) // 2)][:300]
    texts += [b"", b" ", b"\n\n  a", SPECIALS[0].encode(), b"x" + SPECIALS[1].encode() + b" 12345", "\u4e2d\U0001f600\u0301".encode()]
    path = folder + "/tokenizer.json"
    tokenizer = Tokenizer.from_file(path)
    compare(name + ": ids by the trained tokenizer", Encoding(path, tokenizer), texts)
    auto, ids = by_transformers(folder, texts)
    wanted = [tokenizer.encode(text.decode(errors="replace"), add_special_tokens=False).ids for text in texts]
    result(ids == wanted, name + ": ids by transformers, %s" % type(auto).__name__)
    result(auto.eos_token == SPECIALS[0] and auto.eos_token_id == 0, name + ": transformers knows the end of a document")


def compare_training(name, documents, split):
    with tempfile.TemporaryDirectory() as folder:
        write_lines(folder + "/texts.jsonl", documents)
        said = ours(folder + "/out", folder + "/texts.jsonl", split, VOCAB)
        with open(folder + "/out/tokenizer.json", encoding="utf-8") as file:
            vocab, merges = model_of(file.read())
        their_vocab, their_merges = theirs(documents, split, VOCAB)
        label = "%s, %s" % (name, split)
        result(merges == their_merges and len(merges) > 3000, "%s: %d merges" % (label, len(merges)),
               *([] if merges == their_merges else [first_difference(merges, their_merges)]), said)
        result(vocab == their_vocab, "%s: ids of %d tokens" % (label, len(vocab)))
        compare_ids(label, folder + "/out", documents)


def everything():
    print("# tokenizers %s; seed %d" % (__version__, SEED))
    for name, documents in corpora().items():
        print("# %s: %d documents of %.1f MB" % (name, len(documents), sum(map(len, documents)) / 1e6))
        for split in ("gpt2", "llama3"):
            check(name, lambda: compare_training(name, documents, split))


def texts_of(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)["text"]


def measure(path, vocab):
    """On a corpus of any size: seconds of each, one after the other, and whether the merges are equal."""
    with tempfile.TemporaryDirectory() as folder:
        for split in ("gpt2", "llama3"):
            since = time.monotonic()
            print(ours(folder, path, split, vocab), end="")
            between = time.monotonic()
            other = theirs(texts_of(path), split, vocab)
            end = time.monotonic()
            with open(folder + "/tokenizer.json", encoding="utf-8") as file:
                equal = model_of(file.read()) == other
            print("%s: trine-tokenizer %.1f s, BpeTrainer %.1f s: %.2f of it; %s" % (
                split, between - since, end - between, (between - since) / (end - between), "equal" if equal else "NOT equal"))


if len(sys.argv) == 3:
    measure(sys.argv[1], int(sys.argv[2]))
else:
    check("training", everything)
    done()

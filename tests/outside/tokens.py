"""Ids and texts by Trine's tokenizer and by Hugging Face's `tokenizers`: those of GPT-2, SmolLM2 and DeepSeek, and small ones with
the stages of other families (tests/tokenizer/makers.py), on 20 MB of texts in all scripts (tests/tokenizer/corpus.py).

    build/venv-outside/bin/python tests/outside/tokens.py [PATTERN]    only tokenizers that match, as "llama*"

Of a difference the shortest text or list of ids is printed that still has it. TRINE_SEED makes other texts; TRINE_MB sets
how many MB of them."""
import fnmatch
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "true"
sys.dont_write_bytecode = True
sys.path[:0] = ["tests", "tests/tokenizer"]

import corpus
import makers
from compare import DRIVER, PLAIN, TEMPLATE, Decoding, Encoding, Records, compare
from known import known
from tap import check, done, result
from tokenizers import __version__

SEED, MB = int(os.environ.get("TRINE_SEED", 1)), float(os.environ.get("TRINE_MB", 20))
PATTERN = sys.argv[1] if len(sys.argv) > 1 else "*"
# A tokenizer gets one text in so many, and other ones than the next; TRINE_SHARE=1 gives all texts to all (ten minutes).
BIG = {"gpt2": 1, "smollm2": 2, "deepseek": 3}
SHARE, FEW = 32, 2


# ---- Facts -------------------------------------------------------------------------------------------

def facts(path):
    words = subprocess.run([DRIVER, path, "facts"], capture_output=True, text=True, check=True).stdout
    return words.split()


# ---- The comparisons -------------------------------------------------------------------------------

def random_ids(seed, vocabulary, specials):
    """Mostly of one neighbourhood, so that bytes and added tokens meet often; some ids have no token."""
    r, out = random.Random(seed), []
    for _ in range(2000):
        first = r.choice([0, 0, 0, r.randrange(vocabulary)])
        ids = [min(first + r.randrange(300), vocabulary + 3) for _ in range(r.choice([1, 2, 3, 5, 20, 100]))]
        out.append([r.choice(specials) if specials and r.random() < .05 else i for i in ids])
    return out


def special_ids(tokenizer):
    return sorted(tokenizer.get_added_tokens_decoder())


def compare_all(name, path, tokenizer, texts, few):
    """texts: for ids only; few: for everything else, too."""
    vocabulary = tokenizer.get_vocab_size()
    largest = max(tokenizer.get_vocab().values())
    ours = int(facts(path)[0])
    result(ours == largest + 1, "%s: vocabulary %d" % (name, ours))
    compare(name + ": ids", Encoding(path, tokenizer), texts)
    compare(name + ": in parts", Encoding(path, tokenizer, mode="parts", seed=SEED), few)
    compare(name + ": template", Encoding(path, tokenizer, TEMPLATE), few)
    compare(name + ": special tokens as text", Encoding(path, tokenizer, PLAIN), few)
    tokenizer.encode_special_tokens = False
    lists = [encoding.ids for encoding in tokenizer.encode_batch_fast([t.decode(errors="replace") for t in few])]
    lists += random_ids(SEED, vocabulary, special_ids(tokenizer))
    for skip in (False, True):
        compare("%s: text%s" % (name, ", special tokens skipped" if skip else ""), Decoding(path, tokenizer, skip), lists)


def compare_refusal(name, path, words):
    driver = subprocess.run([DRIVER, path, "facts"], capture_output=True, text=True)
    result(driver.returncode == 1 and words in driver.stderr, "%s: refused" % name, driver.stderr.strip())


def same_ids(name, path, other, texts):
    """Files of other names with the same tokenizer."""
    mine, theirs = (list(Records(p, "encode", 0, texts)) for p in (path, other))
    result(mine == theirs, "%s: ids of the same texts" % name)
    result(facts(path)[0] == facts(other)[0], "%s: vocabulary" % name)


def training_texts(characters):
    c = corpus.Corpus(characters, seed=2)
    texts = [c.prose(3000) for _ in range(300)] + [corpus.kjv()[:1 << 20].decode()]
    return texts + [text.decode(errors="replace") for _, text in c.files()[:60]]


def make_all(folder, characters):
    """{name: (path, Tokenizer)}."""
    sample = training_texts(characters)
    files = {name: getattr(makers, name)() for name in BIG}
    over_bytes = makers.trained_bytes(sample)
    files.update({**makers.families(*over_bytes), **makers.stages(*over_bytes)})
    for name, (file, words) in makers.refused(*over_bytes).items():
        check(name, lambda: compare_refusal(name, makers.put(folder, name, file)[0], words))
    files.update(makers.word_families(*makers.trained_words(sample)))
    return {name: makers.put(folder, name, file) for name, file in files.items()}


def everything(folder):
    since = time.monotonic()
    characters = corpus.Characters(known())
    tokenizers = make_all(folder, characters)
    specials = sorted({t.content for _, each in tokenizers.values() for t in list(each.get_added_tokens_decoder().values())[:30]})
    pieces = sum((makers.pieces_of(tokenizers[name][1]) for name in BIG), [])
    characters_known = set(characters.all)
    pieces = [p for p in pieces if set(p) <= characters_known]
    texts = [text for _, text in corpus.Corpus(characters, SEED).documents(int(MB * 1e6), specials, pieces)]
    print("# tokenizers %s; %d texts of %.1f MB, %d tokenizers, seed %d, made in %.1f s" % (
        __version__, len(texts), sum(map(len, texts)) / 1e6, len(tokenizers), SEED, time.monotonic() - since))
    print("# %d characters of %d scripts; left out with these, or because PCRE2 does not know them: %d of Unicode %s" % (
        len(characters.all), len(characters.scripts), characters.left_out, unicodedata.unidata_version))
    for i, (name, (path, tokenizer)) in enumerate(tokenizers.items()):
        if fnmatch.fnmatch(name, PATTERN):
            share = int(os.environ.get("TRINE_SHARE", BIG.get(name, SHARE)))
            few = texts[i % SHARE::SHARE * FEW]
            check(name, lambda: compare_all(name, path, tokenizer, texts[i % share::share], few))
    for path in makers.put_gpt2_files(folder):
        if fnmatch.fnmatch("gpt2", PATTERN):
            check(path, lambda: same_ids("gpt2, " + os.path.basename(path), path, tokenizers["gpt2"][0], texts[::SHARE]))


with tempfile.TemporaryDirectory() as folder:
    check("tokenizers", lambda: everything(folder))
done()

"""Ids and texts by Trine's tokenizer and by Hugging Face's `tokenizers`: those of GPT-2, SmolLM2 and DeepSeek, and small ones with
the stages of other families (tests/tokenizer/makers.py), on 20 MB of texts in all scripts (tests/tokenizer/corpus.py).

    build/venv-outside/bin/python tests/outside/tokens.py [PATTERN]    only tokenizers that match, as "llama*"

Of a difference the shortest text or list of ids is printed that still has it. TRINE_SEED makes other texts; TRINE_MB sets
how many MB of them."""
import fnmatch
import os
import random
import struct
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
import numpy as np
from tap import check, done, result
from tokenizers import Regex, __version__, normalizers, pre_tokenizers

BUILD = os.environ.get("BUILD", "build")
SEED, MB = int(os.environ.get("TRINE_SEED", 1)), float(os.environ.get("TRINE_MB", 20))
PATTERN = sys.argv[1] if len(sys.argv) > 1 else "*"
TEMPLATE, PLAIN = 1, 2  # encode_flags
REFUSED = 2**32 - 1
BATCH = 2 << 20  # bytes: the objects of `tokenizers` take a hundred times as much memory
# A tokenizer gets one text in so many, and other ones than the next; TRINE_SHARE=1 gives all texts to all (ten minutes).
BIG = {"gpt2": 1, "smollm2": 2, "deepseek": 3}
SHARE, FEW = 32, 2


# ---- Trine -----------------------------------------------------------------------------------------

class Records:
    """The driver's side: lists of elements as bytes, in files."""

    def __init__(self, path, mode, argument, records):
        self.input, self.output, self.errors = (tempfile.TemporaryFile() for _ in range(3))
        for record in records:
            width = 4 if mode == "decode" else 1
            data = np.asarray(record, np.int32).tobytes() if width == 4 else record
            self.input.write(struct.pack("<I", len(data) // width) + data)
        self.input.seek(0)
        self.width = 1 if mode == "decode" else 4
        self.process = subprocess.Popen([os.path.join(BUILD, "tests/tokenizer/driver"), path, mode, str(argument)],
                                        stdin=self.input, stdout=self.output, stderr=self.errors)

    def __iter__(self):
        status = self.process.wait()
        for file in (self.output, self.errors):
            file.seek(0)
        self.said = self.errors.read().decode(errors="replace")
        data, at = self.output.read(), 0
        for file in (self.input, self.output, self.errors):
            file.close()
        if status:
            raise RuntimeError("driver: status %d\n%s" % (status, self.said))
        while at < len(data):
            (count,) = struct.unpack_from("<I", data, at)
            at += 4
            if count == REFUSED:
                yield None
                continue
            record = data[at:at + self.width * count]
            at += self.width * count
            yield np.frombuffer(record, np.int32).tolist() if self.width == 4 else record.decode()


def facts(path):
    words = subprocess.run([os.path.join(BUILD, "tests/tokenizer/driver"), path, "facts"], capture_output=True, text=True, check=True).stdout
    return words.split()


def known():
    """The characters that all sides have in their tables of Unicode: what PCRE2 takes for assigned, but for those whose class or
    decomposition `tokenizers` does not know. A byte for each code point."""
    driver = [os.path.join(BUILD, "tests/tokenizer/driver"), "-", "assigned"]
    assigned = bytearray(subprocess.run(driver, capture_output=True, check=True).stdout)
    lost = []
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        normalizer = getattr(normalizers, form)()
        for code in range(0x300, 0x110000):
            if assigned[code]:
                text = "a\u0301%s\u0316\u0327" % chr(code)
                if normalizer.normalize_str(text) != unicodedata.normalize(form, text):
                    assigned[code] = 0
                    lost.append(code)
    lost += other_classes(assigned)
    for code in lost:
        assigned[code] = 0
    print("# left out, for `tokenizers` has them in tables of another version of Unicode: %d characters" % len(lost))
    return bytes(assigned)


def other_classes(assigned):
    """Code points whose category is another one in its regular expressions, or in its pre-tokenizer Punctuation."""
    characters = [chr(code) for code in range(0x110000) if assigned[code]]
    categories = {c: unicodedata.category(c) for c in characters}
    lost = []
    for category in sorted(set(categories.values())):
        outside = pre_tokenizers.Split(Regex(r"\P{%s}" % category), "removed")
        found = {c for word, _ in outside.pre_tokenize_str("".join(characters)) for c in word}
        lost += [ord(c) for c in found ^ {c for c in characters if categories[c] == category}]
    rest = {c for word, _ in pre_tokenizers.Punctuation("removed").pre_tokenize_str("".join(characters)) for c in word}
    return lost + [ord(c) for c in characters if (c not in rest) != (categories[c][0] == "P" or c in "$+<=>^`|~")]


# ---- Comparing -------------------------------------------------------------------------------------

class Encoding:
    """Texts to ids. The flags of the driver decide what `tokenizers` is asked for."""

    def __init__(self, path, tokenizer, flags=0, mode="encode", seed=0):
        self.path, self.tokenizer, self.flags, self.mode, self.seed = path, tokenizer, flags, mode, seed

    def ours(self, texts):
        return Records(self.path, self.mode, self.seed if self.mode == "parts" else self.flags, texts)

    def theirs(self, texts):
        self.tokenizer.encode_special_tokens = bool(self.flags & PLAIN)
        batch, size = [], 0
        for i, text in enumerate(texts):
            batch.append(text.decode(errors="replace"))
            size += len(text)
            if size > BATCH or i + 1 == len(texts):
                for encoding in self.tokenizer.encode_batch_fast(batch, add_special_tokens=bool(self.flags & TEMPLATE)):
                    yield encoding.ids
                batch, size = [], 0

    def show(self, text):
        return "%d bytes: %r" % (len(text), text.decode(errors="replace") if valid(text) else text)

    def parts(self, text):
        """A text is cut between characters, so that what fails stays a text if it was one."""
        return [c.encode() for c in text.decode()] if valid(text) else [text[i:i + 1] for i in range(len(text))]

    def join(self, parts):
        return b"".join(parts)


class Decoding:
    """Ids to texts."""

    def __init__(self, path, tokenizer, skip):
        self.path, self.tokenizer, self.skip = path, tokenizer, skip

    def ours(self, lists):
        return Records(self.path, "decode", int(self.skip), lists)

    def theirs(self, lists):
        if self.skip:  # version 0.23.3 leaves special tokens in that it knows in normalized form ("normalized": true)
            special = {i for i, token in self.tokenizer.get_added_tokens_decoder().items() if token.special}
            lists = [[i for i in ids if i not in special] for ids in lists]
        return iter(self.tokenizer.decode_batch(lists, skip_special_tokens=self.skip))

    def show(self, ids):
        return "ids %s: tokens %r" % (ids, [self.tokenizer.id_to_token(i) for i in ids])

    def parts(self, ids):
        return list(ids)

    def join(self, parts):
        return list(parts)


def valid(text):
    try:
        text.decode()
        return True
    except UnicodeDecodeError:
        return False


def differences(job, inputs):
    """[(input, ours, theirs)]."""
    ours = job.ours(inputs)  # starts
    try:
        theirs = list(job.theirs(inputs))
    except BaseException as error:  # pyo3's PanicException is no Exception
        raise RuntimeError("tokenizers: %s" % error)
    mine = list(ours)
    if len(mine) != len(theirs):
        raise RuntimeError("%d records instead of %d\n%s" % (len(mine), len(theirs), ours.said))
    return [(i, a, b) for i, a, b in zip(inputs, mine, theirs) if a != b]


def shrink(job, input, seconds=10):
    """Leaves out all that a difference does not need."""
    parts, step, until = job.parts(input), None, time.monotonic() + seconds
    step = max(len(parts) // 2, 1)
    while step and time.monotonic() < until:
        tries = [parts[:at] + parts[at + step:] for at in range(0, len(parts), step)]
        if len(tries) > 64:
            tries = random.sample(tries, 64)
        failed = differences(job, [job.join(t) for t in tries if len(t) < len(parts)])
        if failed:
            parts = job.parts(min((input for input, _, _ in failed), key=len))
            step = min(step, max(len(parts) // 2, 1))
        else:
            step //= 2
    return job.join(parts)


def around(a, b):
    """Where two lists begin to differ."""
    if a is None or b is None:
        return a, b
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    first = max(at - 5, 0)
    return "[%d:] %r" % (first, a[first:at + 15]), "[%d:] %r" % (first, b[first:at + 15])


def compare(name, job, inputs):
    since = time.monotonic()
    found = differences(job, inputs)
    elements = sum(map(len, inputs))
    name = "%s: %d inputs of %d elements, %.1f s" % (name, len(inputs), elements, time.monotonic() - since)
    if not found:
        return result(len(inputs) > 0, name)
    input = min((input for input, _, _ in found), key=len)
    short = shrink(job, input)
    again = differences(job, [short]) or differences(job, [input]) or [found[0]]
    input, mine, theirs = again[0]
    mine, theirs = around(mine, theirs)
    result(False, name, "%d inputs differ; the shortest:" % len(found), job.show(input), "ours    %s" % (mine,), "theirs  %s" % (theirs,))


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
    driver = subprocess.run([os.path.join(BUILD, "tests/tokenizer/driver"), path, "facts"], capture_output=True, text=True)
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

"""Random tokenizers, by Trine and by Hugging Face's `tokenizers`: equal ids, or refused by name. Regular expressions are drawn
from a grammar over Oniguruma's syntax; added tokens with every flag, also of white space and of equal normalized forms;
sequences of normalizers; Metaspace in all schemes; models of bytes and of characters, trained on a small text. Texts are drawn from
what the tokenizer asks for.

    build/venv-outside/bin/python tests/outside/random_tokenizers.py [NUMBER]    500 of them; TRINE_SEED makes others

Of a difference the smallest tokenizer and text are printed that still have it, and how often which refusal occurred."""
import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.dont_write_bytecode = True
sys.path[:0] = ["tests", "tests/tokenizer"]

import makers
import reference
from compare import DRIVER, PLAIN, TEMPLATE, Encoding, Records, differences, shrink
from grammar import LETTERS, POOLS, SPACES, Grammar
from tap import done, result
from tokenizers import Tokenizer, __version__

SEED, NUMBER = int(os.environ.get("TRINE_SEED", 1)), int(sys.argv[1]) if len(sys.argv) > 1 else 500
TEXTS = 100  # of a tokenizer


# ---- Tokenizers ---------------------------------------------------------------------------------------

class Maker:
    def __init__(self, r, models):
        self.r, self.grammar, self.models = r, Grammar(r), models

    def text(self, most):
        return "".join(self.r.choice(self.r.choice(POOLS)) for _ in range(self.r.randint(1, most)))

    def replacing(self):
        kind = self.r.choice(["String", "String", "Regex"])
        what = self.grammar.branch(2) if kind == "Regex" else self.r.choice([" ", "a", "s", "\n", "\u2581", self.text(2)])
        return makers.replace(what, self.r.choice(["", "", "\u2581", " ", "b", self.text(2)]), kind)

    def normalizer(self):
        form = self.r.choice(["NFC", "NFD", "NFKC", "NFKD"])
        return self.r.choice([lambda: {"type": form}, self.replacing, self.replacing,
                              lambda: {"type": "Prepend", "prepend": self.r.choice(["\u2581", " ", self.text(2)])}])()

    def normalizers(self):
        stages = [self.normalizer() for _ in range(self.r.choice([0, 0, 1, 1, 2, 3]))]
        return None if not stages else stages[0] if len(stages) == 1 and self.r.random() < .5 else makers.sequence("normalizers", stages)

    def cut(self):
        r = self.r
        behavior = r.choice(["Isolated"] * 5 + list(makers.BEHAVIORS))
        return r.choice([lambda: makers.split(self.grammar.expression(), behavior, r.random() < .2)] * 8 + [
            lambda: makers.split_string(self.r.choice([" ", "a", self.text(2)]), behavior, r.random() < .2),
            lambda: {"type": "Digits", "individual_digits": r.random() < .5}, lambda: {"type": "Whitespace"}, lambda: {"type": "WhitespaceSplit"},
            lambda: {"type": "Punctuation", "behavior": behavior}])()

    def cuts(self, bytes):
        r = self.r
        stages = [self.cut() for _ in range(r.choice([0, 1, 1, 1, 2]))]
        if bytes:
            last = makers.byte_level(r.random() < .3, not stages and r.random() < .3)
            return makers.pre(*stages, last) if stages else last
        if r.random() < .6:
            stages.insert(0, makers.metaspace(r.choice(["first", "first", "always", "never"]), r.random() < .6, r.choice(["\u2581", "\u2581", "_"])))
        return None if not stages else makers.pre(*stages)

    def contents(self, vocab):
        """Of added tokens. Some have forms that normalizers make equal, some are or begin with white space, some are in the model."""
        r = self.r
        special = ["<s>", "<|x|>", "</s>", "<|x|>y"]
        white = [" ", "  ", "\n", "\n\n", "\t", " \n", "\u00a0", "a b", " a", "a "]
        equal = ["\u00e9", "e\u0301", "\u212b", "\u00c5", "A\u030a", "\ufb01", "fi", "\u2581a", "s", "ss", "\u00df", "\u017f"]
        chosen = [r.choice(r.choice([special, special, white, equal, [self.text(3)], list("abst"), sorted(vocab)])) for _ in range(r.choice([0, 0, 1, 2, 3, 5]))]
        return list(dict.fromkeys(chosen))

    def added(self, vocab):
        r = self.r
        contents = self.contents(vocab)
        ids, next = {}, len(vocab)
        for content in contents:
            ids[content] = vocab.get(content, next)
            next += content not in vocab
        tokens = [makers.added(ids[c], c, **{flag: r.random() < .35 for flag in ("single_word", "lstrip", "rstrip", "normalized", "special")}) for c in contents]
        if len(tokens) > 1 and r.random() < .03:
            tokens[-1]["id"] += 3  # a gap
        return tokens

    def make(self):
        r = self.r
        bytes = r.random() < .5
        vocab, merges = self.models[bytes]
        flags = {"ignore_merges": r.random() < .3} if bytes else {"unk_token": "<unk>", "fuse_unk": r.random() < .5, "byte_fallback": r.random() < .7}
        tokens = self.added(vocab)
        after = makers.template([("<unk>", 0)]) if not bytes and r.random() < .3 else None
        return makers.whole(makers.bpe(vocab, merges, **flags), tokens, self.normalizers(), self.cuts(bytes), after)


def atoms_of(file):
    """Texts that the tokenizer asks for: added tokens, and what its expressions and stages have in letters."""
    found = [token["content"] for token in file["added_tokens"]]
    stages = json.dumps([file["normalizer"], file["pre_tokenizer"]], ensure_ascii=False)
    found += re.findall(r'"(?:String|content|prepend|Regex|replacement)": "([^"\\]{1,4})"', stages)
    return found + [c for c in set(stages) if c not in '{}":,\\'][:30]


def texts_of(file, r):
    atoms, out = atoms_of(file), []
    for _ in range(TEXTS):
        draw = r.choice([lambda: r.choice(atoms), lambda: r.choice(r.choice(POOLS)), lambda: r.choice(LETTERS + SPACES), lambda: r.choice([" ", "a", "s", "1"])])
        out.append("".join((draw if r.random() < .5 else r.choice([lambda: r.choice(atoms), lambda: r.choice(r.choice(POOLS))]))()
                           for _ in range(r.choice([1, 2, 3, 5, 8, 20, 60]))))
    return [text.encode() for text in out]


# ---- Comparing ----------------------------------------------------------------------------------------

def load(file, folder):
    """(path, Tokenizer or None, refusal of Trine or None)."""
    path = os.path.join(folder, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(file, out)
    try:
        with Quiet():
            theirs = Tokenizer.from_file(path)
    except BaseException:  # pyo3's PanicException is no Exception
        return path, None, None
    driver = subprocess.run([DRIVER, path, "facts"], capture_output=True, text=True)
    if driver.returncode not in (0, 1):
        raise RuntimeError("driver: status %d\n%s" % (driver.returncode, driver.stderr))
    return path, theirs, driver.stderr.replace(path, "FILE") if driver.returncode else None


def jobs(path, theirs):
    return [Encoding(path, theirs), Encoding(path, theirs, TEMPLATE), Encoding(path, theirs, PLAIN), Encoding(path, theirs, mode="parts", seed=SEED)]


def given_up(ours):
    """A text on which an expression gives up is an error of its own, and no ids."""
    return ours is None


class Quiet:
    """`tokenizers` writes a panic to standard error before it raises."""

    def __enter__(self):
        self.kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 2)
        os.close(nothing)

    def __exit__(self, *_):
        os.dup2(self.kept, 2)
        os.close(self.kept)


def answers(theirs, text):
    """`tokenizers` panics on some."""
    try:
        with Quiet():
            for theirs.encode_special_tokens in (True, False):
                theirs.encode(text.decode())
        return True
    except BaseException:  # pyo3's PanicException is no Exception
        return False


def compare_one(path, theirs, texts):
    """(job, text, ours, theirs) of a difference, or None; and the number of texts on which Trine gave up."""
    texts = [text for text in texts if answers(theirs, text)]
    lost = 0
    for job in jobs(path, theirs):
        found = differences(job, texts)
        lost += sum(given_up(ours) for _, ours, _ in found)
        found = [each for each in found if not given_up(each[1])]
        if found:
            return (job, *min(found, key=lambda each: len(each[0]))), lost
    return None, lost


def smaller(file):
    """The same with one thing less."""
    for i in range(len(file["added_tokens"])):
        yield {**file, "added_tokens": file["added_tokens"][:i] + file["added_tokens"][i + 1:]}
    for key, name in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers")):
        stages = file[key][name] if file[key] and file[key]["type"] == "Sequence" else []
        if file[key] and file[key]["type"] not in ("Sequence", "ByteLevel"):
            yield {**file, key: None}
        for i, stage in enumerate(stages):
            if stage["type"] != "ByteLevel":
                yield {**file, key: makers.sequence(name, stages[:i] + stages[i + 1:])}
    for i, token in enumerate(file["added_tokens"]):
        for flag in ("single_word", "lstrip", "rstrip", "normalized", "special"):
            if token[flag]:
                yield {**file, "added_tokens": file["added_tokens"][:i] + [{**token, flag: False}] + file["added_tokens"][i + 1:]}


def minimise(file, text, folder):
    again = True
    while again:
        again = False
        for candidate in smaller(file):
            path, theirs, refusal = load(candidate, folder)
            if theirs and not refusal and answers(theirs, text) and compare_one(path, theirs, [text])[0]:
                file, again = candidate, True
                break
    return file


def show(file, text, folder):
    file = minimise(file, text, folder)
    path, theirs, _ = load(file, folder)
    job = (compare_one(path, theirs, [text])[0] or (Encoding(path, theirs),))[0]
    try:
        with Quiet():
            text = shrink(job, text, 5)
    except RuntimeError:  # `tokenizers` panics on a shorter text
        pass
    found = differences(job, [text])
    parts = {key: value for key, value in file.items() if key not in ("model", "version", "truncation", "padding", "decoder")}
    model = {key: value for key, value in file["model"].items() if key not in ("vocab", "merges")}
    return [json.dumps(parts, ensure_ascii=False), json.dumps(model), "%s, flags %d: %r" % (job.mode, job.flags, text.decode(errors="replace"))] + [
        "ours %s, theirs %s" % each[1:] for each in found]


def reason(message):
    """A refusal without what differs from one to the next."""
    message = message.split("FILE: ")[-1].split("\n    at ")[0].strip()
    return re.sub(r' at byte \d+|"(?:[^"\n]*)"(?=: )', "", re.sub(r'regular expression "(?s:.*)": (?=[^"]*$)', "regular expression: ", message))


def everything(folder):
    sample = [reference.SAMPLE] + reference.SAMPLE.splitlines() + ["ss \u00df fi \ufb01 k \u212a \u00b2 \u00bd \u2581a b"]
    models = {True: makers.trained_bytes(sample, 400), False: makers.trained_words(sample, 440)}
    counts, reasons, lost, i = collections.Counter(), collections.Counter(), 0, 0
    while counts["equal"] + counts["refused"] + counts["different"] < NUMBER:
        r = random.Random(SEED * 1000003 + i)
        i += 1
        file = Maker(r, models).make()
        path, theirs, refusal = load(file, folder)
        if not theirs:
            counts["invalid"] += 1
            continue
        if refusal:
            counts["refused"] += 1
            reasons[reason(refusal)] += 1
            continue
        found, gave_up = compare_one(path, theirs, texts_of(file, r))
        lost += gave_up
        counts["different" if found else "equal"] += 1
        if found:
            result(False, "tokenizer %d of seed %d" % (i - 1, SEED), *show(file, found[1], folder))
    for why, count in reasons.most_common(60):
        print("# refused %d times: %s" % (count, why[:200]))
    result(not counts["different"] and counts["equal"] > 2 * counts["refused"], "%d random tokenizers, seed %d, tokenizers %s" % (NUMBER, SEED, __version__),
           "%d equal, %d refused by name, %d different; texts on which an expression gave up: %d; `tokenizers` refuses %d more" % (
               counts["equal"], counts["refused"], counts["different"], lost, counts["invalid"]))


with tempfile.TemporaryDirectory() as folder:
    everything(folder)
done()

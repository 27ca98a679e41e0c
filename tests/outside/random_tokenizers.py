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
from tap import done, result
from tokenizers import Tokenizer, __version__

SEED, NUMBER = int(os.environ.get("TRINE_SEED", 1)), int(sys.argv[1]) if len(sys.argv) > 1 else 500
TEXTS = 60
# Characters that a class, an escape, a folding or a normal form treats in a special way. All of them are in Unicode 14.
LETTERS = list("abcdefgkstABCKSTxyz") + ["\u00df", "\u1e9e", "\u017f", "\u212a", "\u0130", "\u0131", "\u00e9", "\u00c9", "\u03c3", "\u03c2", "\u03a3", "\ufb01", "\ufb00",
                                        "\ufb06", "\u0149", "\u01c5", "\u0434", "\u0414", "\u4e2d", "\u3042", "\u30ab", "\u05d0", "\u0915", "\uac00", "\u1e97", "\u0345", "\u03b9"]
MARKS = ["\u0301", "\u0323", "\u094d", "\u200d", "\u200c", "\ufe0f", "\u0307", "\u20dd"]
NUMBERS = list("0123456789") + ["\u00b2", "\u00b3", "\u00b9", "\u00bc", "\u00bd", "\u00be", "\u2167", "\u0661", "\u2460", "\u24b6", "\u3007"]
SIGNS = list(".,;:!?'\"-_()[]{}<>&|^$*+/\\=~`@#%") + ["\u2019", "\u20b2", "\u20ac", "\u00ab", "\u3002", "\u203f", "\u2581", "\U0001f600", "\U0001f1e9", "\u00a9"]
SPACES = [" ", " ", " ", " ", "  ", "\n", "\n", "\t", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u00a0", "\u2003", "\u2028", "\u3000", "\u180e", "\u200b"]
OTHERS = ["\x00", "\x07", "\x1b", "\x7f", "\ufffd", "\ue000", "\u0378"]
POOLS = [LETTERS] * 8 + [MARKS] * 2 + [NUMBERS] * 3 + [SIGNS] * 4 + [SPACES] * 4 + [OTHERS]


# ---- Regular expressions ------------------------------------------------------------------------------

PROPERTIES = ["L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Po", "S", "Sm", "Sc", "Z", "Zs", "C", "Cc", "Letter",
              "Number", "Punctuation", "Lowercase_Letter", "uppercase letter", "Han", "Latin", "Greek", "Cyrillic", "Hiragana", "Katakana", "hangul",
              "Alpha", "Alnum", "Upper", "Lower", "Punct", "Space", "Digit", "XDigit", "Word", "Blank", "Cntrl", "Graph", "Print", "ASCII", "Any", "White_Space"]
POSIX = ["alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word", "xdigit"]
# The expressions that trained models use, and pieces of them.
KNOWN = [makers.GPT2, makers.LLAMA3, makers.QWEN2, makers.QWEN35, makers.O200K, r"\p{N}{1,3}", r"[^\r\n\p{L}\p{N}]?\p{L}+", r" ?[^\s\p{L}\p{N}]+[\r\n]*",
         r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+", makers.SHORT, r"'(?i:[sdmt]|ll|ve|re)", r"\p{N}", r" ?\p{L}+", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
         r"[\p{Han}]+", r"\w+|[^\w\s]+", r"(?:\r?\n)+(?!\r?\n)", r"\p{N}{1,3}(?=(?:\p{N}{3})*\b)", r"\d{1,3}(?=(?:\d{3})*\b)", r"(?<=\S)\s+$", r"[!-/:-~]?[A-Za-z]+",
         r"[\u4e00-\u9fff\u3040-\u309f]+", r"[^\S\n]+", r"\b\w+\b|\W+"]


class Grammar:
    def __init__(self, r):
        self.r = r

    def pick(self, *choices):
        """(weight, function)."""
        return self.r.choices([f for _, f in choices], [w for w, _ in choices])[0]()

    def literal(self):
        c = self.r.choice(self.r.choice([LETTERS, LETTERS, NUMBERS, SIGNS, SPACES]))[0]
        return "\\" + c if c in "\\.*+?()[]{}|^$" else c

    def code(self):
        c = ord(self.r.choice(self.r.choice(POOLS))[0])
        forms = ["\\x{%x}" % c] + (["\\u%04X" % c] if c < 0x10000 else []) + (["\\x%02x" % c] if c < 0x100 else [])
        return self.r.choice(forms)

    def property(self):
        return self.r.choice(["\\p{%s}", "\\p{%s}", "\\P{%s}", "\\p{^%s}"]) % self.r.choice(PROPERTIES)

    def escape(self):
        return "\\" + self.r.choice("sSwWdDhHnrtfvaesSwWdD")

    def more(self):
        return "\\" + self.r.choice("RNOXbBAzZKGy")

    def member(self, depth):
        low, high = sorted(self.r.choice([LETTERS, NUMBERS])[self.r.randrange(11)] for _ in range(2))
        return self.pick(
            (8, self.literal), (4, lambda: low + "-" + high), (5, self.escape), (5, self.property), (1, self.code),
            (2, lambda: "[:%s%s:]" % (self.r.choice(["", "^"]), self.r.choice(POSIX))), (1 if depth < 2 else 0, lambda: self.bracket(depth + 1)),
            (.5, lambda: self.r.choice(["-", "&", "^", ".", "*", "\\b", "\\-", "\\]", "\\[", "+", "|", "\\\\", "]"])))

    def side(self, depth):
        return "".join(self.member(depth) for _ in range(self.r.randint(1, 4)))

    def bracket(self, depth=0):
        sides = "&&".join(self.side(depth) for _ in range(self.r.choice([1] * 8 + [2, 3])))
        return "[" + self.r.choice(["", "", "^"]) + sides + self.r.choice([""] * 9 + ["-"]) + "]"

    def atom(self, depth):
        return self.pick(
            (10, self.literal), (3, lambda: "".join(self.literal() for _ in range(3))), (1, self.code), (6, self.property), (7, self.escape), (1, self.more), (2, lambda: "."), (9, self.bracket),
            (1, lambda: self.r.choice("^$")), (5 if depth < 3 else 0, lambda: self.group(depth + 1)), (.2, lambda: self.r.choice(["{", "}", "]", "{,}", "{a}"])))

    def group(self, depth):
        opening = self.pick((4, lambda: "("), (6, lambda: "(?:"), (1, lambda: "(?>"), (2, lambda: "(?="), (2, lambda: "(?!"), (1, lambda: "(?<="), (1, lambda: "(?<!"),
                            (4, lambda: "(?i:"), (1, lambda: "(?m:"), (1, lambda: self.r.choice(["(?-i:", "(?im:", "(?i-m:", "(?mi-:"])),
                            (.3, lambda: self.r.choice(["(?~", "(?<n>", "(?#", "(?x:", "(?s:", "(?W:", "(?~|", "(*a"])))
        return opening + self.alternatives(depth) + ")"

    def repeat(self):
        low, high = sorted([self.r.randint(0, 3), self.r.randint(0, 4)])
        interval = self.r.choice(["{%d}" % low, "{%d,}" % low, "{,%d}" % high, "{%d,%d}" % (low, high), "{%d,%d}" % (high, low)])
        return self.r.choice(["?", "*", "+", "+", "*", interval, interval]) + self.r.choice(["", "", "", "", "?", "+", "?+"])

    def piece(self, depth):
        return self.atom(depth) + (self.repeat() if self.r.random() < .4 else "")

    def branch(self, depth):
        start = "(?i)" if self.r.random() < .02 else ""
        return start + "".join(self.piece(depth) for _ in range(self.r.choice([0, 1, 1, 1, 2, 2, 3])))

    def alternatives(self, depth=0):
        return "|".join(self.branch(depth) for _ in range(self.r.choice([1, 1, 1, 2, 2, 3])))

    def expression(self):
        if self.r.random() < .25:
            return "|".join(self.r.choice(KNOWN) if self.r.random() < .7 else self.branch(1) for _ in range(self.r.randint(1, 3)))
        return self.alternatives()


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
    text = shrink(job, text, 5)
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

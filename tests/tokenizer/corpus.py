"""Texts for the comparisons of tokenizers: all scripts of Unicode, and what tokenizers treat in special ways. Every text
follows from the seed, the tables of Python's unicodedata, and this repository's files; nothing is downloaded.

Words are drawn from a list for each script, the first ones far more often, so that trained merges occur in all scripts."""
import glob
import os
import random
import unicodedata

ZWJ, VS16, KEYCAP = "\u200d", "\ufe0f", "\u20e3"
SPACES = [" ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680", "\u180e",
          *map(chr, range(0x2000, 0x2010)), "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff"]
APOSTROPHES = ["'s", "'S", "'\u017f", "'t", "'T", "'re", "'RE", "'rE", "'ve", "'VE", "'m", "'M", "'ll", "'LL", "'lL", "'d",
               "'D", "\u2019s", "\u2019re", "''s", "'sx", "'", "'1", "' s"]
# Composed in steps, reordered, excluded from composition, decomposed into one or several, or not at all.
NORMAL = ["\u212b", "\u2126", "\u212a", "\u0344", "\u0340", "\u0341", "\u0343", "\u0374", "\u037e", "\u0387", "\u1f71", "\u0958",
          "\u09dc", "\u0f43", "\ufb1d", "\ufb2c", "\ufb4e", "\u2adc", "\U0001d15e", "\U0001d1c0", "\uf900", "\ufa10",
          "\U0002f800", "\u1e9b\u0323", "\u0061\u0315\u0300\u05ae\u0300\u0062", "\u1100\u1161\u11a8", "\uac00\u11a8",
          "\uac00\u11a7", "\u1100\uac00\u11a8", "\u0b47\u0b3e", "\u0b47\u0300\u0b3e", "\u0cc6\u0cc2\u0cd5", "\u0dd9\u0dca",
          "\u0dd9\u0dcf\u0dca", "\u1025\u102e", "\u1b05\u1b35", "\U00011099\U000110ba", "\U00011131\U00011127",
          "\u09c7\u09be", "\u0bc6\u0bbe", "\u0300", "\u0301\u0301", "\u0f71\u0f72", "\u0f71\u0f74\u0f80", "\u3099", "\u304b\u3099",
          "\u0061\u0301\u0327", "\u0061\u0327\u0301", "\u0041\u030a\u0301", "\u1ea5\u0327", "\u0073\u0323\u0307",
          "\u0073\u0307\u0323", "q\u0307\u0323", "\u0307\u0323"]
CODE = ["def f(x):\n    return x[1:-1]\n", "for (int i = 0; i < n; ++i) {\n\t\ta[i] += b[i] * 0x1F;\n}\n", "<p class=\"a\">&nbsp;</p>",
        "https://example.org/a?b=c&d=%20#e", "user@example.org", "SELECT * FROM t WHERE a <> 'b';\r\n", "{\"k\": [1, 2.50e-3, null]}",
        "\\begin{x}$\\alpha_{1}^2$\\end{x}", "#!/bin/sh\nset -eu\n", "a_b-c.d/e\\f|g", "camelCaseWordsHTTPServer2Go", "x=-1;y=+.5",
        "1,234,567.89", "2026-11-25T10:48:44Z", "$12.00 100% #1 @2 *3*", "```c\nint x;\n```", "...", "--", "=====", "!!!???", "\u2026"]
TRICKY = ["a", "B", "e", "s", "t", " ", "  ", "\n", "\r", "\t", "'", "1", "23", "\u0661", ".", ",", "-", "_", "\u2581", "\xa0", "\u3000",
          "\u4e2d", "\u0301", "\xe9", "\u0130", "\u017f", "\u00df", "\u01c5", "\u02b0", "\u05d0", "\u0915", "\u094d", "\u200d", "\ufe0f",
          "\U0001f600", "\U0001f1e9", "\U0001f3fd", "\x00", "\x7f", "\ufffd", "\u2028", "\x85", "\u180e", "\u200b", "\u0f0b", "\xb2", "\xbd",
          "\u2167", "$", "\u20ac", "`", "^", "\xab", "\u3002", "\uff01", "</s>", "<s>", "<0x41>"]
# Each case of a maximal part of an ill-formed sequence (Unicode 14.0, section 3.9, table 3-8), and well-formed edges.
ILL_FORMED = [b"\x80", b"\xbf\x80", b"\xc0\x80", b"\xc1\xbf", b"\xc2", b"\xc2\x41", b"\xdf", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xe0\xa0",
              b"\xe1\x80", b"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\x9f", b"\xef\xbf",
              b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80", b"\xf0\x90", b"\xf0", b"\xf1\x80\x80", b"\xf4\x8f\xbf",
              b"\xf4\x90\x80\x80", b"\xf5", b"\xf5\x80\x80\x80", b"\xfe", b"\xff\xff", b"\xed\x9f\xbf", b"\xee\x80\x80",
              b"\xf4\x8f\xbf\xbf", b"\xef\xbb\xbf", b"\xf0\x9f\x98", b"\xe2\x82", b"\xc3\x28", b"\xfc\x80\x80\x80\x80\x80"]


class Characters:
    """The assigned code points that all sides know, by script and kind. `known` is a byte for each code point, or None."""

    def __init__(self, known=None):
        self.scripts, self.marks, self.digits, self.emoji, self.controls, self.all = {}, [], [], [], [], []
        self.left_out = 0
        for code in range(0x110000):
            c = chr(code)
            kind = unicodedata.category(c)
            if kind in ("Cn", "Cs"):
                continue
            if known and not known[code]:
                self.left_out += 1
                continue
            self.add(c, code, kind)
        self.scripts = {name: letters for name, letters in self.scripts.items() if len(letters) >= 5}

    def add(self, c, code, kind):
        if kind != "Co" or code % 4096 < 4:
            self.all.append(c)
        if kind[0] == "M":
            self.marks.append(c)
        if kind[0] == "N":
            self.digits.append(c)
        if kind in ("Cc", "Cf"):
            self.controls.append(c)
        if 0x1f300 <= code < 0x1fb00 and kind == "So":
            self.emoji.append(c)
        if kind[0] in "LM" and code >= 0x41:
            name = unicodedata.name(c, "")
            word = "HAN" if name.startswith("CJK") else name.split(" ")[0].split("-")[0]
            self.scripts.setdefault(word, []).append(c)


class Corpus:
    def __init__(self, characters, seed=1):
        self.c, self.random = characters, random.Random(seed)
        self.words = {name: self.lexicon(name, letters) for name, letters in sorted(characters.scripts.items())}

    # ---- Words ----

    def lexicon(self, name, letters):
        r = self.random
        common = r.sample(letters, min(len(letters), 60))
        longest = 3 if name in ("HAN", "HANGUL") else 10
        words = ["".join(r.choices(common if r.random() < .8 else letters, k=r.randint(1, longest))) for _ in range(400)]
        return [w.capitalize() if r.random() < .1 else w for w in words]

    def some_words(self, name, count):
        """Zipf's law, roughly: the word at rank r with weight 1 / r."""
        words = self.words[name]
        return [words[int(len(words) ** self.random.random()) - 1] for _ in range(count)]

    def sentence(self, name):
        r = self.random
        words = self.some_words(name, r.randint(2, 25))
        if name in ("HAN", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"):
            return "".join(words) + r.choice(["\u3002", "\uff0c", "\u3001", " ", "\uff01", "\u0f0b", "\n"])
        return r.choice([" ", " ", " ", "  ", "-", "\xa0"]).join(words) + r.choice([". ", ", ", "? ", ".\n", "!\n\n", ": ", "\r\n", "; "])

    def prose(self, bytes, names=None):
        out, size = [], 0
        names = names or list(self.words)
        while size < bytes:
            sentence = self.sentence(self.random.choice(names))
            size += len(sentence.encode())
            out.append(sentence)
        return "".join(out)

    # ---- What is treated in special ways ----

    def smiley(self):
        r, e = self.random, self.c.emoji
        tone = chr(r.randint(0x1f3fb, 0x1f3ff))
        return r.choice([
            lambda: r.choice(e), lambda: r.choice(e) + tone, lambda: r.choice(e) + VS16,
            lambda: ZWJ.join(r.choice(e) + r.choice(["", tone, VS16]) for _ in range(r.randint(2, 5))),
            lambda: "".join(chr(r.randint(0x1f1e6, 0x1f1ff)) for _ in range(r.randint(1, 5))),
            lambda: r.choice("0123456789#*") + VS16 + KEYCAP, lambda: "\u2764" + VS16 + ZWJ + "\U0001f525",
            lambda: "\U0001f3f4" + "".join(chr(0xe0000 + ord(x)) for x in "gbsct") + "\U000e007f"])()

    def marked(self):
        r, c = self.random, self.c
        base = r.choice(c.scripts[r.choice(list(c.scripts))]) if r.random() < .5 else r.choice("aeiouAEOsdnSZ")
        marks = c.marks if r.random() < .5 else [chr(r.randint(0x300, 0x34e)) for _ in range(4)]
        return base + "".join(r.choices(marks, k=r.randint(1, 6)))

    def jamo(self):
        r = self.random
        return "".join(chr(r.choice([r.randint(0x1100, 0x1112), r.randint(0x1161, 0x1175), r.randint(0x11a7, 0x11c2),
                                     r.randint(0xac00, 0xd7a3)])) for _ in range(r.randint(1, 6)))

    def number(self):
        r = self.random
        if r.random() < .5:
            return "".join(r.choices(self.c.digits, k=r.randint(1, 5)))
        zero = ord(r.choice([d for d in self.c.digits if unicodedata.category(d) == "Nd" and unicodedata.digit(d) == 0]))
        return "".join(chr(zero + r.randint(0, 9)) for _ in range(r.randint(1, 12)))

    def token(self):
        return self.random.choice(self.specials)

    def mixture(self, draw, pieces):
        """Pieces of one kind, most of them between words or spaces."""
        r, out = self.random, []
        for _ in range(pieces):
            out.append(draw())
            if r.random() < .6:
                out.append(r.choice([" ", " ", "  ", "\n", "", "x", "7", r.choice(SPACES), *self.some_words("LATIN", 1), self.sentence(
                    r.choice(list(self.words)))]))
        return "".join(out)

    def run(self):
        r = self.random
        unit = r.choice(["a", " ", "\n", "\t", "=", "-", "0", "\xe9", "\u4e2d", "\U0001f600", "\u0301", "\u0323\u0301", "ab", " a", "\r\n", "'s", "\x00",
                         "\u200b", "\xa0", "\u2581", ".", "the "])
        return r.choice(["", "x", " ", "\n"]) + unit * (r.choice([50, 500, 5000, 20000, 100000]) // len(unit.encode())) + r.choice(["", "y", " y", "\n"])

    def salad(self):
        """Tokens of trained vocabularies, where other merges compete than in prose."""
        r = self.random
        return "".join(r.choices(self.pieces, k=r.randint(1, 300)))

    def mutated(self, text):
        r, data = self.random, bytearray(text.encode())
        for _ in range(r.randint(1, 8)):
            at = r.randrange(len(data) + 1)
            kind = r.random()
            if kind < .5:
                data[at:at] = r.choice(ILL_FORMED)
            elif kind < .8:
                del data[at:at + 1]
            elif at < len(data):
                data[at] ^= 1 << r.randrange(8)
        # What mutation makes of the text must be known to all sides, too.
        text = bytes(data).decode(errors="replace")
        return bytes(data) if set(text) <= self.known else r.choice(ILL_FORMED)

    # ---- Documents ----

    def documents(self, bytes, specials, pieces):
        """[(kind, text in bytes)] of about as many bytes in all."""
        self.specials, self.pieces, self.known = specials, pieces, set(self.c.all)
        out = []
        for make in (self.each_character, self.ill_formed, self.files):
            out += make()
        shares = {"prose": 12, "mixed": 8, "emoji": 2, "marks": 6, "spaces": 4, "digits": 2, "controls": 2, "tokens": 6, "contractions": 2,
                  "code": 3, "salad": 20, "runs": 10, "short": 8, "bytes": 5}
        rest = max(bytes - sum(len(text) for _, text in out), 0)
        for kind, share in shares.items():
            left = rest * share // sum(shares.values())
            while left > 0:
                text = self.draw(kind)
                text = text.encode() if isinstance(text, str) else text
                out.append((kind, text))
                left -= len(text) + 8
        return out

    def draw(self, kind):
        r = self.random
        several = r.choice([1, 2, 5, 30, 200])
        return {
            "prose": lambda: self.prose(r.choice([50, 2000, 50000]), [r.choice(list(self.words))]),
            "mixed": lambda: self.prose(r.choice([50, 500, 5000])),
            "emoji": lambda: self.mixture(self.smiley, several),
            "marks": lambda: self.mixture(lambda: r.choice([self.marked, self.jamo, lambda: r.choice(NORMAL)])(), several),
            "spaces": lambda: self.mixture(lambda: "".join(r.choices(SPACES, k=r.randint(1, 4))), several),
            "digits": lambda: self.mixture(self.number, several),
            "controls": lambda: self.mixture(lambda: r.choice(self.c.controls), several),
            "tokens": lambda: self.mixture(self.token, several),
            "contractions": lambda: self.mixture(lambda: r.choice(APOSTROPHES), several),
            "code": lambda: self.mixture(lambda: r.choice(CODE), several),
            "salad": self.salad, "runs": self.run,
            "short": lambda: "".join(r.choices(TRICKY if r.random() < .8 else TRICKY + self.specials, k=r.randint(0, 12))),
            "bytes": lambda: self.mutated(self.mixture(lambda: r.choice([self.smiley, self.marked, self.token])(), several)),
        }[kind]()

    def each_character(self):
        """Every character before, after and between letters and spaces."""
        out = []
        for first in range(0, len(self.c.all), 512):
            block = self.c.all[first:first + 512]
            out.append(("characters", "".join(c + " " + c + "a" + c + c for c in block).encode()))
            out.append(("characters", "".join(block).encode()))
        return out

    def ill_formed(self):
        both = [a + b for a in ILL_FORMED for b in ILL_FORMED]
        return [("bytes", each) for each in ILL_FORMED + both] + [("bytes", b"a " + b" ".join(both) + b" z")]

    def files(self):
        """The repository's own sources and documents; the King James Version, if the demo has made it."""
        names = sorted(sum((glob.glob(p, recursive=True) for p in ("src/**/*.[ch]", "src/**/*.cu", "tests/*/*.[ch]", "docs/*.md", "*.md",
                                                                  "tools/*", "tests/**/*.py", "Makefile")), []))
        out = [("files", read(name)) for name in names if os.path.isfile(name)]
        return out + [("kjv", part) for part in pieces_of(kjv(), self.random)]


def kjv():
    path = os.path.join(os.environ.get("BUILD", "build"), "corpus", "kjv.txt")
    return read(path) if os.path.exists(path) else b""


def read(name):
    with open(name, "rb") as file:
        return file.read()


def pieces_of(text, r):
    """One long piece, and many of all lengths."""
    at, out = 0, []
    while at < len(text):
        size = 1 << 20 if not out else r.choice([100, 1000, 10000, 100000])
        out.append(text[at:at + size])
        at += size
    return out

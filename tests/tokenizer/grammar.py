"""Random regular expressions of Oniguruma's syntax, and characters that tell them apart."""
import makers

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
        interval = self.r.choice(["{%d}" % low, "{%d,}" % low, "{,%d}" % high, "{%d,%d}" % (low, high)] * 4 + ["{%d,%d}" % (high, low)])
        return self.r.choice(["?", "*", "+", "+", "*", interval, interval]) + self.r.choice([""] * 12 + ["?"] * 3 + ["+"] * 3 + ["?+"])

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

"""Every construct of Oniguruma's regular expressions by Trine and by Hugging Face's `tokenizers`: equal ids, or refused by name. Each
named set of characters is walked over all characters, by itself, in brackets, and where case is ignored; each character that has two
cases over all that are equal to it; and each row of a table of other constructs over texts that show what it means.

    build/venv-outside/bin/python tests/outside/expressions.py"""
import json
import os
import subprocess
import sys
import tempfile
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.dont_write_bytecode = True
sys.path[:0] = ["tests", "tests/tokenizer"]

import makers
from compare import DRIVER, Encoding, around, differences
from grammar import KNOWN, POSIX, PROPERTIES
from known import known
from tap import check, done, result
from tokenizers import Tokenizer, pre_tokenizers

SCRIPTS = ["Arabic", "Armenian", "Bengali", "Cherokee", "Common", "Coptic", "Devanagari", "Georgian", "Hebrew", "Inherited", "Thai", "Tibetan"]
CATEGORIES = sorted(({unicodedata.category(chr(c)) for c in range(0x110000)} | set("LMNPSZC") | {"LC"}) - {"Cn", "Cs"})
ESCAPES = list("sSwWdDhH")
# Where a set can stand: by itself, in a bracket with another member, in a negated one ...
PLACES = ["%s", "[%s]", "[^%s]", "[^a%s]", "[%s&&[^b]]", "[^[^%s]]", "(?i:%s)", "(?i:[%s])", "(?i:[^%s])"]
VOCABULARY = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
# Expressions that are to be equal, not refused: (expression, texts).
EQUAL = [
    (r"\w+|[^\w\s]+", ["\u20b2\u00b2", "a\u00b2\u00bd,\u00bc", "\u00b9 x"]), (r"[\w]", ["\u00b2a\u00bd"]), (r"[^\w]", ["\u00b2a\u00bd"]),
    (r"a{,2}", ["aaaaa", "a{,2}", "baab"]), (r"a{,2}?b", ["aaab"]), (r"a{2}?", ["aaaaa"]), (r"a{2}+", ["aaaaab"]), (r"a{1,2}+b", ["aaaab"]), (r"a{1,2}?", ["aaa"]),
    (r"a{,}", ["a{,}a"]), (r"a{", ["a{a"]), (r"a{x}", ["a{x}a"]), (r"{", ["a{b"]), (r"a{1", ["a{1"]), (r"}", ["a}"]), (r"]", ["a]"]),
    (r"a++a", ["aaa"]), (r"a*+b", ["aab"]), (r"a?+a", ["a", "aa"]), (r"(?>a+)b|a", ["aaab", "aaa"]), (r"a+?b", ["aaab"]),
    (r"(?i)k", ["kK\u212a"]), (r"(?i:s)x", ["sx\u017fxSx\u00dfx"]), (r"(?i:[k])x", ["kxKx\u212ax"]), (r"(?i:[a-z])x", ["kxKx\u212ax\u017fx\ufb06x\u00dfx"]),
    (r"a(?i)b|c", ["aB aC C ac ab c"]), (r"a(?i:b)c", ["aBc aBC"]), (r"(a(?i)b|c)d", ["aBd aCd acd cd"]), (r"(?i)a(?-i)b", ["Ab AB"]), (r"(?i:s{2})", ["\u00dfss"]), (r"(?i:(?:s|t)s)", ["\u00dfss"]),
    (r"a.c", ["a\nc", "a\rc", "a\u2028c"]), (r"(?m:a.c)", ["a\nc", "a\rc"]), (r"(?m)a.", ["a\n"]), (r"(?mi-i:a.)", ["A\na\n"]), (r"\N+|\O", ["a\nb\rc"]),
    (r"^a|b$", ["a\na\rab\nb", "ab"]), (r"\Aa|b\Z|c\z", ["ab", "aab\n", "c\n", "c"]), (r"$", ["a\nb\n", "\n\n"]), (r"^", ["a\nb\n", "\n\n"]),
    (r"\bfoo\b", ["foo foo\u00b2 \u00b2foo foo,"]), (r"\Boo\B", ["foo fool oo"]), (r"\b", ["a b\u00bd c"]), (r"\R", ["a\r\nb\n\rc\x85\u2028\x0b\x0c"]),
    (r"[a-z&&[^aeiou]]+", ["abcde"]), (r"[^a&&b]", ["abc"]), (r"[a-cx&&b-z]+", ["abcxyz"]), (r"[a[^b]]+", ["abc"]), (r"[^a[b]]+", ["abc"]), (r"[[a-c][x]]", ["axd"]),
    (r"[\w&&[^\d_]]+", ["ab1_c"]), (r"[^\W\d]+", ["a1,b\u00b2"]), (r"[^\S\n]+", [" \n\t"]), (r"[[:^alpha:]]+", ["ab12"]), (r"[a-c-e]+", ["abc-de"]), (r"[a-]+", ["a-b"]), (r"[-a]+", ["a-b"]),
    (r"[a&b]+", ["a&bc"]), (r"[.*+?(){}|$^]+", ["a.*+?(){}|$^"]), (r"[\b]", ["a\bb"]), (r"[:alpha:]+", ["alp:x"]), (r"[\n\t\x41\u0042\x{43}]", ["\n\tABCD"]),
    (r"\a\e", ["\x07\x1bx"]), (r"\x{4e2d}\u6587", ["\u4e2d\u6587\u5b57"]), (r"\_\-\'\"\é\/", ["_-'\"é/x"]), (r"\t\v\f\r", ["\t\v\f\r"]), (r"", ["ab"]), (r"a||b", ["ab"]), (r"(|a)+", ["aab"]),
    (r"(?<=a|bc)d", ["adbcd"]), (r"(?<!\s)\d+", ["a1 23"]), (r"(?=a)|b", ["ab"]), (r"(?:a??)*b", ["aab"]), *((known, ["He'll 'S we\u2019Re 12345 x\u00b2 \u4e2dA\n\n  "]) for known in KNOWN)]
# What is refused; only that is promised.
OTHERS = [
    (r"(?i:ss)", ["\u00dfss\u1e9e"]), (r"(?i:\u00df)", ["\u00dfss"]), (r"(?i:[\u00df])x", ["ssx"]), (r"(?i:s(?:s))", ["\u00df"]),
    (r"(?i:first)", ["\ufb01rst"]), (r"(?i:[\p{L}])x", ["ssx"]), (r"(?i:[^\p{L}])", ["\u0345"]), (r"a{3,1}", ["aaaa"]), (r"a**", ["aaa"]), (r"a?+?", ["aaa"]), (r"\X", ["e\u0301x"]), (r"\y", ["ab"]),
    (r"a\Kb", ["ab"]), (r"\Gab", ["abab"]), (r"(?<n>a)", ["ba"]), (r"(a)\1", ["aaa"]), (r"\k<n>", ["a"]), (r"(?~ab)", ["xxaby"]), (r"(?~|ab|x*)", ["xxab"]), (r"(?#c)a", ["ba"]), (r"(?x: a b )", ["ab"]),
    (r"(?W:\w+)", ["a\u00e9"]), (r"(?y{w}:\X)", ["ab"]), (r"(?(a)b|c)", ["ab"]), (r"(*FAIL)", ["a"]), (r"\xe4\xb8\xad", ["\u4e2d"]), (r"[\xe4\xb8\xad]", ["\u4e2d"]), (r"\xA0", ["\u00a0"]), (r"\x4", ["\x04"]),
    (r"\x{41 42}", ["AB"]), (r"\0", ["\x00"]), (r"\07", ["\x07"]), (r"\o{101}", ["A"]), (r"\cA", ["\x01"]), (r"\C-a", ["\x01"]), (r"\M-a", ["a"]), (r"\q", ["q"]), (r"[\R]", ["R\n"]), (r"[\q]", ["q"]),
    (r"[]a]", ["]a"]), (r"[^]a]", ["]ab"]), (r"[a&&]", ["a&b"]), (r"[&&a]", ["a&b"]), (r"[[:foo:]]", ["f"]), (r"[[:alpha]]", ["a:"]), (r"[--a]", ["-.a"]), (r"[\w-.]", ["a-."]), (r"[a-\d]", ["a-1"]),
    (r"(?<=a+)b", ["aab"]), (r"\p{InBasicLatin}", ["ab"]), (r"\p{Emoji}", ["1"]), (r"\pL", ["a"]), (r"\p{L&}", ["a"]), (r"\p{Nonsense}", ["a"]), (r"^*a", ["a"]), (r"(?=a)*b", ["b"]), (r"(?s:a.c)", ["a\nc"])]


def put(folder, expression, behavior):
    stages = makers.pre(makers.split(expression, behavior), makers.byte_level(False))
    path = os.path.join(folder, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(makers.whole(makers.bpe(VOCABULARY, [], ignore_merges=True), [], None, stages), file)
    return path


def load(folder, expression, behavior):
    """(path, Tokenizer or None where that refuses it, message of Trine)."""
    path = put(folder, expression, behavior)
    try:
        theirs = Tokenizer.from_file(path)
    except Exception:
        theirs = None
    driver = subprocess.run([DRIVER, path, "facts"], capture_output=True, text=True)
    if driver.returncode not in (0, 1):
        raise RuntimeError("driver: status %d\n%s" % (driver.returncode, driver.stderr))
    return path, theirs, driver.stderr


class Count:
    equal = refused = 0
    different = []


def walk(folder, count, expression, texts, behavior):
    path, theirs, message = load(folder, expression, behavior)
    if message:
        count.refused += 1
        return message
    found = differences(Encoding(path, theirs), texts) if theirs else []
    count.equal += not found
    if found:
        text, a, b = found[0]
        count.different.append("%s on %r: ours %s, theirs %s" % (expression[:200], text.decode()[:80], *around(a, b)))
    return ""


def all_sets(folder, characters):
    """Brackets of one set show each character that is in it: it is left out."""
    sets = ["\\" + c for c in ESCAPES] + ["[:%s%s:]" % (no, name) for name in POSIX for no in ("", "^")]
    sets += ["\\%s{%s}" % (p, name) for name in dict.fromkeys(CATEGORIES + PROPERTIES + SCRIPTS) for p in "pP"]
    for each in sets:
        count = Count()
        count.different = []
        for place in PLACES:
            if each[0] == "[" and "[" not in place.replace("[^[^%s", "["):
                continue
            walk(folder, count, place % each, [characters.encode()], "Removed")
        result(not count.different and count.equal >= (4 if each not in ("[:^ascii:]", "\\P{ASCII}") else 0), "%s: %d places equal, %d refused" % (each, count.equal, count.refused), *count.different[:2])


def cases(folder, characters):
    """(?i:c) on all that is equal to c in some way, each behind a mark of its own."""
    pairs = {}
    for c in characters:
        for d in {c.lower(), c.upper(), c.title(), c.casefold()} - {c}:
            if len(d) == 1 and d in characters:
                pairs.setdefault(c, set()).add(d)
                pairs.setdefault(d, set()).add(c)
    for c in list(pairs):
        for d in list(pairs[c]):
            pairs[c] |= pairs[d]
    several = {c for c in characters if len(c.casefold()) > 1}
    single = sorted(set(pairs) - several)
    count = Count()
    count.different = []
    for at in range(0, len(single), 250):
        some = single[at:at + 250]
        expression = "|".join("%s(?i:%s)" % (chr(0xe100 + i), c) for i, c in enumerate(some))
        text = "".join(chr(0xe100 + i) + d + "\n" for i, c in enumerate(some) for d in sorted(pairs[c] | {c}))
        walk(folder, count, expression, [text.encode()], "Removed")
    result(not count.different and not count.refused, "%d characters where case is ignored" % len(single), *count.different)
    count = Count()
    count.different = []
    for c in sorted(several):
        for form in ("(?i:%s)" % c, "(?i:[%s])" % c, "(?i:%s)" % c.casefold()):
            walk(folder, count, form, [(c + c.casefold()).encode()], "Isolated")
    result(not count.different and not count.equal, "%d characters that are several where case is ignored: refused" % len(several), *count.different)


def table(folder):
    for rows, wanted in ((EQUAL, True), (OTHERS, False)):
        for expression, texts in rows:
            count = Count()
            count.different = []
            message = "".join(walk(folder, count, expression, [t.encode() for t in texts], b) for b in ("Isolated", "Removed"))
            good = not count.different and (count.equal == 2 if wanted else count.refused == 2)
            result(good, "%r: %s" % (expression, "equal" if count.equal == 2 else "refused"), *count.different, *([message] if wanted or good is False else []))


def everything(folder):
    know = known()
    characters = "".join(chr(c) for c in range(0x110000) if know[c] and unicodedata.category(chr(c)) not in ("Cn", "Cs")
                         and not (0x3400 <= c < 0xd7a4 and c % 50 and not 0xa000 <= c < 0xac00) and not (0x20000 <= c and c % 50) and unicodedata.category(chr(c)) != "Co")
    table(folder)
    cases(folder, characters)
    all_sets(folder, characters)


with tempfile.TemporaryDirectory() as folder:
    check("expressions", lambda: everything(folder))
done()

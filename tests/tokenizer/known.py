"""The characters that Trine and Hugging Face's `tokenizers` both know."""
import subprocess
import unicodedata

from compare import DRIVER
from tokenizers import Regex, normalizers, pre_tokenizers


def known():
    """The characters that all sides have in their tables of Unicode: what PCRE2 takes for assigned, but for those whose class or
    decomposition `tokenizers` does not know. A byte for each code point."""
    driver = [DRIVER, "-", "assigned"]
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

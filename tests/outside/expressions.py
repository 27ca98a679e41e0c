"""Every construct of Oniguruma's regular expressions on every character, by Trine and by Hugging Face's `tokenizers`: equal ids, or
refused by name. A row of a table is walked in each place where it can stand: by itself, in a bracket, in a negated one, where case is
ignored.

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
from known import known
from random_grammar import POSIX, PROPERTIES
from tap import check, done, result
from tokenizers import Tokenizer

SCRIPTS = ["Arabic", "Armenian", "Bengali", "Common", "Cyrillic", "Devanagari", "Georgian", "Greek", "Han", "Hangul", "Hebrew", "Hiragana",
           "Inherited", "Katakana", "Latin", "Thai", "Tibetan", "Cherokee", "Coptic"]
CATEGORIES = sorted({unicodedata.category(chr(c)) for c in range(0x110000)} - {"Cn", "Cs"} | set("LMNPSZC") | {"LC"})
ESCAPES = list("sSwWdDhHnrtfvae")

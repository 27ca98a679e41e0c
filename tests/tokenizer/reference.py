#!/usr/bin/env python3
"""Writes tiny.json, tiny_words.json and reference.txt: ids and texts of small tokenizers by Hugging Face's `tokenizers`, for
stages.c, so that make check needs neither PyPI nor a network.

    pip install tokenizers==0.23.3
    python3 tests/tokenizer/reference.py        # rewrites the files in this folder

A line of reference.txt begins with its kind:

    text N HEX               text N in bytes, some of them no UTF-8
    replaced N COUNT         sequences of text N that become U+FFFD in Python
    stages NAME FILE IGNORE JSON    begins a tokenizer: the entries of JSON and the model of FILE; IGNORE: ignore_merges
    ids N IDS...             text N
    template N IDS...        with the template
    plain N IDS...           special tokens are text, where that makes a difference
    decode HEX IDS...        the text of ids
    skip HEX IDS...          without special tokens, where that makes a difference

The texts are those of corpus.py that are treated in special ways; random ones follow from a seed."""
import json
import os
import random
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import corpus
import makers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

# Written for this file.
SAMPLE = """\
The trains of the lower valley leave the station at the hour, and the station's clock says when. They've left already; it's
late, I'll wait, we're here, he'd rather walk. In the thousands of hours that the clock has counted, it never stood still.
def count(hours):
    return [hour for hour in hours if hour >= 10 and hour != 12]
Der Zug f\u00e4hrt um zehn Uhr, und die Uhr \u00fcber dem Gleis zeigt die Stunden. Les trains sont \u00e0 l'heure, d\u00e9j\u00e0 \u00e9t\u00e9.
\u041f\u043e\u0435\u0437\u0434 \u0438\u0434\u0451\u0442 \u043f\u043e \u0434\u043e\u043b\u0438\u043d\u0435, \u0438 \u0447\u0430\u0441\u044b \u043f\u043e\u043a\u0430\u0437\u044b\u0432\u0430\u044e\u0442 \u0447\u0430\u0441. \u03a4\u03bf \u03c4\u03c1\u03ad\u03bd\u03bf \u03c6\u03b5\u03cd\u03b3\u03b5\u03b9.
\u706b\u8f66\u5728\u5c71\u8c37\u91cc\uff0c\u706b\u8f66\u7ad9\u7684\u949f\u8bf4\u5f88\u665a\u4e86\u3002\u5217\u8eca\u306f\u8c37\u3092\u8d70\u308b\u3002\uae30\ucc28\ub294 \uace8\uc9dc\uae30\ub97c \uac04\ub2e4.
\u0930\u0947\u0932\u0917\u093e\u0921\u093c\u0940 \u0918\u093e\u091f\u0940 \u092e\u0947\u0902 \u0939\u0948\u0964 \u05d4\u05e8\u05db\u05d1\u05ea \u05d1\u05e2\u05de\u05e7. \u0627\u0644\u0642\u0637\u0627\u0631 \u0641\u064a \u0627\u0644\u0648\u0627\u062f\u064a \u0661\u0662\u0663.
10 20 100 2026 3.14 \U0001f682 \U0001f682\U0001f682 \U0001f469\u200d\U0001f52c cafe\u0301 caf\u00e9
"""
WORDS = ["", " ", "the station's clock", "  The trains,  they've left \n\n already;\tit's late ", "THE TRAIN'S WE'RE he'\u017f", "hours\r\n\r\n  def x ",
         "<|endoftext|>", "a <|endoftext|> b<|endoftext|>", "\u706b\u8f66\u7ad9 \u706b\u8f66", "\u0447\u0430\u0441 \u0447\u0430\u0441\u044b", "12345 \u0661\u0662\u0663\u0664 \u00bd\u2167",
         "cafe\u0301 caf\u00e9 cafe\u0301s", "\U0001f469\U0001f3fd\u200d\U0001f52c\U0001f1e9\U0001f1ea", "\u2581\u2581the \u2581", " \u2581 the", "<s>the</s> <unk>", "<0x41>\x00\x7f",
         "<|begin_of_text|>the<|end_of_text|>", "\u00a0the\u3000hours\u200b \u180e\u2028x\x85y\x1cz", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", " " * 20 + "x" + "\n" * 9,
         "99 thousands of thousands, 999", "\u212b\uac01\u1100\u1161\u11a8q\u0307\u0323", "camelCaseHTTPServer2Go", "x  y   z\n"]
FLAGGED = ["  <|plain|>  x", " <|left|> <|right|> x <|both|>  y", "<|plain|><|plain|>", "<|pla<|plain|><|plain", "lonely lonelyx xlonely _lonely lonely.",
           "a b  lone Lone", "<|norm|><|plain|>", "\u4e2d\u6587 \u4e2d\u6587\u5b57", "caf\u00e9 cafe\u0301 cafe\u0301s caf\u00e9s", "\u212bngstrom \u00c5ngstrom", "x\n\n\ny _x_ a_x_", "the th e\u0301"]


def tiny():
    """256 bytes, merges, words, and the end of a text."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(SAMPLE.splitlines(), trainers.BpeTrainer(vocab_size=460, show_progress=False,
                                                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(t.to_str())["model"]
    vocab = makers.with_unmerged(model["vocab"])
    vocab["<|endoftext|>"] = len(vocab)
    return makers.whole(makers.bpe(vocab, model["merges"]), [makers.added(len(vocab) - 1, "<|endoftext|>")], None,
                        makers.byte_level(True), None, makers.DECODE_BYTES)


def tiny_words():
    """Llama 2's first 259 tokens, characters, and merges; some characters of the sample are missing."""
    vocab, merges = makers.trained_words([SAMPLE.replace("\n", " ")] + SAMPLE.splitlines(), 440)
    lost = {c for c in vocab if len(c) == 1 and ord(c) > 0x900}
    merges = [pair for pair in merges if not lost & set("".join(pair))]
    rest = [token for token in vocab if token.startswith("<") or not lost & set(token)]
    vocab = {token: i for i, token in enumerate(rest)}
    return makers.whole(makers.bpe(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True),
                        [makers.added(i, token) for i, token in enumerate(rest[:3])], makers.LLAMA2_NORMALIZER, None,
                        makers.template([("<s>", 1)]), makers.DECODE_WORDS)


def texts():
    r = random.Random(3)
    c = corpus.Corpus(corpus.Characters(), seed=3)
    c.specials = ["<|endoftext|>", "<s>", "<|plain|>"]
    out = [text.encode() for text in WORDS + FLAGGED]
    out += [" ".join(corpus.APOSTROPHES).encode(), "a".join(corpus.SPACES).encode(), "".join(corpus.SPACES).encode()]
    out += [" ".join(corpus.NORMAL).encode(), "".join(corpus.NORMAL).encode()]
    out += [draw().encode() for draw in (c.smiley, c.marked, c.jamo, c.number) for _ in range(2)]
    out += ["".join(r.choices(corpus.TRICKY, k=12)).encode() for _ in range(12)]
    return out + corpus.ILL_FORMED + [b" ".join(corpus.ILL_FORMED), b"the" + b"".join(corpus.ILL_FORMED) + b"the"]


def replaced(text):
    """Python calls it once for each sequence that it replaces."""
    calls = []

    def count(error):
        calls.append(1)
        return "\ufffd", error.end

    import codecs
    codecs.register_error("count", count)
    assert text.decode(errors="count") == text.decode(errors="replace")
    return len(calls)


# For makers.constructs and makers.word_constructs, after all others so that their numbers stay.
CONSTRUCTS = ["\u20b2\u00b2 a\u00bd", "aaaaa a{,2} a{,}h{x}", "tttt the tH Te xX e", "a\nh t\nhe\r\nx\u2028", "bcdae 1,2 _x-", "k K \u212a s S \u017f t\u00df", "the\u00b2 12 a1 ,",
              " \n \n\n  \t e \n", "  a  \n a e  e \t\n", "\n\n\n", "the t hours", "<|x|>the <|x|> the", "\u00e9t\u00e9 the", "tt", "\u706b\u8f66 \u3000x", "as1", "<the>x <the> a<the>", "-xyz xyz, -xyz\nbxyz", "xe-", ",", "caf e-e-"]


def all_constructs(bytes_file, words_file):
    model = bytes_file["model"]
    for name, file in makers.constructs(model["vocab"], model["merges"]).items():
        yield name, "tiny.json", {**file, "model": model}
    model = words_file["model"]
    for name, file in makers.word_constructs(model["vocab"], model["merges"]).items():
        yield name, "tiny_words.json", {**file, "model": model}


def all_stages(bytes_file, words_file):
    """(name, file with the model, tokenizer.json)."""
    yield "tiny", "tiny.json", bytes_file
    model = bytes_file["model"]
    for name, file in makers.families(model["vocab"], model["merges"]).items():
        if name != "llama3":
            yield name, "tiny.json", {**file, "model": model}
    yield "ignore-merges", "tiny.json", {**bytes_file, "model": {**model, "ignore_merges": True}}
    yield "digits", "tiny.json", {**bytes_file, "pre_tokenizer": makers.pre({"type": "Digits", "individual_digits": True}, makers.byte_level(True))}
    for name, file in makers.stages(model["vocab"], model["merges"]).items():
        yield name, "tiny.json", {**file, "model": model, "added_tokens": bytes_file["added_tokens"]}
    model = words_file["model"]
    for name, file in makers.word_families(model["vocab"], model["merges"]).items():
        if not name.startswith("unknown"):
            yield name, "tiny_words.json", {**file, "model": model}


def line(out, kind, number, ids):
    out.append(" ".join([kind, str(number), *map(str, ids)]))


def decoded(out, tokenizer, ids):
    special = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    rest = [i for i in ids if i not in special]  # version 0.23.3 does not skip those with "normalized": true
    both = [tokenizer.decode(some, skip_special_tokens=False).encode().hex() for some in (ids, rest)]
    line(out, "decode", both[0] or "-", ids)
    if both[1] != both[0]:
        line(out, "skip", both[1] or "-", ids)


def cases(out, tokenizer, all, random_ids):
    vocabulary = tokenizer.get_vocab_size()
    for i, text in all.items():
        text = text.decode(errors="replace")
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        line(out, "ids", i, ids)
        if i % 9 == 0:
            line(out, "template", i, tokenizer.encode(text).ids)
            decoded(out, tokenizer, ids)
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        if plain != ids:
            line(out, "plain", i, plain)
    special = sorted(tokenizer.get_added_tokens_decoder())
    for _ in range(12):
        some = [random_ids.randrange(vocabulary), random_ids.randrange(60, 260), random_ids.randrange(60, 260), random_ids.choice(special)]
        decoded(out, tokenizer, random_ids.choices(some, k=random_ids.randint(1, 9)))


def save(name, tokenizer):
    """A line for each entry: the model is the last one, and its tokens and merges are on one line each."""
    def one(value):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
        entries = ['"%s":%s' % (key, one(value)) for key, value in tokenizer.items() if key != "model"]
        model = ['"%s":%s' % (key, one(value)) for key, value in tokenizer["model"].items()]
        file.write("{\n%s,\n\"model\":{\n%s}}\n" % (",\n".join(entries), ",\n".join(model)))


def chosen(name, count, r):
    """All texts for one tokenizer of each kind, else few."""
    if name in ("tiny", "llama2"):
        return range(count)
    if "added" in name:
        return range(len(WORDS) + len(FLAGGED) + 3)
    return sorted(r.sample(range(len(WORDS)), 8) + r.sample(range(len(WORDS), count), 4))


def main():
    files = {"tiny.json": tiny(), "tiny_words.json": tiny_words()}
    all, out, r = texts(), [], random.Random(4)
    for name, file in files.items():
        save(name, file)
    for i, text in enumerate(all):
        out += ["text %d %s" % (i, text.hex() or "-"), "replaced %d %d" % (i, replaced(text))]
    for name, base, file in all_stages(*files.values()):
        entries = {key: value for key, value in file.items() if key != "model"}
        out.append("stages %s %s %d %s" % (name, base, file["model"]["ignore_merges"], json.dumps(entries, separators=(",", ":"))))
        cases(out, Tokenizer.from_str(json.dumps(file)), {i: all[i] for i in chosen(name, len(all), r)}, r)
    for i, text in enumerate(CONSTRUCTS):
        out += ["text %d %s" % (len(all) + i, text.encode().hex()), "replaced %d 0" % (len(all) + i)]
    for name, base, file in all_constructs(*files.values()):
        entries = {key: value for key, value in file.items() if key != "model"}
        out.append("stages %s %s %d %s" % (name, base, file["model"]["ignore_merges"], json.dumps(entries, separators=(",", ":"))))
        tokenizer = Tokenizer.from_str(json.dumps(file))
        for i, text in enumerate(CONSTRUCTS):
            line(out, "ids", len(all) + i, tokenizer.encode(text, add_special_tokens=False).ids)
    with open(os.path.join(HERE, "reference.txt"), "w") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()

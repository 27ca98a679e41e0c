"""Comparing Trine's tokenizer with Hugging Face's `tokenizers`: the driver's side, and what differs made short. For the tests of
tests/outside."""
import os
import random
import struct
import subprocess
import tempfile
import time

import numpy as np
from tap import result

BUILD = os.environ.get("BUILD", "build")
DRIVER = os.path.join(BUILD, "tests/tokenizer/driver")
TEMPLATE, PLAIN = 1, 2  # encode_flags
REFUSED = 2**32 - 1
BATCH = 2 << 20  # bytes: the objects of `tokenizers` take a hundred times as much memory


# ---- Trine -----------------------------------------------------------------------------------------

class Records:
    """The driver's side: lists of elements as bytes, in files."""

    def __init__(self, path, mode, argument, records):
        self.input, self.output, self.errors = (tempfile.TemporaryFile() for _ in range(3))
        for record in records:
            width = 4 if mode == "decode" else 1
            data = np.asarray(record, np.int32).tobytes() if width == 4 else record
            self.input.write(struct.pack("<I", len(data) // width) + data)
        self.input.seek(0)
        self.width = 1 if mode == "decode" else 4
        self.process = subprocess.Popen([DRIVER, path, mode, str(argument)],
                                        stdin=self.input, stdout=self.output, stderr=self.errors)

    def __iter__(self):
        status = self.process.wait()
        for file in (self.output, self.errors):
            file.seek(0)
        self.said = self.errors.read().decode(errors="replace")
        data, at = self.output.read(), 0
        for file in (self.input, self.output, self.errors):
            file.close()
        if status:
            raise RuntimeError("driver: status %d\n%s" % (status, self.said))
        while at < len(data):
            (count,) = struct.unpack_from("<I", data, at)
            at += 4
            if count == REFUSED:
                yield None
                continue
            record = data[at:at + self.width * count]
            at += self.width * count
            yield np.frombuffer(record, np.int32).tolist() if self.width == 4 else record.decode()


# ---- Comparing -------------------------------------------------------------------------------------

class Encoding:
    """Texts to ids. The flags of the driver decide what `tokenizers` is asked for."""

    def __init__(self, path, tokenizer, flags=0, mode="encode", seed=0):
        self.path, self.tokenizer, self.flags, self.mode, self.seed = path, tokenizer, flags, mode, seed

    def ours(self, texts):
        return Records(self.path, self.mode, self.seed if self.mode == "parts" else self.flags, texts)

    def theirs(self, texts):
        self.tokenizer.encode_special_tokens = bool(self.flags & PLAIN)
        batch, size = [], 0
        for i, text in enumerate(texts):
            batch.append(text.decode(errors="replace"))
            size += len(text)
            if size > BATCH or i + 1 == len(texts):
                for encoding in self.tokenizer.encode_batch_fast(batch, add_special_tokens=bool(self.flags & TEMPLATE)):
                    yield encoding.ids
                batch, size = [], 0

    def show(self, text):
        return "%d bytes: %r" % (len(text), text.decode(errors="replace") if valid(text) else text)

    def parts(self, text):
        """A text is cut between characters, so that what fails stays a text if it was one."""
        return [c.encode() for c in text.decode()] if valid(text) else [text[i:i + 1] for i in range(len(text))]

    def join(self, parts):
        return b"".join(parts)


class Decoding:
    """Ids to texts."""

    def __init__(self, path, tokenizer, skip):
        self.path, self.tokenizer, self.skip = path, tokenizer, skip

    def ours(self, lists):
        return Records(self.path, "decode", int(self.skip), lists)

    def theirs(self, lists):
        if self.skip:  # version 0.23.3 leaves special tokens in that it knows in normalized form ("normalized": true)
            special = {i for i, token in self.tokenizer.get_added_tokens_decoder().items() if token.special}
            lists = [[i for i in ids if i not in special] for ids in lists]
        return iter(self.tokenizer.decode_batch(lists, skip_special_tokens=self.skip))

    def show(self, ids):
        return "ids %s: tokens %r" % (ids, [self.tokenizer.id_to_token(i) for i in ids])

    def parts(self, ids):
        return list(ids)

    def join(self, parts):
        return list(parts)


def valid(text):
    try:
        text.decode()
        return True
    except UnicodeDecodeError:
        return False


def differences(job, inputs):
    """[(input, ours, theirs)]."""
    ours = job.ours(inputs)  # starts
    try:
        theirs = list(job.theirs(inputs))
    except BaseException as error:  # pyo3's PanicException is no Exception
        raise RuntimeError("tokenizers: %s" % error)
    mine = list(ours)
    if len(mine) != len(theirs):
        raise RuntimeError("%d records instead of %d\n%s" % (len(mine), len(theirs), ours.said))
    return [(i, a, b) for i, a, b in zip(inputs, mine, theirs) if a != b]


def shrink(job, input, seconds=10):
    """Leaves out all that a difference does not need."""
    parts, step, until = job.parts(input), None, time.monotonic() + seconds
    step = max(len(parts) // 2, 1)
    while step and time.monotonic() < until:
        tries = [parts[:at] + parts[at + step:] for at in range(0, len(parts), step)]
        if len(tries) > 64:
            tries = random.sample(tries, 64)
        failed = differences(job, [job.join(t) for t in tries if len(t) < len(parts)])
        if failed:
            parts = job.parts(min((input for input, _, _ in failed), key=len))
            step = min(step, max(len(parts) // 2, 1))
        else:
            step //= 2
    return job.join(parts)


def around(a, b):
    """Where two lists begin to differ."""
    if a is None or b is None:
        return a, b
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    first = max(at - 5, 0)
    return "[%d:] %r" % (first, a[first:at + 15]), "[%d:] %r" % (first, b[first:at + 15])


def compare(name, job, inputs):
    since = time.monotonic()
    found = differences(job, inputs)
    elements = sum(map(len, inputs))
    name = "%s: %d inputs of %d elements, %.1f s" % (name, len(inputs), elements, time.monotonic() - since)
    if not found:
        return result(len(inputs) > 0, name)
    input = min((input for input, _, _ in found), key=len)
    short = shrink(job, input)
    again = differences(job, [short]) or differences(job, [input]) or [found[0]]
    input, mine, theirs = again[0]
    mine, theirs = around(mine, theirs)
    result(False, name, "%d inputs differ; the shortest:" % len(found), job.show(input), "ours    %s" % (mine,), "theirs  %s" % (theirs,))

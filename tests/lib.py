"""Shared by the tests in Python, which compare Trine with transformers: TAP (tap.py), Trine's programs, logits of both. Run from
the root of the repository with the build under $BUILD."""
import json
import os
import struct
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
sys.dont_write_bytecode = True

import numpy as np
import torch
from tap import check, done, keep_largest, result
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.set_num_threads(1)

BUILD = os.environ.get("BUILD", "build")


# ---- Trine -----------------------------------------------------------------------------------------

def run(*command, ranks=0):
    """Exit status, standard output, standard error. Both go into files: the process that watches mpirun keeps a pipe
    open until mpirun has been waited for, so that reading a pipe to its end before that would hang."""
    words = [os.path.join(BUILD, command[0]), *map(str, command[1:])]
    if ranks > 1:
        words = ["tools/mpirun.sh", "-np", str(ranks)] + words
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=300)
        out.seek(0)
        err.seek(0)
        return done.returncode, out.read(), err.read()


def call(*command, ranks=0):
    status, out, err = run(*command, ranks=ranks)
    if status:
        raise RuntimeError("%s: status %d\n%s%s" % (" ".join(map(str, command)), status, out, err))
    return out


def ours(folder, tp=1, pp=1, ids=None):
    """Logits of these ids, by default of formula_ids, in float64."""
    with tempfile.NamedTemporaryFile() as file:
        words = [] if ids is None else [" ".join(map(str, ids))]
        call("tests/ckpt/logits_driver", folder, file.name, tp, pp, *words, ranks=tp * pp)
        rows, columns = np.fromfile(file, np.int32, 2)
        return torch.from_numpy(np.fromfile(file, np.float32).reshape(rows, columns)).double()


def write_tokens(path, ids, vocabulary):
    with open(path, "wb") as out:
        out.write(struct.pack("<256i", 20240520, 1, len(ids), vocabulary, *[0] * 252))
        out.write(np.asarray(ids).astype("<u2").tobytes())


# ---- transformers ----------------------------------------------------------------------------------

def load_strictly(kind, folder):
    """Every tensor must be found, and none may be left over: from_pretrained would only print a warning."""
    model, said = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    complaints = {key: value for key, value in said.items() if value}
    if complaints:
        raise RuntimeError("from_pretrained(%s): %s" % (folder, complaints))
    return model.eval()


def formula_ids(positions, vocabulary):
    """The ids of tests/ckpt/logits_driver.c."""
    return [(7 * i + i * i) % vocabulary for i in range(min(positions, 256))]


def compare(way, name, mine, other, tolerance):
    if mine.shape != other.shape:
        return result(False, name, "shapes %s, %s" % (mine.shape, other.shape))
    off = (mine - other).abs().max().item()
    keep_largest(way, off)
    result(off <= tolerance, "%s: largest difference %.1e of %.1f" % (name, off, other.abs().max()))


# ---- Folders ---------------------------------------------------------------------------------------

def config_of(folder):
    with open(os.path.join(folder, "config.json")) as file:
        return json.load(file)


def edit(folder, **entries):
    """Sets entries of config.json; None removes one."""
    config = config_of(folder)
    for key, value in entries.items():
        config[key] = value
        if value is None:
            del config[key]
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)

"""TensorBoard's own reader (PyPI's tensorboard) on the event files of --tensorboard: a run on four ranks that was killed
after step 50 goes on from its checkpoint of step 40, on two ranks under another layout. Each number is there for each
step, in order, once, and equals the line of --log, in fp32.
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path[:0] = ["tests"]

from tap import check, done, result
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as PluginAccumulator

BUILD = os.environ.get("BUILD", "build")
SIZES = {"scalars": 0, "tensors": 0}  # all of them, not a sample
STEPS = list(range(1, 81))


def kill_all(dir):
    """All processes of the job: mpirun's death alone does not end its ranks at once."""
    while True:
        pids = subprocess.run(["pgrep", "-f", dir], stdout=subprocess.PIPE).stdout.split()
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


def train(dir, ranks, *layout, until=None):
    """Runs it; until(): ends it by SIGKILL as soon as that is true."""
    words = ["tools/mpirun.sh", "-np", str(ranks), os.path.join(BUILD, "train_gpt")]
    words += "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --threads 1 --timeout 60".split()
    words += "--global-batch-size 4 --train-iters 80 --save-interval 20 --eval-interval 10 --eval-iters 1".split()
    for option, name in ("data-path", "text"), ("val-data-path", "text"), ("save", "run"), ("log", "log"), ("tensorboard", "board"):
        words += ["--" + option, os.path.join(dir, name)]
    with open(os.path.join(dir, "said"), "w") as out:
        process = subprocess.Popen(words + list(layout), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        deadline = time.monotonic() + 300
        while process.poll() is None and not (until and until()):
            if time.monotonic() > deadline:
                break
            time.sleep(0.001)
        if process.poll() is None:
            threading.Thread(target=process.wait).start()  # no zombie
            kill_all(dir)
        process.wait()
    return process.returncode


def lines(dir):
    with open(os.path.join(dir, "log")) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def last_step(dir):
    try:
        return lines(dir)[-1]["step"]
    except (OSError, IndexError, ValueError):
        return 0


def fp32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def loaded(kind, *path):
    events = kind(os.path.join(*path), size_guidance=dict(SIZES))
    events.Reload()
    return events


def compare(dir):
    log, events = lines(dir), loaded(EventAccumulator, dir, "board")
    steps = [line for line in log if "loss" in line]
    names = [name for name in steps[0] if name != "step"]
    result([line["step"] for line in steps] == STEPS, "the log has each step")
    result(sorted(events.Tags()["scalars"]) == sorted(names), "a scalar for each number of a line: " + ", ".join(names))
    for name in names:
        got = [(event.step, event.value) for event in events.Scalars(name)]
        result(got == [(line["step"], fp32(line[name])) for line in steps], name + ": all steps in order, none twice", got)
    plugins = loaded(PluginAccumulator, dir, "board")
    got = [event.step for event in plugins.Tensors("loss")]
    result(got == STEPS, "the same as TensorBoard itself reads it", got)
    val = [(line["step"], fp32(line["val_loss"])) for line in log if "val_loss" in line]
    got = [(event.step, event.value) for event in loaded(EventAccumulator, dir, "board", "validation").Scalars("loss")]
    result(got == val and [step for step, _ in got] == list(range(0, 81, 10)), "validation", got)
    texts = plugins.Tensors("configuration")
    said = [text.tensor_proto.string_val[0].decode() for text in texts]
    result([text.step for text in texts] == [0, 41] and "| dp | 4 |" in said[0] and "| dp | 1 |" in said[1] and
           plugins.SummaryMetadata("configuration").plugin_data.plugin_name == "text",
           "the configuration of both layouts, as text", *said)


def samples(dir):
    for step in 80, 40:  # in any order, also of a step before
        words = [os.path.join(BUILD, "trine-generate"), os.path.join(dir, "run", "step-%d" % step), "--temperature", "0"]
        words += ["--prompt", "a prompt, ", "--tokens", "5", "--tensorboard", os.path.join(dir, "board")]
        subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    texts = loaded(PluginAccumulator, dir, "board", "samples").Tensors("sample")
    said = [text.tensor_proto.string_val[0].decode() for text in texts]
    result(sorted(text.step for text in texts) == [40, 80] and all("    a prompt, " in text for text in said),
           "what the model writes at two of its checkpoints", *said)


with tempfile.TemporaryDirectory() as dir:
    with open(os.path.join(dir, "text"), "wb") as out:
        out.write(struct.pack("<256i", 20240520, 1, 4096, 256, *[0] * 252))
        out.write(struct.pack("<4096H", *((7 * i + i * i) % 256 for i in range(4096))))
    train(dir, 4, "--dp", "4", "--zero", "1", until=lambda: last_step(dir) >= 50)
    killed = last_step(dir)
    for step in 60, 80:  # the run may have been faster than its killer
        shutil.rmtree(os.path.join(dir, "run", "step-%d" % step), ignore_errors=True)
    result(killed >= 50 and os.path.exists(os.path.join(dir, "run", "step-40")), "killed after step %d" % killed)
    status = train(dir, 2, "--tp", "2", "--load", "auto")
    result(status == 0, "resumed", *([] if status == 0 else open(os.path.join(dir, "said"))))
    check("event files", lambda: compare(dir))
    check("samples", lambda: samples(dir))
done()

"""A training step of Trine beside the same step of PyTorch, compiled by torch.compile, alternately on this machine:

    build/venv-outside/bin/python bench/pytorch.py [--model smollm2-135m] [--rounds 3] [--steps 3] [--device cuda]

Model, micro-batch (4 samples of 512 tokens; on a GPU 16 of 1024), threads, AdamW and clipping are the same; tokens
are random. In PyTorch the model is transformers', with its fused attention (sdpa), and torch.optim.AdamW(fused=True).
In bf16 PyTorch is measured twice: under torch.autocast with weights in fp32, as Trine keeps its masters, and with all
weights in bf16, which Trine has no equivalent of. Each round is some steps of each; the ratio is that of the medians.
The limit, in the same run, is the time of Trine's matmuls alone, by bench/step."""

import argparse
import array
import json
import os
import statistics
import subprocess
import tempfile
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

BUILD = os.environ.get("BUILD", "build")

MODELS = {
    "gpt2": lambda length: GPT2LMHeadModel(GPT2Config(
        n_positions=length, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, attn_implementation="sdpa")),
    "smollm2-135m": lambda length: LlamaForCausalLM(LlamaConfig(
        num_hidden_layers=30, hidden_size=576, num_attention_heads=9, num_key_value_heads=3, intermediate_size=1536,
        vocab_size=49152, max_position_embeddings=length, tie_word_embeddings=True, attn_implementation="sdpa",
        rope_parameters={"rope_type": "default", "rope_theta": 1e5})),
}


class Theirs:
    def __init__(self, device, name, autocast, weights, batch, length):
        torch.manual_seed(1)
        self.device = device
        self.model = MODELS[name](length).to(device, weights)
        self.model.config.use_cache = False
        self.autocast, self.shape = autocast, (batch, length)
        self.compiled = torch.compile(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def step(self):
        ids = torch.randint(self.model.config.vocab_size, self.shape).to(self.device)
        if self.device == "cuda":
            torch.cuda.synchronize()
        since = time.perf_counter()
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            loss = self.compiled(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss.item()
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - since


def tokens_file(path, vocabulary, count):
    """llm.c's format (docs/formats.md)."""
    ids = array.array("H", torch.randint(vocabulary, (count,)).tolist())
    with open(path, "wb") as file:
        array.array("i", [20240520, 1, count] + [0] * 253).tofile(file)
        ids.tofile(file)


class Ours:
    WARM = 2

    def __init__(self, device, name, flag, dir, threads, batch, length):
        data, self.log = os.path.join(dir, "tokens.bin"), os.path.join(dir, "log.jsonl")
        tokens_file(data, 49152, 64 * batch * length)
        self.command = [os.path.join(BUILD, "train_gpt"), "--model", name, "--seq-length", length, "--micro-batch-size",
                        batch, "--global-batch-size", batch, "--threads", threads, "--device", device, "--data-path",
                        data, "--log", self.log, "--log-interval", 1, *flag]

    def steps(self, count):
        if os.path.exists(self.log):
            os.remove(self.log)
        subprocess.run(list(map(str, self.command + ["--train-iters", self.WARM + count])), check=True,
                       stdout=subprocess.DEVNULL)
        with open(self.log) as file:
            seconds = [line["seconds"] for line in map(json.loads, file) if line.get("seconds")]
        return seconds[-count:]


def matmuls(device, name, kind, dir, threads, batch, length, reps):
    out = os.path.join(dir, "step.json")
    command = [os.path.join(BUILD, "bench", "step"), "--model", name, "--seq-length", length, "--micro-batch-size", batch,
               "--threads", threads, "--device", device, "--type", kind, "--reps", reps, "--json", out]
    if device == "cuda":
        command += ["--micro-batches", 1, "--cuda-library", os.path.join(BUILD, "libtrine_cuda.so")]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    with open(out) as file:
        step = json.load(file)["tables"]["steps"][0]
        return step["matmul_seconds"] if device == "cpu" else step["ratio"] * step["step_seconds"]


def main():
    options = argparse.ArgumentParser(description="A training step beside PyTorch's.")
    options.add_argument("--model", default="smollm2-135m", choices=list(MODELS))
    options.add_argument("--type", choices=["fp32", "bf16"])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--steps", type=int, default=3)
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options.add_argument("--batch", type=int)
    options.add_argument("--length", type=int)
    o = options.parse_args()
    o.batch = o.batch or (16 if o.device == "cuda" else 4)
    o.length = o.length or (1024 if o.device == "cuda" else 512)
    torch.set_num_threads(o.threads)
    where = torch.cuda.get_device_name() if o.device == "cuda" else "%d threads" % o.threads
    print("%s, B %d, T %d, %s, PyTorch %s; medians of %d steps" % (
        o.model, o.batch, o.length, where, torch.__version__, o.rounds * o.steps), flush=True)
    for kind in [o.type] if o.type else ["fp32", "bf16"]:
        ways = [("compiled, fp32", False, torch.float32)] if kind == "fp32" else [
            ("compiled, autocast", True, torch.float32), ("compiled, weights in bf16", False, torch.bfloat16)]
        theirs = {name: Theirs(o.device, o.model, autocast, weights, o.batch, o.length) for name, autocast, weights in ways}
        samples = {name: [] for name in ["Trine", *theirs]}
        with tempfile.TemporaryDirectory() as dir:
            ours = Ours(o.device, o.model, ["--bf16"] if kind == "bf16" else [], dir, o.threads, o.batch, o.length)
            for name, other in theirs.items():
                print("%s  %-26s compiled in %.0f s" % (kind, name, other.step() + other.step()), flush=True)
            for _ in range(o.rounds):
                samples["Trine"] += ours.steps(o.steps)
                for name, other in theirs.items():
                    samples[name] += [other.step() for _ in range(o.steps)]
            samples["Trine's matmuls alone"] = [
                matmuls(o.device, o.model, kind, dir, o.threads, o.batch, o.length, o.steps)]
        medians = {name: statistics.median(times) for name, times in samples.items()}
        for name, median in medians.items():
            print("%s  %-26s %7.3f s, %7.1f tokens/s, %.2f of Trine's step" % (
                kind, name, median, o.batch * o.length / median, median / medians["Trine"]))


if __name__ == "__main__":
    main()

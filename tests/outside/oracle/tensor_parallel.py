"""Tensor parallelism of DTensor on all ranks, with and without sequence parallelism.
Usage: torchrun --nproc-per-node 2 tensor_parallel.py START TOKENS OUT [CASE...]; writes OUT/CASE."""
import os
import sys

import torch
import torch.distributed as dist
from fingerprint import Fingerprint
from llama import ADAMW, STEPS, Llama, loss_of, samples
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)


class Unreduced(RowwiseParallel):
    """A fault: the output is each rank's own part of the sum."""

    @staticmethod
    def _prepare_output_fn(layouts, local, module, outputs, mesh):
        return DTensor.from_local(outputs.to_local(), mesh, layouts, run_check=False).to_local()


def split(model, case):
    """Returns how to gather an output."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    rows = Shard(1) if case.startswith("sequence") else Replicate()
    whole = PrepareModuleInput(input_layouts=rows, desired_input_layouts=Replicate())
    norm = SequenceParallel() if case.startswith("sequence") else None
    plan = {"embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=rows), "norm": norm,
            "lm_head": ColwiseParallel(input_layouts=rows, output_layouts=Replicate())}
    for i in model.layers:
        plan.update({
            f"layers.{i}.input_layernorm": norm, f"layers.{i}.post_attention_layernorm": norm,
            f"layers.{i}.self_attn": whole, f"layers.{i}.mlp": whole,
            **{f"layers.{i}.self_attn.{x}_proj": ColwiseParallel() for x in "qkv"},
            **{f"layers.{i}.mlp.{x}_proj": ColwiseParallel() for x in ("gate", "up")},
            f"layers.{i}.self_attn.o_proj": RowwiseParallel(output_layouts=rows),
            f"layers.{i}.mlp.down_proj": RowwiseParallel(output_layouts=rows)})
    if case == "unreduced":
        plan["layers.1.mlp.down_proj"] = Unreduced()
    parallelize_module(model, mesh, {name: style for name, style in plan.items() if style})
    return lambda output: DTensor.from_local(output, mesh, [rows], run_check=False).full_tensor()


def own_part(p):
    """A fault: this rank's part of a gradient is taken for the sum."""
    p.grad = DTensor.from_local(p.grad.to_local(), p.device_mesh, [Replicate()], run_check=False)


def train(start, tokens, case, path):
    model = Llama(start)
    gather = split(model, case)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    prints = Fingerprint()
    model.watch(prints, 0, gather)
    for prints.step in range(1, STEPS + 1):
        x, y = samples(tokens, prints.step)
        loss = loss_of(model(x), y)
        loss.backward()
        if case == "sequence-norm":
            own_part(model.layers["2"].post_attention_layernorm.weight)
        prints.item("the loss", loss)
        prints.tensors(model)
        optimizer.step()
        optimizer.zero_grad()
        prints.parameters(model, optimizer)
    prints.write(path)


dist.init_process_group("gloo")
for case in sys.argv[4:] or ["right"]:
    train(sys.argv[1], sys.argv[2], case, os.path.join(sys.argv[3], case))
dist.destroy_process_group()

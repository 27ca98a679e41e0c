"""Schedules of torch.distributed.pipelining on two stages; with more ranks than two, each stage is FSDP2 over dp.
Usage: torchrun --nproc-per-node 2 pipeline.py START TOKENS OUT CASE...; writes OUT/CASE. A case is SCHEDULE,
SCHEDULE-reshard (FSDP2 gathers parameters again for the backward pass) or SCHEDULE-FAULT; the schedule "file" is read
from OUT/schedule.csv, and "zb" writes OUT/zb.csv."""
import os
import sys

import torch
import torch.distributed as dist
from fingerprint import Fingerprint
from llama import ADAMW, BATCH, LENGTH, STEPS, Llama, loss_of, mean_over, samples
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B,
                                                    ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble,
                                                    _PipelineScheduleRuntime)

MICROBATCHES = 4
SCHEDULES = {"gpipe": (ScheduleGPipe, "one"), "1f1b": (Schedule1F1B, "one"),
             "interleaved": (ScheduleInterleaved1F1B, "loop"), "zb": (ScheduleInterleavedZeroBubble, "loop"),
             "zbv": (ScheduleZBVZeroBubble, "v"), "file": (_PipelineScheduleRuntime, "v")}


def chunks(places, stage):
    """Which parts of the model a stage has, and of how many."""
    return {"one": [stage], "loop": [stage, stage + 2], "v": [stage, 3 - stage]}[places], 2 if places == "one" else 4


def make_schedule(kind, parts, numbers, count, mesh, samples_each, scale, out):
    def between(n):
        """What stage n - 1 sends: told, so that no forward pass is made to find out, which the watch would see."""
        ids = torch.zeros(samples_each, LENGTH, dtype=torch.long)
        return ids if n == 0 else torch.zeros(*ids.shape, 64 if n < count else 256, requires_grad=True)

    stages = [PipelineStage(part, n, count, torch.device("cpu"), input_args=between(n), output_args=between(n + 1),
                            group=mesh.get_group("pp")) for part, n in zip(parts, numbers)]
    single = kind in (ScheduleGPipe, Schedule1F1B)
    schedule = kind(stages[0] if single else stages, MICROBATCHES, loss_fn=loss_of, scale_grads=scale)
    if kind is _PipelineScheduleRuntime:
        schedule._load_csv(os.path.join(out, "schedule.csv"))
    return schedule


def update_early(parts, optimizer):
    """A fault: a stage updates before its last backward pass."""
    left = {p: MICROBATCHES - 1 for part in parts for p in part.parameters()}

    def count(p):
        left[p] -= 1
        if not any(left.values()):
            with torch.autograd._unsafe_preserve_version_counter(tuple(left)):
                optimizer.step()

    for p in left:
        p.register_post_accumulate_grad_hook(count)


def train(start, tokens, out, case):
    name, _, fault = case.partition("-")
    kind, places = SCHEDULES[name]
    dp = dist.get_world_size() // 2
    mesh = init_device_mesh("cpu", (2, dp), mesh_dim_names=("pp", "dp"))
    stage, each = mesh.get_local_rank("pp"), BATCH // dp
    first = each * mesh.get_local_rank("dp")
    numbers, count = chunks(places, stage)
    parts = [Llama(start, n, count) for n in numbers]
    prints = Fingerprint()
    for part in parts:
        part.watch(prints, first)
        if dp > 1:
            for layer in part.layers.values():
                fully_shard(layer, mesh=mesh["dp"], reshard_after_forward=fault == "reshard")
            fully_shard(part, mesh=mesh["dp"], reshard_after_forward=fault == "reshard")
    optimizer = torch.optim.AdamW([p for part in parts for p in part.parameters()], **ADAMW)
    if fault == "early" and stage == 1:
        update_early(parts, optimizer)
    schedule = make_schedule(kind, parts, numbers, count, mesh, each // MICROBATCHES, fault != "unscaled", out)
    for prints.step in range(1, STEPS + 1):
        x, y = (t[first:first + each] for t in samples(tokens, prints.step))
        if fault == "twice":  # the second micro-batch again in place of the third
            x = torch.cat((x[:4], x[2:4], x[6:]))
        losses = []
        has_first, has_last = 0 in numbers, count - 1 in numbers
        schedule.step(*([x] if has_first else []), **(dict(target=y, losses=losses) if has_last else {}))
        if has_last:
            prints.item("the loss", mean_over(torch.stack(losses).mean(), mesh.get_group("dp")))
        for part in parts:
            prints.tensors(part)
        if not (fault == "early" and stage == 1):
            optimizer.step()
        optimizer.zero_grad()
        for part in parts:
            prints.parameters(part, optimizer)
    prints.write(os.path.join(out, case))
    if name == "zb" and dist.get_rank() == 0 and not fault:
        schedule._dump_csv(os.path.join(out, "zb.csv"), format="compute_only")


dist.init_process_group("gloo")
for case in sys.argv[4:]:
    train(*sys.argv[1:4], case)
dist.destroy_process_group()

"""FSDP2 on all ranks. Usage: torchrun --nproc-per-node 2 fsdp2.py START TOKENS OUT [CASE...]; writes OUT/CASE."""
import os
import sys

import torch
import torch.distributed as dist
from fingerprint import Fingerprint
from llama import ADAMW, BATCH, STEPS, Llama, loss_of, mean_over, samples
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def shard(model, case):
    """All cases but "right" have a fault."""
    ranks = dist.get_world_size()
    mesh, ignored = init_device_mesh("cpu", (ranks,)), set()
    if case == "half":  # sums over half of the ranks
        mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("all", "half"))["half"]
    if case == "ignored":  # a parameter that nobody sums
        ignored = {model.layers["2"].mlp.down_proj.weight}
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh, ignored_params=ignored)
    fully_shard(model, mesh=mesh, ignored_params=ignored)
    if case == "sum":  # not the mean, in one layer
        model.layers["1"].set_force_sum_reduction_for_comms(True)
        model.layers["1"].set_gradient_divide_factor(1.0)


def train(start, tokens, case, path):
    each = BATCH // dist.get_world_size()
    first = each * dist.get_rank()
    model = Llama(start)
    shard(model, case)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    prints = Fingerprint()
    model.watch(prints, first)
    for prints.step in range(1, STEPS + 1):
        x, y = (t[first:first + each] for t in samples(tokens, prints.step))
        loss = loss_of(model(x), y)
        loss.backward()
        prints.item("the loss", mean_over(loss))
        prints.tensors(model)
        optimizer.step()
        optimizer.zero_grad()
        prints.parameters(model, optimizer)
    prints.write(path)


dist.init_process_group("gloo")
for case in sys.argv[4:] or ["right"]:
    train(sys.argv[1], sys.argv[2], case, os.path.join(sys.argv[3], case))
dist.destroy_process_group()

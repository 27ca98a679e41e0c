"""Writes a fingerprint file, which trine-verify --against compares with Trine (docs/oracle.md). To be copied: it needs
torch alone, and a process group if there are several ranks. Every rank makes the same calls."""
import json
import math

import torch
import torch.distributed as dist


class Fingerprint:
    def __init__(self):
        self.step, self.lines = 1, []

    def item(self, name, tensor):
        """One tensor of this step. A DTensor is gathered; what a rank has a part of must be gathered before."""
        tensor = tensor.detach()
        tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        flat = tensor.float().cpu().flatten()
        stride = max((flat.numel() // 64 - 1) | 1, 1)  # odd, so that samples are not of one column
        numbers = [x if math.isfinite(x) else None for x in [flat.double().norm().item(), *flat[::stride][:64].tolist()]]
        self.lines.append(json.dumps({"step": self.step, "item": name, "count": flat.numel(), "norm": numbers[0],
                                      "samples": numbers[1:]}))

    def tensors(self, model, what="the gradient of ", of=lambda p: p.grad):
        """Of every parameter. Trine has Hugging Face's names, without "model." or "transformer.": edit what is called
        otherwise. Its matrices are (out, in), as nn.Linear's; GPT-2's Conv1D has (in, out)."""
        turned = {id(m.weight) for m in model.modules() if type(m).__name__ == "Conv1D"}
        for name, p in model.named_parameters():
            value = of(p)  # None: a gradient that nobody has made, and its moments
            value = torch.zeros_like(p) if value is None else value
            name = name.removeprefix("model.").removeprefix("transformer.")
            self.item(what + name, value.T if id(p) in turned else value)

    def parameters(self, model, optimizer):
        """After the optimizer's step."""
        self.tensors(model, "", lambda p: p)
        self.tensors(model, "the first moment of ", lambda p: optimizer.state[p].get("exp_avg"))
        self.tensors(model, "the second moment of ", lambda p: optimizer.state[p].get("exp_avg_sq"))

    def watch(self, module, name, first=0, gather=lambda output: output):
        """What `module` returns, (samples, positions, width), by sample: those of a step in order, from `first` on.
        name: "embedding" or "layer 3". gather: where a rank has a part of the output."""
        seen = {}

        def hook(module, arguments, output):
            for sample in gather(output):
                self.item("the output of %s, sample %d" % (name, seen.setdefault(self.step, first)), sample)
                seen[self.step] += 1

        module.register_forward_hook(hook)

    def write(self, path):
        """Rank 0 writes the lines of all ranks. Equal lines are one; copies of a tensor that differ are two, which
        trine-verify reports."""
        all_lines = [self.lines]
        if dist.is_initialized():
            all_lines = [None] * dist.get_world_size()
            dist.all_gather_object(all_lines, self.lines)
        if not dist.is_initialized() or dist.get_rank() == 0:
            with open(path, "w") as out:
                for line in dict.fromkeys(['{"format": "trine-fingerprint 1"}'] + sum(all_lines, [])):
                    print(line, file=out)

"""Training steps of transformers' models by PyTorch's AdamW in float64, and of Trine, for tests that compare the two."""
import json
import os
import tempfile

import torch
from lib import call, keep_largest, load_strictly, result
from reference import decays, learning_rate
from torch.overrides import TorchFunctionMode

# Relative, of a loss or a gradient norm in fp32 after at most 12 steps: a step of fp32 is 1.2e-7, the errors of the
# terms average, and those of the weights do not grow in so few steps.
FP32 = 1e-6


# ---- transformers ----------------------------------------------------------------------------------

class Wide(TorchFunctionMode):
    """transformers computes norms and rotary positions in fp32 in every model; here, in float64."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        def wide(x):
            return torch.float64 if x is torch.float32 else x

        if function is torch.Tensor.float:
            function = torch.Tensor.double
        return function(*map(wide, args), **{key: wide(x) for key, x in (kwargs or {}).items()})


def wide_model(kind, folder):
    model = load_strictly(kind, folder).double()
    if hasattr(model.base_model, "rotary_emb"):
        with Wide():
            model.base_model.rotary_emb = type(model.base_model.rotary_emb)(model.config)
    return model


def new_model(kind, config):
    """In a new model gains and biases are 1 and 0: an exchange of two would not show."""
    torch.manual_seed(7)
    model = kind(config)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 1:
                p.add_(torch.randn_like(p) * 0.2)
    return model


def adamw(model, run):
    """run: Trine's options."""
    groups = [dict(params=[p for n, p in model.named_parameters() if decays(n.removeprefix("transformer."), p) == decayed],
                   weight_decay=run["weight_decay"] * decayed) for decayed in (True, False)]
    return torch.optim.AdamW(groups, lr=run["lr"], betas=(run["adam_beta1"], run["adam_beta2"]), eps=run["adam_eps"])


def update(model, optimizer, run, step):
    """From gradients that are there, which are zero after it. The gradient norm."""
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), run["clip_grad"])
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(run, step)
    optimizer.step()
    optimizer.zero_grad()
    return norm.item()


# ---- Trine -----------------------------------------------------------------------------------------

def options(run):
    return [word for key, value in run.items() for word in ("--" + key.replace("_", "-"), repr(value))]


def train_ours(folder, data, steps, words, ranks):
    """The log's lines of steps."""
    with tempfile.TemporaryDirectory() as dir:
        log = os.path.join(dir, "log")
        call("train_gpt", "--load", folder, "--data-path", data, "--train-iters", steps, "--threads", 1, "--log", log,
             *words, ranks=ranks)
        with open(log) as file:
            return [json.loads(line) for line in file]


def compare_steps(name, kind, mine, want, tolerance):
    """mine: lines of a log. want: (loss, gradient norm) of each step."""
    mine = [(line["loss"], line["grad_norm"]) for line in mine]
    off = [max(abs(m[i] - w[i]) / w[i] for m, w in zip(mine, want)) for i in (0, 1)]
    for what, x in zip(("losses", "gradient norms"), off):
        keep_largest("%s in %s" % (what, kind), x)
    good = len(mine) == len(want) and max(off) <= tolerance
    result(good, "training: %s: largest relative difference %.1e of losses, %.1e of norms" % (name, *off),
           *([] if good else zip(mine, want)))

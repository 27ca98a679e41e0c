"""A small Llama in plain PyTorch, with Hugging Face's names of tensors but for "model.", its weights from a checkpoint
of Trine, and the samples of a step as trine-verify --no-shuffle takes them."""
import json
import os

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
STEPS, BATCH, LENGTH = 3, 8, 16
ADAMW = dict(lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)  # as in tests/outside/oracle.py


def rotate(x):
    """Rotary positions of (B, T, heads, D)."""
    B, T, H, D = x.shape
    angles = torch.arange(T)[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
    cos, sin = (f(angles).repeat(1, 2)[:, None] for f in (torch.cos, torch.sin))
    return x * cos + torch.cat((-x[..., D // 2:], x[..., :D // 2]), -1) * sin


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.width = c["hidden_size"] // c["num_attention_heads"]
        queries, keys = c["hidden_size"], c["num_key_value_heads"] * self.width
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(c["hidden_size"], n, False) for n in (queries, keys, keys))
        self.o_proj = nn.Linear(queries, c["hidden_size"], False)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (-1, self.width)) for y in (self.q_proj(x), self.k_proj(x), self.v_proj(x)))
        q, k, v = (y.transpose(1, 2) for y in (rotate(q), rotate(k), v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(c["hidden_size"], c["intermediate_size"], False) for _ in range(2))
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (nn.RMSNorm(c["hidden_size"], c["rms_norm_eps"])
                                                               for _ in range(2))
        self.self_attn, self.mlp = Attention(c), MLP(c)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Part `part` of `parts` of the layers; the first has the embedding, the last the head."""

    def __init__(self, folder, part=0, parts=1):
        super().__init__()
        with open(os.path.join(folder, "config.json")) as file:
            c = json.load(file)
        n = c["num_hidden_layers"]
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"]) if part == 0 else None
        self.layers = nn.ModuleDict({str(i): Layer(c) for i in range(n * part // parts, n * (part + 1) // parts)})
        last = part == parts - 1
        self.norm = nn.RMSNorm(c["hidden_size"], c["rms_norm_eps"]) if last else None
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], False) if last else None
        weights = load_file(os.path.join(folder, "model.safetensors"))
        weights = {name.removeprefix("model."): w for name, w in weights.items()}
        self.load_state_dict({name: weights[name] for name in self.state_dict()})

    def forward(self, x):
        x = self.embed_tokens(x) if self.embed_tokens else x
        for layer in self.layers.values():
            x = layer(x)
        return self.lm_head(self.norm(x)) if self.lm_head else x

    def watch(self, prints, *how):
        """Outputs go into the fingerprint."""
        if self.embed_tokens:
            prints.watch(self.embed_tokens, "embedding", *how)
        for i, layer in self.layers.items():
            prints.watch(layer, "layer " + i, *how)


def samples(path, step):
    """Inputs and targets (BATCH, LENGTH) of a step, from 1 on: a token file is 256 words and tokens of 16 bits."""
    tokens = torch.from_numpy(np.fromfile(path, "<u2", offset=1024).astype(np.int64))
    first = (step - 1) * BATCH * LENGTH
    x, y = (tokens[first + shift:first + shift + BATCH * LENGTH].view(BATCH, LENGTH) for shift in (0, 1))
    return x, y


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def mean_over(value, group=None):
    value = value.detach().clone()
    dist.all_reduce(value, group=group)
    return value / dist.get_world_size(group)

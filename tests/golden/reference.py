#!/usr/bin/env python3
"""Writes the text files beside it: ten training steps of small models in float64. tied, untied and dropout are GPT-2s;
llama, qwen2 and qwen3 are models of these families.

Independent of the library: the formulas are written again here from the papers and from the headers
(rng.h, flat.h, sampler.h, ops.h, trine.h), and the derivatives are JAX's own. golden.c compares a trainer
with what stands in the text files, so the test itself needs no Python.

    pip install jax xxhash
    python3 tests/golden/reference.py        # rewrites the files beside it

Only the initial values are rounded to float32, as the library's are; everything after is float64.
"""
import math
import os
import sys

import numpy as np
import xxhash

try:
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
except ImportError:  # tests/outside imports the order of samples and the learning rates
    jax = jnp = None

COMMON = dict(
    lr=1e-3, min_lr=1e-4, lr_warmup_iters=2, weight_decay=0.1,
    adam_beta1=0.9, adam_beta2=0.95, adam_eps=1e-8, train_iters=10,
)
CONFIGS = {
    "tied": dict(
        num_layers=2, hidden_size=32, num_attention_heads=4, ffn_hidden_size=128, seq_length=16,
        vocab_size=53, untied=0, seed=1234, tokens=1000, micro_batch_size=2, global_batch_size=8,
        clip_grad=1.0, lr_decay_iters=10, **COMMON),
    "untied": dict(
        num_layers=3, hidden_size=24, num_attention_heads=4, ffn_hidden_size=40, seq_length=12,
        vocab_size=61, untied=1, seed=77, tokens=400, micro_batch_size=1, global_batch_size=6,
        clip_grad=1.3, lr_decay_iters=8, **COMMON),
    # An odd length, so that blocks of four random words cross rows; two different rates;
    # micro-batches of two, so that sample numbers differ from micro-batch numbers.
    "dropout": dict(
        num_layers=2, hidden_size=24, num_attention_heads=4, ffn_hidden_size=96, seq_length=13,
        vocab_size=47, untied=0, seed=4711, tokens=500, micro_batch_size=2, global_batch_size=6,
        hidden_dropout=0.1, attention_dropout=0.2, clip_grad=1.0, lr_decay_iters=10, **COMMON),
    # Wavelengths 2 pi 500^(i / 5) from 6 to 900, an original length of 64: the three cases of llama3's scaling.
    "llama": dict(
        family="llama", num_layers=2, hidden_size=32, num_attention_heads=8, num_query_groups=2, kv_channels=10,
        ffn_hidden_size=48, seq_length=15, vocab_size=53, untied=1, norm_epsilon=1e-5, rotary_base=500.0,
        rope_kind="llama3", rope_factor=8.0, rope_low=1.0, rope_high=4.0, rope_length=64, seed=51, tokens=700,
        micro_batch_size=2, global_batch_size=6, clip_grad=1.0, lr_decay_iters=10, **COMMON),
    "qwen2": dict(
        family="qwen2", num_layers=2, hidden_size=24, num_attention_heads=6, num_query_groups=2, ffn_hidden_size=40,
        seq_length=13, vocab_size=61, untied=0, norm_epsilon=1e-6, rotary_base=10000.0, rope_kind="linear",
        rope_factor=2.5, attention_dropout=0.2, seed=52, tokens=500, micro_batch_size=1, global_batch_size=4,
        clip_grad=1.0, lr_decay_iters=8, **COMMON),
    "qwen3": dict(
        family="qwen3", num_layers=2, hidden_size=32, num_attention_heads=4, num_query_groups=1, kv_channels=12,
        ffn_hidden_size=56, seq_length=16, vocab_size=47, untied=0, norm_epsilon=1e-6, rotary_base=1000000.0,
        seed=53, tokens=600, micro_batch_size=2, global_batch_size=8, clip_grad=1.0, lr_decay_iters=10, **COMMON),
}

# ---- Random numbers: Salmon et al. 2011, Philox4x32-10; Box and Muller 1958 ------------------------

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def key_of(seed, name):
    return xxhash.xxh3_64_intdigest(name.encode(), seed)


def philox(counter, key):
    """Four arrays of words from four arrays of counter words (uint64 holding 32 bits)."""
    c0, c1, c2, c3 = (np.asarray(c, dtype=np.uint64) for c in counter)
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0
        p1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((p1 >> HALF) ^ c1 ^ np.uint64(k0), p1 & LOW,
                          (p0 >> HALF) ^ c3 ^ np.uint64(k1), p0 & LOW)
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def normal(seed, name, shape, std):
    count = math.prod(shape)
    block = np.arange((count + 3) // 4, dtype=np.uint64)
    zero = np.zeros_like(block)
    u = [(w.astype(np.float64) + 0.5) / 2.0**32
         for w in philox((block & LOW, block >> HALF, zero, zero), key_of(seed, name))]
    lanes = []
    for a, b in ((u[0], u[1]), (u[2], u[3])):
        r = np.sqrt(-2 * np.log(a))
        lanes += [r * np.cos(2 * np.pi * b), r * np.sin(2 * np.pi * b)]
    values = np.stack(lanes, axis=1).reshape(-1)[:count]
    return (std * values).astype(np.float32).astype(np.float64).reshape(shape)


def permute(key, n, i):
    """Six Feistel rounds on the least even number of bits that holds n values, walked into [0, n)."""
    half = 0
    while 4**half < n:
        half += 1
    mask = 2**half - 1
    while True:
        left, right = i >> half, i & mask
        for r in range(6):
            word = int(philox(([right], [0], [r + 1], [0]), key)[0][0])
            left, right = right, left ^ (word & mask)
        i = left << half | right
        if i < n:
            return i


# ---- Dropout: Srivastava et al. 2014; the mask is op_args.h's dropout_args ---------------------------

def kept(c, rate, name, samples, shape):
    """(len(samples), *shape): 0 or 1 / (1 - rate). `shape` is that of one sample's tensor."""
    count = math.prod(shape)
    rate = float(np.float32(rate))
    block = np.arange((count + 3) // 4, dtype=np.uint64)[None, :]
    sample = np.asarray(samples, dtype=np.uint64)[:, None]
    block, sample = np.broadcast_arrays(block, sample)
    words = philox((block & LOW, block >> HALF, sample & LOW, sample >> HALF),
                   key_of(c["seed"], name))
    words = np.stack(words, axis=-1).reshape(len(samples), -1)[:, :count]
    factor = np.where(words >= np.uint64(int(rate * 2.0**32)), 1 / (1 - rate), 0.0)
    return factor.reshape(len(samples), *shape)


def masks(c, step):
    """All of a step, by name; none for a rate of 0. Sample numbers continue over the entire run."""
    T, C, H, G = (c["seq_length"], c["hidden_size"], c["num_attention_heads"],
                  c["global_batch_size"])
    samples = range((step - 1) * G, step * G)
    if "family" in c:
        names = {f"layers.{i}.self_attn.dropout": ("attention_dropout", (H, T, T)) for i in range(c["num_layers"])}
        return {name: kept(c, c[rate], name, samples, shape)
                for name, (rate, shape) in names.items() if c.get(rate, 0)}
    names = {"wte.dropout": ("hidden_dropout", (T, C))}
    for i in range(c["num_layers"]):
        names[f"h.{i}.attn.dropout"] = ("attention_dropout", (H, T, T))
        names[f"h.{i}.attn.resid_dropout"] = ("hidden_dropout", (T, C))
        names[f"h.{i}.mlp.dropout"] = ("hidden_dropout", (T, C))
    return {name: kept(c, c[rate], name, samples, shape)
            for name, (rate, shape) in names.items() if c.get(rate, 0)}


def dropout(mask, name, x):
    return x * mask[name] if name in mask else x


# ---- Data ------------------------------------------------------------------------------------------

def token_stream(c):
    """token i = (5 (i mod 11) + hash(i) mod 3) mod V: partly predictable. golden.c makes the same."""
    out = []
    for i in range(c["tokens"]):
        h = i * 2654435761 % 2**32
        h ^= h >> 15
        h = h * 2246822519 % 2**32
        h ^= h >> 13
        out.append((5 * (i % 11) + h % 3) % c["vocab_size"])
    return np.array(out, dtype=np.int32)


def global_batch(c, stream, step):
    """Samples (step - 1) G ... step G - 1. Sample i of epoch e is window permute(i): T tokens and the
    T that follow each."""
    T, G = c["seq_length"], c["global_batch_size"]
    windows = (len(stream) - 1) // T
    tokens, targets = [], []
    for sample in range((step - 1) * G, step * G):
        epoch, index = divmod(sample, windows)
        at = permute(key_of(c["seed"], f"data.epoch.{epoch}"), windows, index) * T
        tokens.append(stream[at:at + T])
        targets.append(stream[at + 1:at + T + 1])
    return np.stack(tokens), np.stack(targets)


# ---- Model: Radford et al. 2019 --------------------------------------------------------------------

def initial(c):
    C, F, V, T, L, seed = (c["hidden_size"], c["ffn_hidden_size"], c["vocab_size"],
                           c["seq_length"], c["num_layers"], c["seed"])
    p = {}

    def matrix(name, *shape, std=0.02):
        p[name] = normal(seed, name, shape, std)

    def norm(name):
        p[name + ".weight"], p[name + ".bias"] = np.ones(C), np.zeros(C)

    matrix("wte.weight", V, C)
    matrix("wpe.weight", T, C)
    for i in range(L):
        h = f"h.{i}."
        norm(h + "ln_1")
        matrix(h + "attn.c_attn.weight", 3 * C, C)
        matrix(h + "attn.c_proj.weight", C, C, std=0.02 / math.sqrt(2 * L))
        norm(h + "ln_2")
        matrix(h + "mlp.c_fc.weight", F, C)
        matrix(h + "mlp.c_proj.weight", C, F, std=0.02 / math.sqrt(2 * L))
        for name, size in (("attn.c_attn", 3 * C), ("attn.c_proj", C), ("mlp.c_fc", F),
                           ("mlp.c_proj", C)):
            p[h + name + ".bias"] = np.zeros(size)
    norm("ln_f")
    if c["untied"]:
        matrix("lm_head.weight", V, C)
    return p


def decays(name, value):
    """Weight decay acts on matrices, but not on the position embedding."""
    return value.ndim == 2 and name != "wpe.weight"


def layer_norm(p, name, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean)**2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * p[name + ".weight"] + p[name + ".bias"]


def linear(p, name, x):
    return x @ p[name + ".weight"].T + p[name + ".bias"]


def attention(c, p, mask, h, x):
    B, T, C = x.shape
    H = c["num_attention_heads"]
    q, k, v = (z.reshape(B, T, H, C // H).transpose(0, 2, 1, 3)
               for z in jnp.split(linear(p, h + "attn.c_attn", x), 3, axis=-1))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(C // H)
    scores = jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores, -jnp.inf)
    y = dropout(mask, h + "attn.dropout", jax.nn.softmax(scores, axis=-1)) @ v
    return linear(p, h + "attn.c_proj", y.transpose(0, 2, 1, 3).reshape(B, T, C))


def gelu(x):
    return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


# ---- Llama, Qwen2, Qwen3: the papers named in src/model/llama.c -------------------------------------

def sizes(c):
    """Query heads, heads of keys and values, width of a head."""
    H = c["num_attention_heads"]
    return H, c.get("num_query_groups", H), c.get("kv_channels", c["hidden_size"] // H)


def llama_initial(c):
    C, F, V, L, seed = c["hidden_size"], c["ffn_hidden_size"], c["vocab_size"], c["num_layers"], c["seed"]
    H, K, D = sizes(c)
    p = {}

    def matrix(name, *shape, std=0.02):
        p[name] = normal(seed, name, shape, std)

    matrix("embed_tokens.weight", V, C)
    for i in range(L):
        h = f"layers.{i}."
        for name, heads in (("q", H), ("k", K), ("v", K)):
            matrix(h + f"self_attn.{name}_proj.weight", heads * D, C)
            if c["family"] == "qwen2":
                p[h + f"self_attn.{name}_proj.bias"] = np.zeros(heads * D)
            if c["family"] == "qwen3" and name != "v":
                p[h + f"self_attn.{name}_norm.weight"] = np.ones(D)
        matrix(h + "self_attn.o_proj.weight", C, H * D, std=0.02 / math.sqrt(2 * L))
        matrix(h + "mlp.gate_proj.weight", F, C)
        matrix(h + "mlp.up_proj.weight", F, C)
        matrix(h + "mlp.down_proj.weight", C, F, std=0.02 / math.sqrt(2 * L))
        p[h + "input_layernorm.weight"], p[h + "post_attention_layernorm.weight"] = np.ones(C), np.ones(C)
    p["norm.weight"] = np.ones(C)
    if c["untied"]:
        matrix("lm_head.weight", V, C)
    return p


def rms_norm(c, p, name, x):
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + c["norm_epsilon"]) * p[name + ".weight"]


def frequencies(c, D):
    """Llama 3.1 scales the frequencies by their wavelength."""
    out = []
    for i in range(D // 2):
        f = c["rotary_base"] ** (-2 * i / D)
        if c.get("rope_kind") == "linear":
            f /= c["rope_factor"]
        if c.get("rope_kind") == "llama3":
            turns = c["rope_length"] * f / (2 * math.pi)
            if turns < c["rope_low"]:
                f /= c["rope_factor"]
            elif turns <= c["rope_high"]:
                share = (turns - c["rope_low"]) / (c["rope_high"] - c["rope_low"])
                f *= share + (1 - share) / c["rope_factor"]
        out.append(f)
    return np.array(out)


def rotate(c, x):
    """x (B, heads, T, D) as complex numbers x_i + i x_(i + D/2), times e^(i t f)."""
    T, D = x.shape[-2:]
    angle = np.arange(T)[:, None] * frequencies(c, D)
    z = (x[..., :D // 2] + 1j * x[..., D // 2:]) * np.exp(1j * angle)
    return jnp.concatenate([z.real, z.imag], axis=-1)


def grouped_attention(c, p, mask, h, x):
    B, T, _ = x.shape
    H, K, D = sizes(c)

    def project(name, heads):
        y = x @ p[h + f"{name}_proj.weight"].T + p.get(h + f"{name}_proj.bias", 0)
        y = y.reshape(B, T, heads, D)
        if h + f"{name}_norm.weight" in p:
            y = rms_norm(c, p, h + f"{name}_norm", y)
        return y.transpose(0, 2, 1, 3)

    q, k, v = rotate(c, project("q", H)), rotate(c, project("k", K)), project("v", K)
    k, v = (jnp.repeat(z, H // K, axis=1) for z in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(D)
    scores = jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores, -jnp.inf)
    y = dropout(mask, h + "dropout", jax.nn.softmax(scores, axis=-1)) @ v
    return y.transpose(0, 2, 1, 3).reshape(B, T, H * D) @ p[h + "o_proj.weight"].T


def llama_loss(c, p, mask, tokens, targets):
    x = p["embed_tokens.weight"][tokens]
    for i in range(c["num_layers"]):
        h = f"layers.{i}."
        x = x + grouped_attention(c, p, mask, h + "self_attn.", rms_norm(c, p, h + "input_layernorm", x))
        y = rms_norm(c, p, h + "post_attention_layernorm", x)
        gate, up = y @ p[h + "mlp.gate_proj.weight"].T, y @ p[h + "mlp.up_proj.weight"].T
        x = x + (gate / (1 + jnp.exp(-gate)) * up) @ p[h + "mlp.down_proj.weight"].T
    return cross_entropy(rms_norm(c, p, "norm", x), p["lm_head.weight" if c["untied"] else "embed_tokens.weight"],
                         targets)


# ---- The loss ----------------------------------------------------------------------------------------

def cross_entropy(x, matrix, targets):
    logits = x @ matrix.T
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - chosen).mean()


def loss_of(c, p, mask, tokens, targets):
    """Mean cross-entropy over the global batch, independent of micro-batches."""
    if "family" in c:
        return llama_loss(c, p, mask, tokens, targets)
    x = dropout(mask, "wte.dropout", p["wte.weight"][tokens] + p["wpe.weight"])
    for i in range(c["num_layers"]):
        h = f"h.{i}."
        y = attention(c, p, mask, h, layer_norm(p, h + "ln_1", x))
        x = x + dropout(mask, h + "attn.resid_dropout", y)
        y = linear(p, h + "mlp.c_proj",
                   gelu(linear(p, h + "mlp.c_fc", layer_norm(p, h + "ln_2", x))))
        x = x + dropout(mask, h + "mlp.dropout", y)
    return cross_entropy(layer_norm(p, "ln_f", x), p["lm_head.weight" if c["untied"] else "wte.weight"], targets)


# ---- Optimizer: Loshchilov and Hutter 2019; the schedule is Megatron-LM's OptimizerParamScheduler ---

def learning_rate(c, step):
    """lr of step 1, 2, ...: linear up to lr at lr_warmup_iters, a half cosine down to min_lr at
    lr_decay_iters, min_lr after."""
    warmup, end = c["lr_warmup_iters"], c["lr_decay_iters"]
    if warmup > 0 and step <= warmup:
        return c["lr"] * step / warmup
    if step > end:
        return c["min_lr"]
    ratio = (step - warmup) / (end - warmup)
    return c["min_lr"] + 0.5 * (math.cos(math.pi * ratio) + 1) * (c["lr"] - c["min_lr"])


def adamw(c, p, m, v, g, lr, step):
    b1, b2 = c["adam_beta1"], c["adam_beta2"]
    for name in p:
        m[name] = b1 * m[name] + (1 - b1) * g[name]
        v[name] = b2 * v[name] + (1 - b2) * g[name]**2
        update = m[name] / (1 - b1**step) / (np.sqrt(v[name] / (1 - b2**step)) + c["adam_eps"])
        if decays(name, p[name]):
            update = update + c["weight_decay"] * p[name]
        p[name] = p[name] - lr * update


def train(c):
    stream, p = token_stream(c), llama_initial(c) if "family" in c else initial(c)
    m = {name: np.zeros_like(x) for name, x in p.items()}
    v = {name: np.zeros_like(x) for name, x in p.items()}
    value_and_grad = jax.jit(jax.value_and_grad(lambda q, k, a, b: loss_of(c, q, k, a, b)))
    rows = []
    for step in range(1, c["train_iters"] + 1):
        loss, g = value_and_grad(p, masks(c, step), *global_batch(c, stream, step))
        g = {name: np.asarray(x) for name, x in g.items()}
        norm = math.sqrt(sum(float((x**2).sum()) for x in g.values()))
        scale = min(1.0, c["clip_grad"] / norm)
        lr = learning_rate(c, step)
        adamw(c, p, m, v, {name: scale * x for name, x in g.items()}, lr, step)
        rows.append((step, float(loss), norm, lr))
    return rows


def write(name, c):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".txt")
    with open(path, "w") as out:
        print("# Written by reference.py (float64). token i = (5 (i mod 11) + h mod 3) mod vocab_size,",
              file=out)
        print("# h = i * 2654435761; h ^= h >> 15; h *= 2246822519; h ^= h >> 13 (all mod 2^32).",
              file=out)
        for key, value in c.items():
            print(key, value if isinstance(value, str) else repr(value), file=out)
        print("# step loss grad_norm lr", file=out)
        for row in train(c):
            print("step %d %.17g %.17g %.17g" % row, file=out)


if __name__ == "__main__":
    for name, config in CONFIGS.items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            write(name, config)

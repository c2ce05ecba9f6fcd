#!/usr/bin/env python3
"""An independent implementation of every model family in numpy, to check limpid against.

    python3 scripts/reference_numpy.py MODEL_DIR --prompt-ids 1,2,3 --out ref.safetensors
    python3 scripts/reference_numpy.py MODEL_DIR --prompt-ids 1,2,3 --greedy 16

Reads a Hugging Face directory (config.json in the spelling of transformers 4 or 5, safetensors).
Written from the definitions, not from limpid's code, for being read: no cache, no tricks, one
function for each idea. All of it in float64, so that the order of summation does not matter and
what a float32 program is off by is that program's rounding. Needs numpy alone.
"""
import argparse
import json
import math
import os
import sys
from types import SimpleNamespace

import common

common.need_modules("apt install python3-numpy, then /usr/bin/python3; or pip install numpy", "numpy")
import numpy as np

import tensor_files

# ---- families ----

# A decoder layer is x += attention(norm(x)); x += mlp(norm(x)). Families differ, beyond their config, in:
#   norms     before: of a block's input; after: of its output; both; LayerNorm in GPT-2 only
#   qk_norm   head: of each query and key head, row: of all heads as one vector, before rope;
#             after_rope: of each head, after rope
#   pattern   every n-th layer sees everything, the others have the window
#   gated     down(act(gate) * up), or without a gate down(act(up))
#   the rest  defaults of its class for keys absent from config.json
FAMILIES = {
    "gpt2": {"tied": True, "eps": 1e-5, "act": "gelu_new", "theta": None, "gated": False},
    "gpt_neox": {"eps": 1e-5, "act": "gelu", "gated": False},
    "llama": {},
    "mistral": {"kv_heads": 8, "window": 4096},
    "qwen2": {"kv_heads": 32},
    "qwen3": {"kv_heads": 32, "head_dim": 128, "qk_norm": "head"},
    "ministral3": {"eps": 1e-5, "kv_heads": 8, "head_dim": 128, "theta": 1e6},
    "granite": {},
    "granitemoehybrid": {"tied": True},
    "gemma2": {"tied": True, "kv_heads": 4, "head_dim": 256, "act": "gelu_pytorch_tanh",
               "window": 4096, "pattern": 2, "norms": "both", "cap": 30.0},
    "gemma3_text": {"tied": True, "heads": 8, "kv_heads": 4, "head_dim": 256, "theta": 1e6,
                    "act": "gelu_pytorch_tanh", "window": 4096, "pattern": 6, "norms": "both",
                    "qk_norm": "head"},
    "olmo2": {"eps": 1e-5, "norms": "after", "qk_norm": "row"},
    "smollm3": {"tied": True, "kv_heads": 4, "theta": 2e6},
    "olmo3": {"eps": 1e-5, "theta": 5e5, "window": 4096, "pattern": 4, "norms": "after",
              "qk_norm": "row"},
    "exaone4": {"eps": 1e-5, "kv_heads": 32, "window": 4096, "pattern": 4, "norms": "after",
                "qk_norm": "head"},
    "hunyuan_v1_dense": {"eps": 1e-5, "qk_norm": "after_rope"},
    "ernie4_5": {"tied": True, "eps": 1e-5, "kv_heads": 2, "head_dim": 128, "theta": 5e5},
    "arcee": {"eps": 1e-5, "act": "relu2", "gated": False},
    "phi3": {"eps": 1e-5, "original": 4096},
    "nanochat": {"act": "relu2", "gated": False, "cap": 15.0, "qk_norm": "after_rope"},
}
DEFAULTS = {"tied": False, "eps": 1e-6, "act": "silu", "theta": 1e4, "norms": "before",
            "qk_norm": None, "heads": None, "kv_heads": None, "head_dim": None, "window": None,
            "cap": None, "original": None, "pattern": None, "gated": True}
GPT2_KEYS = {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_inner":
             "intermediate_size", "n_head": "num_attention_heads", "layer_norm_epsilon":
             "rms_norm_eps", "n_positions": "max_position_embeddings"}
NEOX_KEYS = {"layer_norm_eps": "rms_norm_eps", "rotary_emb_base": "rope_theta", "rotary_pct":
             "partial_rotary_factor"}


def layer_slides(c, family, l):
    """Whether layer l sees no more than the last `sliding_window` positions."""
    types = c.get("layer_types")
    if family in ("mistral", "phi3"):
        return True
    if FAMILIES[family].get("pattern"):
        pattern = c.get("sliding_window_pattern",
                        c.get("_sliding_window_pattern", FAMILIES[family]["pattern"]))
        return types[l] == "sliding_attention" if types else (l + 1) % pattern != 0
    if family in ("qwen2", "qwen3", "smollm3") and c.get("use_sliding_window"):
        if types:
            return types[l] == "sliding_attention"
        return not layer_rotates(c, family, l) if family == "smollm3" \
            else l >= c.get("max_window_layers", 28)
    return False


def layer_rotates(c, family, l):
    """Whether layer l has rotary positions. In no_rope_layers, 1 means that it HAS them."""
    if family == "gpt2":
        return False
    if family == "exaone4":  # in a model with windows the others do not rotate
        return c.get("sliding_window", 4096) is None or layer_slides(c, family, l)
    if family == "granitemoehybrid":
        return c.get("position_embedding_type") == "rope"
    if family != "smollm3":
        return True
    listed = c.get("no_rope_layers")
    return bool(listed[l]) if listed else (l + 1) % c.get("no_rope_layer_interval", 4) != 0


def layer_rope(c, defaults, family, slides):
    """The rope parameters of a layer in the form of transformers 5, from a config of 4 or 5."""
    five = c.get("rope_parameters") or {}
    if family == "gemma3_text" and slides:  # another theta, and no scaling
        rope = dict(five.get("sliding_attention") or {})
        rope.setdefault("rope_theta", c.get("rope_local_base_freq", 1e4))
    else:
        rope = dict(five.get("full_attention") or five or c.get("rope_scaling") or {})
        rope.setdefault("rope_theta", c.get("rope_theta", defaults["theta"]))
        if family == "olmo3" and slides:  # no scaling
            rope = {"rope_theta": rope["rope_theta"], **(five.get("sliding_attention") or {})}
    rope["rope_type"] = rope.get("rope_type", rope.get("type", "default"))
    rope.setdefault("partial_rotary_factor", c.get("partial_rotary_factor")
                    or (0.25 if family == "gpt_neox" else 1.0))
    beside = c.get("original_max_position_embeddings", defaults["original"])
    if beside:
        rope["original_max_position_embeddings"] = beside
    rope.setdefault("original_max_position_embeddings", c["max_position_embeddings"])
    return rope


def read_config(path):
    with open(path) as file:
        c = json.load(file)
    c = c.get("text_config", c) if c.get("model_type") in ("gemma3", "mistral3") else c
    family = c.get("model_type", "gemma3_text")
    if family not in FAMILIES:
        sys.exit(f"reference_numpy: {path}: unknown model_type \"{family}\"")
    d = {**DEFAULTS, **FAMILIES[family]}
    theirs = {"gpt2": GPT2_KEYS, "gpt_neox": NEOX_KEYS}.get(family, {})
    c = {**c, **{theirs[key]: c[key] for key in theirs if key in c}}
    m = SimpleNamespace(family=family, norms=d["norms"], qk_norm=d["qk_norm"], gated=d["gated"])
    m.dim, m.vocab_size = c["hidden_size"], c["vocab_size"]
    m.hidden_dim = c.get("shared_intermediate_size") or c.get("intermediate_size") or 4 * m.dim
    m.n_layers = c["num_hidden_layers"]
    m.n_heads = c.get("num_attention_heads") or d["heads"]
    m.n_kv_heads = c.get("num_key_value_heads", d["kv_heads"]) or m.n_heads
    m.head_dim = c.get("head_dim", d["head_dim"]) or m.dim // m.n_heads
    m.max_seq_len = c.setdefault("max_position_embeddings", 131072)
    m.eps = c.get("rms_norm_eps", d["eps"])
    m.act = c.get({"gpt2": "activation_function", "gemma2": "hidden_activation",
                   "gemma3_text": "hidden_activation"}
                  .get(family, "hidden_act"), d["act"])
    m.tied = c.get("tie_word_embeddings", d["tied"])
    m.cap = c.get("final_logit_softcapping", d["cap"]) if family in ("gemma2", "gemma3_text", "nanochat") \
        else None
    m.score_cap = c.get("attn_logit_softcapping", 50.0) if family == "gemma2" else None
    # Granite: factors of the embedding, of what blocks add, of the logits.
    m.residual_scale = c.get("residual_multiplier", 1.0)
    m.logit_divisor = c.get("logits_scaling", 1.0)
    m.parallel = family == "gpt_neox" and c.get("use_parallel_residual", True)
    m.growth = ((c.get("rope_parameters") or c.get("rope_scaling") or {}).get("llama_4_scaling_beta") or 0.0) \
        if family == "ministral3" else 0.0
    # Gemma scales its embeddings; the factor is rounded to the type of its weights, float32.
    m.embedding_scale = float(np.float32(math.sqrt(m.dim))) \
        if family in ("gemma2", "gemma3_text") else c.get("embedding_multiplier", 1.0)
    m.layers = []
    for l in range(m.n_layers):
        scale = 1 / math.sqrt(m.head_dim)
        if family in ("gemma2", "gemma3_text"):
            scale = 1 / math.sqrt(c.get("query_pre_attn_scalar", 256))
        if family in ("granite", "granitemoehybrid"):
            scale = c.get("attention_multiplier", 1.0)
        if family == "gpt2" and not c.get("scale_attn_weights", True):
            scale = 1.0
        if family == "gpt2" and c.get("scale_attn_by_inverse_layer_idx"):
            scale /= l + 1
        slides, rotates = layer_slides(c, family, l), layer_rotates(c, family, l)
        m.layers.append(SimpleNamespace(
            scale=scale, window=c.get("sliding_window", d["window"]) if slides else None,
            rope=layer_rope(c, d, family, slides) if rotates else None))
    return m


# ---- weights: one set of names for all families ----

def plain_names(tensors, m):
    """Weights under Llama's names without a prefix: fused matrices are split, transposed ones transposed back."""
    w = {}
    for name, values in tensors.items():
        for prefix in ("model.language_model.", "language_model.model.", "model.", "transformer.",
                       "gpt_neox."):
            if name.startswith(prefix):
                name = name[len(prefix):]
                break
        w[name] = values.astype(np.float64)
    if m.family == "gpt2":
        w = from_gpt2(w)
    if m.family == "gpt_neox":
        w = from_gpt_neox(w, m)
    if m.family == "granitemoehybrid":
        for l in range(m.n_layers):
            mlp = f"layers.{l}.mlp."
            w[mlp + "gate_proj.weight"], w[mlp + "up_proj.weight"] = np.split(
                w.pop(f"layers.{l}.shared_mlp.input_linear.weight"), 2)
            w[mlp + "down_proj.weight"] = w.pop(f"layers.{l}.shared_mlp.output_linear.weight")
    if m.family == "phi3":
        for l in range(m.n_layers):
            at, mlp = f"layers.{l}.self_attn.", f"layers.{l}.mlp."
            q_dim, kv_dim = m.n_heads * m.head_dim, m.n_kv_heads * m.head_dim
            w[at + "q_proj.weight"], w[at + "k_proj.weight"], w[at + "v_proj.weight"] = \
                np.split(w.pop(at + "qkv_proj.weight"), [q_dim, q_dim + kv_dim])
            w[mlp + "gate_proj.weight"], w[mlp + "up_proj.weight"] = \
                np.split(w.pop(mlp + "gate_up_proj.weight"), 2)
    if "lm_head.weight" not in w:
        if not m.tied:
            sys.exit("reference_numpy: no lm_head.weight, and the config says it is not tied")
        w["lm_head.weight"] = w["embed_tokens.weight"]
    return w


def from_gpt2(tensors):
    """Conv1D matrices are (in, out): y = x W + b; c_attn has q, k and v side by side."""
    names = {"ln_1": "input_layernorm", "ln_2": "post_attention_layernorm", "attn.c_proj":
             "self_attn.o_proj", "mlp.c_fc": "mlp.up_proj", "mlp.c_proj": "mlp.down_proj"}
    w = {}
    for name, values in tensors.items():
        stem, kind = name.rsplit(".", 1)
        stem = {"wte": "embed_tokens", "wpe": "position", "ln_f": "norm"}.get(stem, stem)
        if not stem.startswith("h."):
            w[f"{stem}.{kind}"] = values
            continue
        _, l, part = stem.split(".", 2)
        values = values.T if values.ndim == 2 else values
        if part == "attn.c_attn":
            for letter, third in zip("qkv", np.split(values, 3)):
                w[f"layers.{l}.self_attn.{letter}_proj.{kind}"] = third
        elif part in names:  # the rest are buffers of the causal mask
            w[f"layers.{l}.{names[part]}.{kind}"] = values
    return w


def from_gpt_neox(tensors, m):
    """query_key_value has q, k and v of head 0, then those of head 1, and so on."""
    names = {"embed_in": "embed_tokens", "final_layer_norm": "norm", "embed_out": "lm_head",
             "attention.dense": "self_attn.o_proj", "mlp.dense_h_to_4h": "mlp.up_proj",
             "mlp.dense_4h_to_h": "mlp.down_proj"}
    w = {}
    for name, values in tensors.items():
        stem, kind = name.rsplit(".", 1)
        layer = ""
        if stem.startswith("layers."):
            layer, stem = f"layers.{stem.split('.')[1]}.", stem.split(".", 2)[2]
        if stem == "attention.query_key_value":
            heads = values.reshape(m.n_heads, 3, m.head_dim, *values.shape[1:])
            for i, letter in enumerate("qkv"):
                w[f"{layer}self_attn.{letter}_proj.{kind}"] = \
                    heads[:, i].reshape(-1, *values.shape[1:])
        else:
            w[f"{layer}{names.get(stem, stem)}.{kind}"] = values
    return w


# ---- norms and activations ----

def rms_norm(x, eps, weight=1.0):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def layer_norm(x, eps, weight, bias):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def silu(x):
    return x / (1 + np.exp(-x))


ACTIVATIONS = {"silu": silu, "swish": silu, "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh,
               "gelu": gelu_erf, "relu2": lambda x: np.maximum(x, 0) ** 2}


# ---- positions ----

def llama3(f, rope):
    """Low frequencies are divided by factor, high ones are not, those between are interpolated."""
    original, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    rotations = original * f / (2 * math.pi)  # over the original context
    ramp = np.clip((rotations - low) / (high - low), 0, 1)
    return (1 - ramp) * f / factor + ramp * f


def yarn(f, rope, channels, factor):
    """Interpolates likewise, over the index of the pair."""
    def pair(rotations):
        original = rope["original_max_position_embeddings"]
        return channels * math.log(original / (rotations * 2 * math.pi)) \
            / (2 * math.log(rope["rope_theta"]))
    low, high = pair(rope.get("beta_fast") or 32), pair(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, channels - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(len(f)) - low) / (high - low), 0, 1)
    return ramp * f / factor + (1 - ramp) * f


def yarn_magnitude(rope, factor):
    def grown(m):
        return 0.1 * m * math.log(factor) + 1 if factor > 1 else 1.0
    m, m_all = rope.get("mscale"), rope.get("mscale_all_dim")
    return grown(m) / grown(m_all) if m and m_all else grown(1.0)


def rope_frequencies(rope, head_dim, max_seq_len, context):
    """(radians per position of each pair, the factor of cos and sin)."""
    kind, theta, factor = rope["rope_type"], rope["rope_theta"], rope.get("factor")
    original = rope["original_max_position_embeddings"]
    channels = int(head_dim * rope["partial_rotary_factor"])
    if kind == "dynamic" and rope.get("alpha"):  # Hunyuan: once and for all
        theta *= rope["alpha"] ** (channels / (channels - 2))
    elif kind == "dynamic" and context > max_seq_len:
        stretch = factor * context / max_seq_len - (factor - 1)
        theta *= stretch ** (channels / (channels - 2))
    f = theta ** (-np.arange(0, channels, 2) / channels)
    magnitude = 1.0
    if kind == "linear":
        f = f / factor
    if kind == "llama3":
        f = llama3(f, rope)
    if kind in ("yarn", "longrope", "su"):
        factor = factor or max_seq_len / original
    if kind == "yarn":
        f = yarn(f, rope, channels, factor)
        magnitude = yarn_magnitude(rope, factor)
    if kind in ("longrope", "su"):
        f = f / np.array(rope["long_factor" if context > original else "short_factor"], np.float64)
        magnitude = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    if kind not in ("default", "linear", "dynamic", "llama3", "yarn", "longrope", "su"):
        sys.exit(f"reference_numpy: unknown rope_type \"{kind}\"")
    return f, rope.get("attention_factor") or magnitude


def turn(x, m, layer, context):
    """Rotates pairs (i, i + n) of each head of x (T, heads, head_dim) by position * f_i; in ERNIE
    pairs are (2i, 2i + 1)."""
    f, magnitude = rope_frequencies(layer.rope, m.head_dim, m.max_seq_len, context)
    angle = np.arange(len(x))[:, None, None] * f
    cos, sin = magnitude * np.cos(angle), magnitude * np.sin(angle)
    if m.family == "nanochat":  # the opposite sign
        sin = -sin
    n = len(f)
    if m.family == "ernie4_5":
        a, b = x[..., 0::2], x[..., 1::2]
        return np.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)
    a, b, rest = x[..., :n], x[..., n:2 * n], x[..., 2 * n:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


# ---- the forward pass ----

def forward(m, w, ids, context=None, watch=lambda name, values: None):
    """Logits (T, vocab) of every position. `context` is the length by which dynamic NTK and
    longrope choose; default: the number of ids. watch(name, tensor) is called for every stage."""
    context = context or len(ids)

    def seen(name, values):
        watch(name, values)
        return values

    def norm(x, name):
        if m.family in ("gpt2", "gpt_neox"):
            return seen(name, layer_norm(x, m.eps, w[name + ".weight"], w[name + ".bias"]))
        if m.family == "nanochat":  # its norms have no weights
            return seen(name, rms_norm(x, m.eps))
        return seen(name, rms_norm(x, m.eps, w[name + ".weight"] + (m.family in ("gemma2", "gemma3_text"))))

    def linear(x, name):
        return seen(name, x @ w[name + ".weight"].T + w.get(name + ".bias", 0.0))

    def qk_norms(q, k, at):
        if m.family == "hunyuan_v1_dense":
            return norm(q, at + "query_layernorm"), norm(k, at + "key_layernorm")
        return norm(q, at + "q_norm"), norm(k, at + "k_norm")

    def attention(x, l):
        layer, at, steps = m.layers[l], f"layers.{l}.self_attn.", np.arange(len(x))
        q, k, v = (linear(x, at + letter + "_proj") for letter in "qkv")
        if m.qk_norm == "row":
            q, k = qk_norms(q, k, at)
        q, k, v = (y.reshape(len(x), -1, m.head_dim) for y in (q, k, v))  # (T, heads, head_dim)
        if m.qk_norm == "head":
            q, k = qk_norms(q, k, at)
        if layer.rope:
            q = seen(at + "q_rotated", turn(q, m, layer, context))
            k = seen(at + "k_rotated", turn(k, m, layer, context))
            if m.growth:
                original = layer.rope["original_max_position_embeddings"]
                q = seen(at + "q_rotated",
                         q * (1 + m.growth * np.log(1 + steps // original))[:, None, None])
        if m.qk_norm == "after_rope":
            q, k = qk_norms(q, k, at)

        # Neighbouring query heads share a key and value head.
        k, v = (np.repeat(y, m.n_heads // m.n_kv_heads, axis=1) for y in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) * layer.scale
        if m.score_cap:
            scores = m.score_cap * np.tanh(scores / m.score_cap)
        back = steps[:, None] - steps  # distance of key j behind query i
        scores = np.where((back >= 0) & (back < (layer.window or len(x))), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = seen(at + "attn_weights", weights / weights.sum(-1, keepdims=True))
        heads = seen(at + "heads", np.einsum("hij,jhd->ihd", weights, v).reshape(len(x), -1))
        return linear(heads, at + "o_proj")

    def mlp(x, l):
        act, at = ACTIVATIONS[m.act], f"layers.{l}.mlp."
        if m.family == "nanochat":
            return linear(seen(at + "activated", act(linear(x, at + "fc1"))), at + "fc2")
        if not m.gated:
            return linear(seen(at + "activated", act(linear(x, at + "up_proj"))), at + "down_proj")
        hidden = act(linear(x, at + "gate_proj")) * linear(x, at + "up_proj")
        return linear(seen(at + "activated", hidden), at + "down_proj")

    x = w["embed_tokens.weight"][ids] * m.embedding_scale
    if m.family == "gpt2":
        x = x + w["position.weight"][:len(ids)]
    watch("embed_tokens", x)
    if m.family == "nanochat":
        x = seen("embed_norm", rms_norm(x, m.eps))
    def scaled(h, name):
        """What a block adds, behind its factor; the name is that of a stage of its own."""
        return h if m.residual_scale == 1 else seen(name, m.residual_scale * h)

    before, after = m.norms != "after", m.norms != "before"
    second = "pre_feedforward_layernorm" if m.norms == "both" else "post_attention_layernorm"
    for l in range(m.n_layers):
        at = f"layers.{l}."
        h = attention(norm(x, at + "input_layernorm") if before else x, l)
        h = scaled(norm(h, at + "post_attention_layernorm") if after else h, at + "self_attn.scaled")
        into_mlp, x = x, seen(at + "attn_residual", x + h)
        if not m.parallel:
            into_mlp = x
        h = mlp(norm(into_mlp, at + second) if before else into_mlp, l)
        h = scaled(norm(h, at + "post_feedforward_layernorm") if after else h, at + "mlp.scaled")
        x = seen(f"layers.{l}", x + h)
    logits = linear(norm(x, "norm"), "lm_head")
    if m.logit_divisor != 1:
        logits = seen("logits", logits / m.logit_divisor)
    return seen("logits", m.cap * np.tanh(logits / m.cap)) if m.cap else logits


# ---- public functions ----

def open_model(directory, config="config.json"):
    """(m, w): the config and the weights of a directory, for forward."""
    m = read_config(os.path.join(directory, config))
    return m, plain_names(tensor_files.read_model(directory), m)


def greedy(m, w, ids, count, context=None):
    """The ids that greedy decoding appends, and the logits of each, without a KV cache."""
    ids, rows = list(ids), []
    context = context or len(ids) + count
    for _ in range(count):
        rows.append(forward(m, w, np.array(ids), context)[-1])
        ids.append(int(rows[-1].argmax()))
    return ids[len(ids) - count:], np.array(rows)


GPT2_TRACE = {"embed_tokens": "drop", "norm": "ln_f", "input_layernorm": "ln_1",
              "post_attention_layernorm": "ln_2", "self_attn.q_proj": "attn.c_attn.q",
              "self_attn.k_proj": "attn.c_attn.k", "self_attn.v_proj": "attn.c_attn.v",
              "self_attn.attn_weights": "attn.attn_weights", "self_attn.heads": "attn.heads",
              "self_attn.o_proj": "attn.c_proj", "mlp.up_proj": "mlp.c_fc",
              "mlp.down_proj": "mlp.c_proj"}
PHI3_TRACE = {"self_attn.q_proj": "self_attn.qkv_proj.q", "self_attn.k_proj":
              "self_attn.qkv_proj.k", "self_attn.v_proj": "self_attn.qkv_proj.v",
              "mlp.gate_proj": "mlp.gate_up_proj.gate", "mlp.up_proj": "mlp.gate_up_proj.up"}

NEOX_TRACE = {"embed_tokens": "embed_in", "norm": "final_layer_norm",
              "self_attn.q_proj": "attention.query_key_value.q",
              "self_attn.k_proj": "attention.query_key_value.k",
              "self_attn.v_proj": "attention.query_key_value.v",
              "self_attn.o_proj": "attention.dense", "mlp.up_proj": "mlp.dense_h_to_4h",
              "mlp.down_proj": "mlp.dense_4h_to_h",
              **{f"self_attn.{part}": f"attention.{part}"
                 for part in ("q_rotated", "k_rotated", "attn_weights", "heads")}}
HYBRID_TRACE = {"mlp.gate_proj": "shared_mlp.input_linear.gate",
                "mlp.up_proj": "shared_mlp.input_linear.up",
                "mlp.down_proj": "shared_mlp.output_linear", "mlp.activated": "shared_mlp.activated",
                "mlp.scaled": "shared_mlp.scaled"}


def trace_name(family, name):
    """The name of a stage as docs/trace.md has it: that of transformers' module."""
    if name in ("lm_head", "logits"):
        return name
    parts = name.split(".", 2)
    stem, part = (parts[:2], parts[2:]) if parts[0] == "layers" else ([], [name])
    theirs = {"gpt2": GPT2_TRACE, "phi3": PHI3_TRACE, "gpt_neox": NEOX_TRACE,
              "granitemoehybrid": HYBRID_TRACE}.get(family, {})
    part = [theirs.get(part[0], part[0])] if part else []
    if family != "gpt2":
        return ".".join(["gpt_neox" if family == "gpt_neox" else "model"] + stem + part)
    return ".".join(["transformer"] + (["h", stem[1]] if stem else []) + part)


def trace(m, w, ids, context=None):
    """Every stage under its name in a trace: (T, width), attention weights (heads, T, T)."""
    tensors = {"input_ids": np.array(ids)}
    turned = ("q_proj", "k_proj", "q_rotated", "k_rotated")

    def watch(name, values):
        if not name.endswith("attn_weights"):
            values = values.reshape(len(ids), -1)
        if m.family == "ernie4_5" and name.endswith(turned):  # as limpid has them: halves
            pairs = values.reshape(len(ids), -1, m.head_dim // 2, 2)
            values = pairs.swapaxes(2, 3).reshape(len(ids), -1)
        tensors[trace_name(m.family, name)] = values
    forward(m, w, np.array(ids), context, watch)
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", metavar="MODEL_DIR")
    parser.add_argument("--config", default="config.json", help="another file of that directory")
    parser.add_argument("--context", type=int, help="length by which NTK and longrope choose")
    tensor_files.add_trace_options(parser)
    args = parser.parse_args()
    try:
        run(args)
    except OSError as error:
        common.stop(4, f"{error.filename}: {error.strerror}")


def run(args):
    if args.out:
        tensor_files.check_output(args.out, args.model, args.force)
    m, w = open_model(args.model, args.config)
    ids = tensor_files.parse_ids(args.prompt_ids, m.vocab_size)
    if args.out:
        tensor_files.write_trace(args.out, trace(m, w, ids, args.context), "numpy", args.model, m)
    if args.greedy:
        print(*greedy(m, w, ids, args.greedy, args.context)[0], sep="\n")
    if not args.out and not args.greedy:
        last = forward(m, w, np.array(ids), args.context)[-1]
        for id in np.argsort(-last)[:10]:
            print(f"{id}\t{last[id]:.6f}")


if __name__ == "__main__":
    main()

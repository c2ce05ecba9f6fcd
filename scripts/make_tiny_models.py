#!/usr/bin/env python3
"""Tiny models of every family with random weights, and their references by reference_numpy.py.

    python3 scripts/make_tiny_models.py OUT_DIR

For tests/model/test_tiny_models.c: odd sizes (head_dim 40, three query heads to a key-value head, a width
that is no multiple of 32, 257 words) and all that a config can ask for: every rope scaling, windows,
biases, tied and untied heads. One directory each, as Hugging Face has them, with config.json in the
spelling of transformers 5, config.v4.json in that of 4, and reference.safetensors:

    context        1           positions that the numbers below were computed for
    pN.input_ids   T           p0 is one id, p1 23 of them
    pN.embed  pN.final_norm    T, dim
    pN.layer_out.LL            T, dim      the residual stream after layer LL
    pN.attn.LL                 H, T, T     attention weights; exactly 0 where masked
    pN.logits                  T, vocab
    pN.greedy_ids  pN.greedy_logits        8; 8, vocab

The same seeds give the same bytes. A seed whose greedy choices are close is passed over, so that
every program within the budget chooses the same ids. OUT_DIR/models.txt lists what was made.
"""
import json
import os
import sys

import reference_numpy
import tensor_files
from reference_numpy import np

DIM, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, VOCAB, LENGTH = 36, 44, 3, 1, 40, 257, 128
PROMPT, GREEDY, MARGIN = 23, 8, 0.01
SHARD_AT = 5  # tensors of the first of two shards


# ---- configs ----

def decoder(model_type, architecture, **changes):
    """config.json in the form of transformers 5; None removes a key."""
    config = {
        "architectures": [architecture], "model_type": model_type, "dtype": "float32",
        "hidden_size": DIM, "intermediate_size": HIDDEN, "num_hidden_layers": 2,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
        "vocab_size": VOCAB, "max_position_embeddings": LENGTH, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None,
        "pad_token_id": None, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
    config.update(changes)
    return config


def rope(kind, theta=1e4, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


def llama(**changes):
    return decoder("llama", "LlamaForCausalLM", **{"hidden_act": "silu", **changes})


def mistral(window, **changes):
    return decoder("mistral", "MistralForCausalLM", sliding_window=window, **changes)


def qwen2(**changes):
    return decoder("qwen2", "Qwen2ForCausalLM", **changes)


def qwen3(**changes):
    return decoder("qwen3", "Qwen3ForCausalLM", **changes)


def gemma3(full=None, **changes):
    types = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    return decoder("gemma3_text", "Gemma3ForCausalLM", **{
        "hidden_activation": "gelu_pytorch_tanh", "num_hidden_layers": 4, "layer_types": types,
        "_sliding_window_pattern": 3, "sliding_window": 6, "query_pre_attn_scalar": 50,
        "tie_word_embeddings": True, "rope_parameters": {
            "full_attention": full or rope("default", 1e6),
            "sliding_attention": rope("default", 1e4)}, **changes})


def olmo2(**changes):
    return decoder("olmo2", "Olmo2ForCausalLM", **changes)


def windowed(model_type, architecture, **changes):
    """Windows in three layers of four, both dictionaries of rope where `full` is one of them."""
    full = changes.pop("full", None)
    ropes = {"full_attention": full, "sliding_attention": rope("default", full["rope_theta"])} \
        if full else rope("default")
    return decoder(model_type, architecture, **{
        "num_hidden_layers": 4, "sliding_window": 6, "rope_parameters": ropes,
        "layer_types": 3 * ["sliding_attention"] + ["full_attention"], **changes})


def olmo3(**changes):
    return windowed("olmo3", "Olmo3ForCausalLM", **{"full": yarn(), **changes})


def exaone4(**changes):
    return windowed("exaone4", "Exaone4ForCausalLM", **changes)


def hunyuan(**changes):
    return decoder("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", **changes)


def ernie(**changes):
    return decoder("ernie4_5", "Ernie4_5ForCausalLM", **{
        "use_bias": False, "tie_word_embeddings": True, **changes})


def ministral3(**changes):
    return decoder("ministral3", "Ministral3ForCausalLM", **{
        "sliding_window": None, "rope_parameters": yarn(
            original_max_position_embeddings=9, mscale=1.0, mscale_all_dim=1.0,
            llama_4_scaling_beta=0.3), **changes})


def granite(**changes):
    return decoder("granite", "GraniteForCausalLM", **{
        "embedding_multiplier": 3.0, "attention_multiplier": 0.11, "residual_multiplier": 0.6,
        "logits_scaling": 0.7, "hidden_act": "silu", **changes})


def granitemoehybrid(**changes):
    return decoder("granitemoehybrid", "GraniteMoeHybridForCausalLM", **{
        "embedding_multiplier": 2.0, "attention_multiplier": 0.2, "residual_multiplier": 0.7,
        "logits_scaling": 0.5, "position_embedding_type": "rope", "num_local_experts": 0,
        "mamba_n_heads": 2,  # of layers that it has not; transformers wants a divisor of 2 dim
        "shared_intermediate_size": HIDDEN, "intermediate_size": 8,
        "layer_types": 2 * ["attention"], **changes})


def gemma2(**changes):
    return decoder("gemma2", "Gemma2ForCausalLM", **{
        "hidden_activation": "gelu_pytorch_tanh", "num_hidden_layers": 4, "sliding_window": 6,
        "layer_types": 2 * ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 50,
        "attn_logit_softcapping": 4.0, "final_logit_softcapping": 9.0,
        "tie_word_embeddings": True, **changes})


def gpt_neox(**changes):
    return decoder("gpt_neox", "GPTNeoXForCausalLM", **{
        "hidden_act": "gelu", "hidden_size": 120, "head_dim": None, "num_key_value_heads": None,
        "rms_norm_eps": None, "layer_norm_eps": 1e-5, "use_parallel_residual": True,
        "attention_bias": True, "rope_parameters": rope("default", partial_rotary_factor=0.3),
        **changes})


def arcee(**changes):
    return decoder("arcee", "ArceeForCausalLM", **{"hidden_act": "relu2", **changes})


def smollm3(**changes):
    return decoder("smollm3", "SmolLM3ForCausalLM", **{
        "num_hidden_layers": 4, "tie_word_embeddings": True, "use_sliding_window": False,
        "sliding_window": None, **changes})


def phi3(**changes):
    return decoder("phi3", "Phi3ForCausalLM", **{
        "sliding_window": None, "original_max_position_embeddings": LENGTH, "hidden_size": 120,
        "head_dim": None, **changes})


def nanochat(**changes):
    return decoder("nanochat", "NanoChatForCausalLM", **{
        "hidden_act": "relu2", "final_logit_softcapping": 15.0, **changes})


def gpt2(**changes):
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "dtype": "float32",
            "n_embd": 40, "n_head": 5, "n_layer": 2, "n_positions": 40, "n_inner": None,
            "vocab_size": VOCAB, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
            "bos_token_id": None, "eos_token_id": None, **changes}


def llama3_scaling(**changes):
    return rope("llama3", 300.0, **{"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0,
                                    "original_max_position_embeddings": 48, **changes})


def yarn(**changes):
    return rope("yarn", 2000.0, **{"factor": 4.0, "original_max_position_embeddings": 32,
                                   "beta_fast": 4.0, "beta_slow": 0.25, **changes})


def longrope(pairs, **changes):
    """Factors that differ from pair to pair, the long ones about three times the short."""
    short = [1 + 0.05 * i for i in range(pairs)]
    return rope("longrope", **{"short_factor": short,
                               "long_factor": [3 * f + 0.1 * (i % 3) for i, f in enumerate(short)],
                               **changes})


# Name, config, how it is stored, its context (NTK and longrope depend on it).
MODELS = [
    ("llama", llama(), "F32", LENGTH),
    ("llama-tied", llama(tie_word_embeddings=True), "F32", LENGTH),
    ("llama-attention-bias", llama(attention_bias=True), "F32", LENGTH),
    ("llama-six-heads", llama(num_attention_heads=6, num_key_value_heads=2), "F32", LENGTH),
    ("llama-sharded-bf16", llama(), "BF16 in shards", LENGTH),
    ("llama-f16", llama(), "F16", LENGTH),
    ("llama-linear", llama(rope_parameters=rope("linear", factor=2.5)), "F32", LENGTH),
    ("llama-dynamic", llama(rope_parameters=rope("dynamic", factor=2.0),
                            max_position_embeddings=12), "F32", PROMPT + GREEDY),
    ("llama-dynamic-short", llama(rope_parameters=rope("dynamic", factor=2.0)), "F32", LENGTH),
    ("llama-llama3", llama(rope_parameters=llama3_scaling()), "F32", LENGTH),
    ("llama-yarn", llama(rope_parameters=yarn()), "F32", LENGTH),
    ("llama-yarn-defaults", llama(rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=32)), "F32", LENGTH),
    ("llama-yarn-untruncated", llama(rope_parameters=yarn(truncate=False)), "F32", LENGTH),
    ("llama-yarn-mscale", llama(rope_parameters=yarn(mscale=1.2, mscale_all_dim=0.4)), "F32",
     LENGTH),
    ("llama-yarn-attention-factor", llama(rope_parameters=yarn(attention_factor=0.8)), "F32",
     LENGTH),
    ("llama-yarn-factor-from-lengths", llama(rope_parameters=yarn(factor=None)), "F32", LENGTH),
    ("mistral-window", mistral(5), "F32", LENGTH),
    ("mistral-no-window", mistral(None), "F32", LENGTH),
    ("qwen2", qwen2(), "F32", LENGTH),
    ("qwen2-window-from-layer", qwen2(sliding_window=7, use_sliding_window=True,
                                      max_window_layers=1), "F32", LENGTH),
    ("qwen3", qwen3(), "F32", LENGTH),
    ("qwen3-tied-bias", qwen3(attention_bias=True, tie_word_embeddings=True), "F32", LENGTH),
    ("qwen3-window-listed", qwen3(
        sliding_window=4, use_sliding_window=True,
        layer_types=["sliding_attention", "full_attention"]), "F32", LENGTH),
    ("qwen3-yarn", qwen3(rope_parameters=yarn()), "F32", LENGTH),
    ("gemma2", gemma2(), "F32", LENGTH),
    ("gemma2-uncapped", gemma2(attn_logit_softcapping=None, final_logit_softcapping=None), "F32",
     LENGTH),
    ("gemma3", gemma3(), "F32", LENGTH),
    ("gemma3-bf16", gemma3(), "BF16", LENGTH),
    ("gemma3-linear", gemma3(full=rope("linear", 1e6, factor=8.0)), "F32", LENGTH),
    ("gemma3-capped-bias", gemma3(final_logit_softcapping=4.0, attention_bias=True), "F32", LENGTH),
    ("olmo2", olmo2(num_attention_heads=6, num_key_value_heads=2), "F32", LENGTH),
    ("olmo2-bias", olmo2(attention_bias=True), "F32", LENGTH),
    ("olmo3", olmo3(), "F32", LENGTH),
    ("olmo3-theta", olmo3(full=rope("default", 300.0), layer_types=2 * [
        "sliding_attention", "full_attention"]), "F32", LENGTH),
    ("exaone4", exaone4(), "F32", LENGTH),
    ("exaone4-no-window", exaone4(sliding_window=None, layer_types=4 * ["full_attention"],
                                  rope_parameters=llama3_scaling()), "F32", LENGTH),
    ("hunyuan_v1_dense", hunyuan(rope_parameters=rope("dynamic", factor=1.0, alpha=50.0)), "F32", LENGTH),
    ("ernie4_5", ernie(), "F32", LENGTH),
    ("arcee", arcee(rope_parameters=yarn()), "F32", LENGTH),
    ("ministral3", ministral3(), "F32", LENGTH),
    ("granite", granite(), "F32", LENGTH),
    ("granite-bias", granite(attention_bias=True, tie_word_embeddings=True), "F32", LENGTH),
    ("granitemoehybrid", granitemoehybrid(), "F32", LENGTH),
    ("granitemoehybrid-nope", granitemoehybrid(position_embedding_type="nope"), "F32", LENGTH),
    ("gpt_neox", gpt_neox(), "F32", LENGTH),
    ("gpt_neox-one-after-another", gpt_neox(use_parallel_residual=False,
                                            tie_word_embeddings=True), "F32", LENGTH),
    ("smollm3", smollm3(no_rope_layers=[1, 0, 1, 1]), "F32", LENGTH),
    ("smollm3-interval", smollm3(no_rope_layer_interval=2), "F32", LENGTH),
    ("smollm3-window", smollm3(no_rope_layers=[1, 0, 0, 1], use_sliding_window=True,
                               sliding_window=6), "F32", LENGTH),
    ("phi3", phi3(), "F32", LENGTH),
    ("phi3-window", phi3(sliding_window=9), "F32", LENGTH),
    ("phi3-partial", phi3(rope_parameters=rope("default", partial_rotary_factor=0.75)), "F32",
     LENGTH),
    ("phi3-partial-odd", phi3(rope_parameters=rope("default", partial_rotary_factor=0.375)), "F32",
     LENGTH),
    ("phi3-longrope-long", phi3(rope_parameters=longrope(20),
                                original_max_position_embeddings=16), "F32", LENGTH),
    ("phi3-longrope-short", phi3(rope_parameters=longrope(20),
                                 original_max_position_embeddings=64), "F32", PROMPT + GREEDY),
    ("phi3-longrope-partial", phi3(
        rope_parameters=longrope(15, partial_rotary_factor=0.75, attention_factor=1.1),
        original_max_position_embeddings=16), "F32", LENGTH),
    ("nanochat", nanochat(), "F32", LENGTH),
    ("nanochat-uncapped-bias", nanochat(final_logit_softcapping=None, attention_bias=True), "F32",
     LENGTH),
    ("gpt2", gpt2(), "F32", 40),
    ("gpt2-by-layer", gpt2(scale_attn_by_inverse_layer_idx=True, n_inner=52), "F32", 40),
    ("gpt2-unscaled-erf", gpt2(scale_attn_weights=False, activation_function="gelu"), "F32", 40),
]


def older(config):
    """The same in the form of transformers 4."""
    old = dict(config)
    old["torch_dtype"] = old.pop("dtype")
    parameters = old.pop("rope_parameters", None)
    if parameters is None:
        return old
    if old["model_type"] == "olmo3":
        parameters = parameters["full_attention"]
    if "full_attention" in parameters:
        old["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
        old["sliding_window_pattern"] = old.pop("_sliding_window_pattern")
        old.pop("layer_types")
        parameters = parameters["full_attention"]
    parameters = dict(parameters)
    neox = old["model_type"] == "gpt_neox"
    old["rotary_emb_base" if neox else "rope_theta"] = parameters.pop("rope_theta")
    if "partial_rotary_factor" in parameters:
        old["rotary_pct" if neox else "partial_rotary_factor"] = \
            parameters.pop("partial_rotary_factor")
    kind = parameters.pop("rope_type")
    key = "rope_type" if "rope_local_base_freq" in old else "type"  # Gemma 3 is newer
    old["rope_scaling"] = None if kind == "default" else {key: kind, **parameters}
    return old


# ---- weights ----

def shapes(c, m):
    """Every tensor of the family by its name in the file: (shape, mean, deviation)."""
    if m.family == "gpt2":
        return gpt2_shapes(c, m)
    if m.family == "gpt_neox":
        return gpt_neox_shapes(c, m)
    q_dim, kv_dim, gemma = m.n_heads * m.head_dim, m.n_kv_heads * m.head_dim, \
        m.family in ("gemma2", "gemma3_text")
    # Scores with a deviation of about 1.5, so that a wrong angle is seen, logits with one of 2.
    wide, ffn = m.dim ** -0.5, m.hidden_dim ** -0.5
    norm = (0.0 if gemma else 1.0, 0.3)
    out = {"model.embed_tokens.weight": ((VOCAB, m.dim), 0, 2 * wide)}
    for l in range(m.n_layers):
        at, mlp = f"model.layers.{l}.self_attn.", f"model.layers.{l}.mlp."
        if m.family == "phi3":
            out[at + "qkv_proj.weight"] = ((q_dim + 2 * kv_dim, m.dim), 0, 1.25 * wide)
            out[mlp + "gate_up_proj.weight"] = ((2 * m.hidden_dim, m.dim), 0, 1.5 * wide)
        else:
            for letter, rows in (("q", q_dim), ("k", kv_dim), ("v", kv_dim)):
                out[f"{at}{letter}_proj.weight"] = ((rows, m.dim), 0, 1.25 * wide)
                if c.get("attention_bias") or m.family == "qwen2":
                    out[f"{at}{letter}_proj.bias"] = ((rows,), 0, 0.3)
        out[at + "o_proj.weight"] = ((m.dim, q_dim), 0, 1.2 * q_dim ** -0.5)
        if c.get("attention_bias"):
            out[at + "o_proj.bias"] = ((m.dim,), 0, 0.3)
        if m.qk_norm in ("head", "row"):
            widths = (q_dim, kv_dim) if m.qk_norm == "row" else (m.head_dim, m.head_dim)
            out[at + "q_norm.weight"] = ((widths[0],), norm[0] + 0.2, 0.3)
            out[at + "k_norm.weight"] = ((widths[1],), norm[0] + 0.2, 0.3)
        if m.family == "hunyuan_v1_dense":
            out[at + "query_layernorm.weight"] = ((m.head_dim,), 1.2, 0.3)
            out[at + "key_layernorm.weight"] = ((m.head_dim,), 1.2, 0.3)
        if m.family == "nanochat":
            out[mlp + "fc1.weight"] = ((m.hidden_dim, m.dim), 0, wide)
            out[mlp + "fc2.weight"] = ((m.dim, m.hidden_dim), 0, ffn)
            continue
        if m.family == "granitemoehybrid":
            mlp = f"model.layers.{l}.shared_mlp."
            out[mlp + "input_linear.weight"] = ((2 * m.hidden_dim, m.dim), 0, 1.5 * wide)
            out[mlp + "output_linear.weight"] = ((m.dim, m.hidden_dim), 0, ffn)
        elif m.family != "phi3":
            if m.gated:
                out[mlp + "gate_proj.weight"] = ((m.hidden_dim, m.dim), 0, 1.5 * wide)
            out[mlp + "up_proj.weight"] = ((m.hidden_dim, m.dim), 0, 1.5 * wide)
        if m.family != "granitemoehybrid":
            out[mlp + "down_proj.weight"] = ((m.dim, m.hidden_dim), 0, ffn)
        names = {"before": ["input_layernorm", "post_attention_layernorm"],
                 "after": ["post_attention_layernorm", "post_feedforward_layernorm"],
                 "both": ["input_layernorm", "post_attention_layernorm",
                          "pre_feedforward_layernorm", "post_feedforward_layernorm"]}[m.norms]
        for name in names:
            out[f"model.layers.{l}.{name}.weight"] = ((m.dim,), *norm)
    if m.family != "nanochat":
        out["model.norm.weight"] = ((m.dim,), *norm)
    if not m.tied:
        out["lm_head.weight"] = ((VOCAB, m.dim), 0, 2 * wide)
    return out


def gpt2_shapes(c, m):
    wide = m.dim ** -0.5
    out = {"transformer.wte.weight": ((VOCAB, m.dim), 0, 2 * wide),
           "transformer.wpe.weight": ((c["n_positions"], m.dim), 0, wide)}
    for l in range(m.n_layers):
        at = f"transformer.h.{l}."
        for part, rows, columns, deviation in (
                ("attn.c_attn", m.dim, 3 * m.dim, 1.25 * wide), ("attn.c_proj", m.dim, m.dim, wide),
                ("mlp.c_fc", m.dim, m.hidden_dim, 1.5 * wide),
                ("mlp.c_proj", m.hidden_dim, m.dim, m.hidden_dim ** -0.5)):
            out[f"{at}{part}.weight"] = ((rows, columns), 0, deviation)
            out[f"{at}{part}.bias"] = ((columns,), 0, 0.3)
        for part in ("ln_1", "ln_2"):
            out[f"{at}{part}.weight"] = ((m.dim,), 1, 0.3)
            out[f"{at}{part}.bias"] = ((m.dim,), 0, 0.3)
    out["transformer.ln_f.weight"] = ((m.dim,), 1, 0.3)
    out["transformer.ln_f.bias"] = ((m.dim,), 0, 0.3)
    return out


def gpt_neox_shapes(c, m):
    wide, q_dim = m.dim ** -0.5, m.n_heads * m.head_dim
    out = {"gpt_neox.embed_in.weight": ((VOCAB, m.dim), 0, 2 * wide)}
    for l in range(m.n_layers):
        at = f"gpt_neox.layers.{l}."
        for part, rows, columns, deviation in (
                ("attention.query_key_value", 3 * q_dim, m.dim, 1.25 * wide),
                ("attention.dense", m.dim, q_dim, wide),
                ("mlp.dense_h_to_4h", m.hidden_dim, m.dim, 1.5 * wide),
                ("mlp.dense_4h_to_h", m.dim, m.hidden_dim, m.hidden_dim ** -0.5)):
            out[f"{at}{part}.weight"] = ((rows, columns), 0, deviation)
            out[f"{at}{part}.bias"] = ((rows,), 0, 0.3)
        for part in ("input_layernorm", "post_attention_layernorm"):
            out[f"{at}{part}.weight"] = ((m.dim,), 1, 0.3)
            out[f"{at}{part}.bias"] = ((m.dim,), 0, 0.3)
    out["gpt_neox.final_layer_norm.weight"] = ((m.dim,), 1, 0.3)
    out["gpt_neox.final_layer_norm.bias"] = ((m.dim,), 0, 0.3)
    if not m.tied:
        out["embed_out.weight"] = ((VOCAB, m.dim), 0, 2 * wide)
    return out


def random_tensors(c, m, seed):
    random = np.random.RandomState(seed)  # numpy guarantees that its stream never changes
    return {name: (mean + deviation * random.standard_normal(shape)).astype(np.float32)
            for name, (shape, mean, deviation) in shapes(c, m).items()}


# ---- one directory ----

def write_weights(directory, tensors, stored):
    dtype = stored.split()[0]
    if "shards" not in stored:
        tensor_files.write(os.path.join(directory, "model.safetensors"), tensors,
                           {"format": "pt"}, dtype)
        return
    names = list(tensors)
    parts = {"model-00001-of-00002.safetensors": names[:SHARD_AT],
             "model-00002-of-00002.safetensors": names[SHARD_AT:]}
    for file, part in parts.items():
        tensor_files.write(os.path.join(directory, file), {n: tensors[n] for n in part}, None, dtype)
    with open(os.path.join(directory, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": {n: f for f, part in parts.items() for n in part}},
                  file)


def prompt_reference(m, w, prompt, ids, context, out):
    """Writes the reference of one prompt to `out`; returns the smallest margin of its greedy ids."""
    names = {"embed_tokens": "embed", "embed_norm": "embed", "norm": "final_norm",
             "lm_head": "logits", "logits": "logits"}

    def watch(name, values):
        parts = name.split(".")
        if len(parts) == 2:
            name = f"layer_out.{int(parts[1]):02d}"
        elif parts[-1] == "attn_weights":
            name = f"attn.{int(parts[1]):02d}"
        elif name in names:
            name = names[name]
        else:
            return
        out[f"{prompt}.{name}"] = values
    out[prompt + ".input_ids"] = ids
    reference_numpy.forward(m, w, ids, context, watch)
    greedy_ids, rows = reference_numpy.greedy(m, w, ids, GREEDY, context)
    out[prompt + ".greedy_ids"], out[prompt + ".greedy_logits"] = np.array(greedy_ids), rows
    best = np.sort(rows, -1)
    return (best[:, -1] - best[:, -2]).min()


def make(directory, number, config, stored, context):
    os.makedirs(directory, exist_ok=True)
    config = {key: value for key, value in config.items()
              if value is not None or key in ("sliding_window", "attn_logit_softcapping",
                                              "final_logit_softcapping")
              or key.endswith("token_id")}
    for file, spelling in (("config.json", config), ("config.v4.json", older(config))):
        with open(os.path.join(directory, file), "w") as out:
            json.dump(spelling, out, indent=1)
    m = reference_numpy.read_config(os.path.join(directory, "config.json"))
    for seed in range(1000 * number, 1000 * number + 100):
        write_weights(directory, random_tensors(config, m, seed), stored)
        m, w = reference_numpy.open_model(directory)  # as stored: f16 and bf16 are rounded
        random, out = np.random.RandomState(seed), {"context": np.array([context])}
        margins = [prompt_reference(m, w, prompt, random.randint(0, VOCAB, count), context, out)
                   for prompt, count in (("p0", 1), ("p1", PROMPT))]
        if min(margins) > MARGIN:
            tensor_files.write(os.path.join(directory, "reference.safetensors"), out)
            return
    sys.exit(f"make_tiny_models: {directory}: no seed gives clear greedy margins")


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.split("\n\n")[1].strip())
    folder = sys.argv[1]
    for number, (name, config, stored, context) in enumerate(MODELS):
        make(os.path.join(folder, name), number, config, stored, context)
    with open(os.path.join(folder, "models.txt"), "w") as file:  # written last: then all models exist
        file.writelines(name + "\n" for name, *_ in MODELS)


if __name__ == "__main__":
    main()

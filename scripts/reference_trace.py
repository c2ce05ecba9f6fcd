#!/usr/bin/env python3
"""A trace computed by transformers: every stage of a forward pass, in float32, with eager attention.

    python3 scripts/reference_trace.py MODEL_DIR --prompt-ids 1,2,3 --out ref.safetensors
    python3 scripts/reference_trace.py --gguf FILE --prompt-ids 1,2,3 --out ref.safetensors

    run trace MODEL_DIR --prompt-ids 1,2,3 --precision f32 --out ours.safetensors
    run diff ref.safetensors ours.safetensors

Names and shapes are those of docs/trace.md. Needs torch and transformers (gguf for --gguf).
"""
import argparse
import os
import sys
from types import SimpleNamespace

os.environ["TQDM_DISABLE"] = "1"  # no progress bars
from common import need_modules

need_modules("pip install torch --index-url https://download.pytorch.org/whl/cpu && pip install transformers gguf numpy",
             "numpy", "torch", "transformers")
import numpy as np
import torch
import transformers

import tensor_files

# Modules whose output is a stage with the module's name. Not MLP and attention: their output is that of
# their last matrix.
STAGES = ("embed_tokens", "drop", "input_layernorm", "post_attention_layernorm",
          "pre_feedforward_layernorm", "post_feedforward_layernorm", "ln_1", "ln_2", "ln_f", "norm",
          "q_proj", "k_proj", "v_proj", "q_norm", "k_norm", "query_layernorm", "key_layernorm", "o_proj", "c_proj", "c_fc", "gate_proj",
          "up_proj", "down_proj", "fc1", "fc2", "lm_head", "output_linear", "embed_in", "dense",
          "dense_h_to_4h", "dense_4h_to_h", "final_layer_norm")
# Their output has several stages side by side.
FUSED = {"c_attn": ("q", "k", "v"), "qkv_proj": ("q", "k", "v"), "query_key_value": ("q", "k", "v"),
         "gate_up_proj": ("gate", "up"), "input_linear": ("gate", "up")}
LAYERS = ("layers", "h")
# The input of these is a stage as well.
INPUTS = {"self_attn.o_proj": "self_attn.heads", "attn.c_proj": "attn.heads",
          "mlp.down_proj": "mlp.activated", "mlp.c_proj": "mlp.activated", "mlp.fc2": "mlp.activated",
          "attention.dense": "attention.heads", "mlp.dense_4h_to_h": "mlp.activated",
          "shared_mlp.output_linear": "shared_mlp.activated"}
# The residual stream between the blocks is the input of the second norm, or of the MLP without one.
SECOND = {"gemma2": "pre_feedforward_layernorm", "gemma3_text": "pre_feedforward_layernorm",
          "olmo2": "mlp", "olmo3": "mlp", "exaone4": "mlp", "gpt2": "ln_2"}
HEADS_FIRST = ("gemma3_text", "nanochat", "exaone4", "hunyuan_v1_dense")  # their QK norms see (heads, T, head_dim)
QK_NORMS = ("q_norm", "k_norm", "query_layernorm", "key_layernorm")
QK_TURNED = ("q_proj", "k_proj", "q_rotated", "k_rotated")


class Recorder:
    """Forward hooks on a model, and the tensors they recorded, in order of computation."""

    def __init__(self, model):
        self.config = model.config.get_text_config()
        self.family = self.config.model_type
        self.tensors, self.attention = {}, None
        self.parallel = getattr(self.config, "use_parallel_residual", False)
        for name, module in model.named_modules():
            # In multimodal Gemma 3 the text model is one level deeper.
            self.hook(name.replace("model.language_model.", "model."), module)
        modeling = sys.modules[type(model).__module__]
        self.hook_rope(modeling)
        self.hook_growth(modeling)

    def keep(self, name, values):
        self.tensors[name] = values.detach().float().numpy().copy()

    def keep_rows(self, name, values):
        """(1, T, width) or (1, T, heads, head_dim) -> (T, width)."""
        values = values[0].reshape(values.shape[1], -1)
        if self.family == "ernie4_5" and name.endswith(QK_TURNED):  # pairs side by side -> halves
            pairs = values.reshape(len(values), -1, self.head_dim() // 2, 2)
            values = pairs.swapaxes(2, 3).reshape(len(values), -1)
        self.keep(name, values)

    def hook(self, name, module):
        parts = name.split(".")
        last, pair = parts[-1], ".".join(parts[-2:])
        if pair in INPUTS:
            module.register_forward_pre_hook(
                lambda _, args: self.enter_last_matrix(name[:-len(pair)], INPUTS[pair], args[0]))
        if last == SECOND.get(self.family, "post_attention_layernorm") and not self.parallel:
            module.register_forward_pre_hook(
                lambda _, args: self.keep_rows(name[:-len(last)] + "attn_residual", args[0]))
        if last in ("self_attn", "attn", "attention"):
            module.register_forward_pre_hook(lambda *_: setattr(self, "attention", name))
            module.register_forward_hook(
                lambda _, args, out: self.keep(name + ".attn_weights", out[1][0]))
        if last in STAGES:
            module.register_forward_hook(lambda _, args, out: self.leave(name, last, out))
        if last in FUSED:
            module.register_forward_hook(lambda _, args, out: self.split(name, last, out))
        if len(parts) > 1 and parts[-2] in LAYERS:
            module.register_forward_pre_hook(lambda _, args: self.enter_layer(name, args[0]))
            module.register_forward_hook(
                lambda _, args, out: self.keep_rows(name, out[0] if isinstance(out, tuple) else out))

    def enter_layer(self, name, values):
        if name == "model.layers.0" and self.family.startswith("granite"):
            self.keep_rows("model.embed_tokens", values)  # the module's output times a multiplier
        self.entered = values

    def enter_last_matrix(self, at, stage, values):
        if stage.endswith("heads"):  # the weights are computed before, but their hook runs later
            self.tensors[at + stage.replace("heads", "attn_weights")] = None
        self.keep_rows(at + stage, values)

    def leave(self, name, last, out):
        if last == "norm" and self.family == "nanochat" and "model.embed_norm" not in self.tensors:
            name = "model.embed_norm"  # the same module, called before and after the layers
        if last in QK_NORMS and self.family in HEADS_FIRST:
            out = out.transpose(1, 2)
        self.keep_rows(name, out)
        factor = getattr(self.config, "residual_multiplier", 1)
        if factor != 1 and last in ("o_proj", "down_proj", "output_linear"):
            self.keep_rows(name[:-len(last)] + "scaled", factor * out)
        if last == "dense" and self.parallel:  # no module sees this sum
            self.keep_rows(name[:-len("attention.dense")] + "attn_residual", self.entered + out)

    def head_dim(self):
        c = self.config
        return getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads

    def split(self, name, last, out):
        c = self.config
        kv_heads = getattr(c, "num_key_value_heads", c.num_attention_heads)
        widths = [self.head_dim() * n for n in (c.num_attention_heads, kv_heads, kv_heads)]
        if last == "query_key_value":  # of one head after another
            parts = out.reshape(*out.shape[:2], -1, 3, self.head_dim()).unbind(3)
        elif len(FUSED[last]) == 2:
            parts = out.chunk(2, -1)
        else:
            parts = torch.split(out, widths, -1)
        for part, values in zip(FUSED[last], parts):
            self.keep_rows(f"{name}.{part}", values)

    def hook_rope(self, modeling):
        turn = getattr(modeling, "apply_rotary_pos_emb", None)
        if not turn:
            return

        def watched(*args, **kwargs):
            q, k = turn(*args, **kwargs)
            self.keep_rows(self.attention + ".q_rotated", q.transpose(1, 2))
            self.keep_rows(self.attention + ".k_rotated", k.transpose(1, 2))
            return q, k
        modeling.apply_rotary_pos_emb = watched

    def hook_growth(self, modeling):
        """Ministral 3: what the queries are multiplied with after RoPE counts to that stage."""
        growth = getattr(modeling, "get_llama_4_attn_scale", None)
        if not growth:
            return

        def watched(*args, **kwargs):
            factors = growth(*args, **kwargs)  # (1, 1, T, 1)
            self.tensors[self.attention + ".q_rotated"] *= factors[0, 0].numpy()
            return factors
        modeling.get_llama_4_attn_scale = watched

    def run(self, model, ids):
        self.tensors = {"input_ids": np.array(ids)}
        with torch.no_grad():
            logits = model(torch.tensor([ids]), use_cache=False).logits
        c = self.config
        if getattr(c, "final_logit_softcapping", None) or getattr(c, "logits_scaling", 1) != 1:
            self.keep_rows("logits", logits)
        return self.tensors

    def shape(self):
        c = self.config
        heads = c.num_attention_heads
        return SimpleNamespace(
            family=self.family, dim=c.hidden_size, n_layers=c.num_hidden_layers, n_heads=heads,
            hidden_dim=getattr(c, "intermediate_size", getattr(c, "n_inner", None))
            or 4 * c.hidden_size,
            n_kv_heads=getattr(c, "num_key_value_heads", heads), vocab_size=c.vocab_size,
            head_dim=self.head_dim())


def open_model(directory, gguf):
    """Loads the model in float32, whatever the type of its tensors."""
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    more = {"gguf_file": os.path.basename(gguf)} if gguf else {}
    directory = (os.path.dirname(gguf) or ".") if gguf else directory
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", **more)
    return model.eval()


def greedy(model, ids, count):
    for _ in range(count):
        with torch.no_grad():
            ids = ids + [int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax())]
    return ids[len(ids) - count:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", metavar="MODEL_DIR", nargs="?")
    parser.add_argument("--gguf", metavar="FILE", help="read this file instead of a directory")
    tensor_files.add_trace_options(parser)
    args = parser.parse_args()
    if bool(args.model) == bool(args.gguf) or not (args.out or args.greedy):
        parser.error("wanted MODEL_DIR or --gguf FILE, and --out or --greedy")
    if args.out:
        tensor_files.check_output(args.out, args.gguf or args.model, args.force)
    model = open_model(args.model, args.gguf)
    ids = tensor_files.parse_ids(args.prompt_ids, model.config.vocab_size)
    if args.greedy:
        print(*greedy(model, ids, args.greedy), sep="\n")
    if args.out:
        recorder = Recorder(model)
        tensor_files.write_trace(args.out, recorder.run(model, ids),
                                 f"transformers {transformers.__version__}",
                                 args.gguf or args.model, recorder.shape())


if __name__ == "__main__":
    main()

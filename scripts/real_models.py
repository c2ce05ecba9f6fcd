#!/usr/bin/env python3
"""What transformers computes in float32 from a GGUF file of a real model: the numbers that
tests/commands/test_real_models.c and `run perplexity --kl` hold limpid against.

    python scripts/real_models.py models/SmolLM2-135M-Instruct.Q4_1.gguf --out tests/real/smollm2.txt
    python scripts/real_models.py models/gemma-3-270m-Q4_K_M.gguf --out tests/real/gemma3-270m.txt
    python scripts/real_models.py MODEL.gguf --logits build/real.safetensors --windows 8

Needs torch, transformers, gguf and safetensors (PyPI). transformers dequantises the file's weights
to float32 (`gguf_file=`) and computes with `attn_implementation="eager"`; the text is cut into ids by
limpid's own tokenizer, so that both are given the same ids.

--out writes a few kilobytes of text, one record a line:

    prompt ID ..      the ids of a prompt, BOS among them where the model's prompts begin with it
    greedy ID ..      the 64 ids that greedy decoding appends (nothing ends it)
    margin M ..       by how much each of them led the second best, in logits
    logits ID:L ..    after the prompt: the 16 largest logits, and 240 others spread evenly
    nll N ..          of each of the first 64 windows of 512 tokens of the text, the mean negative log
                      likelihood of the tokens behind the middle (as `perplexity --second-half`)

--logits writes the logits of the first --windows windows as `run perplexity --save-logits` does.
"""
import argparse
import io
import json
import os
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from common import end_with, need_modules, write_whole

need_modules("pip install torch --index-url https://download.pytorch.org/whl/cpu && pip install transformers gguf safetensors numpy",
             "numpy", "torch", "transformers", "gguf", "safetensors")
import numpy as np
import torch
import transformers

WINDOW, N_GREEDY, N_LARGEST, N_SPREAD = 512, 64, 16, 240
CHAT = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n" \
       "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = [
    "Once upon a time",
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "In July 1969, two astronauts",
    "Water boils at 100 degrees because",
]


class Model:
    def __init__(self, path, program, threads):
        self.program = program
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.path = path
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            os.path.dirname(path) or ".", gguf_file=os.path.basename(path), dtype=torch.float32, attn_implementation="eager").eval()
        self.config = self.model.config
        self.adds_bos = "(added)" in next(l for l in self.limpid("inspect", path).split("\n") if l.startswith("tokenizer"))

    def limpid(self, *arguments):
        return subprocess.run([self.program, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout

    def encode(self, text):
        command = ["tokenize", self.path, "--special", "-i", text] + (["--bos"] if self.adds_bos else [])
        return [int(i) for i in self.limpid(*command).split()]

    def greedy(self, ids):
        """Greedy ids, their margins, and the logits after the prompt."""
        made, margins, first, cache, given = [], [], None, None, ids
        for _ in range(N_GREEDY):
            out = self.model(torch.tensor([given]), past_key_values=cache, use_cache=True)
            logits, cache = out.logits[0, -1], out.past_key_values
            first = logits.numpy() if first is None else first
            best = torch.topk(logits, 2)
            made.append(int(best.indices[0]))
            margins.append(float(best.values[0] - best.values[1]))
            given = made[-1:]
        return made, margins, first

    def windows(self, ids, count):
        """For each window: the logits that predict the tokens of its second half, and these tokens."""
        for w in range(min(count, len(ids) // WINDOW)):
            window = ids[w * WINDOW:(w + 1) * WINDOW]
            targets = window[WINDOW // 2 + 1:]
            if self.adds_bos:
                window = [self.config.bos_token_id] + window[1:]
            hidden = self.model.model(torch.tensor([window]), use_cache=False).last_hidden_state
            yield self.model.lm_head(hidden[0, WINDOW // 2:-1]), targets


def text_ids(model, path):
    """The ids of the text as `run perplexity` has them: with BOS in front if prompts begin with it."""
    command = ["tokenize", model.path, "-f", path] + (["--bos"] if model.adds_bos else [])
    return [int(i) for i in model.limpid(*command).split()]


def numbers(values, form):
    return " ".join(form % v for v in values)


def write_expected(model, args, out):
    print(f"# {os.path.basename(args.model)}: torch {torch.__version__}, transformers {transformers.__version__}, float32;", file=out)
    print(f"# made by scripts/real_models.py, which explains the lines", file=out)
    last = CHAT if model.config.model_type == "llama" else "Question: Why is the sky blue?\nAnswer:"
    for prompt in [*PROMPTS, last]:
        ids = model.encode(prompt)
        made, margins, logits = model.greedy(ids)
        largest = np.argsort(-logits)[:N_LARGEST]
        spread = np.linspace(0, len(logits) - 1, N_SPREAD).astype(int)
        print("prompt", numbers(ids, "%d"), file=out)
        print("greedy", numbers(made, "%d"), file=out)
        print("margin", numbers(margins, "%.4f"), file=out)
        print("logits", " ".join(f"{i}:{logits[i]:.5f}" for i in [*largest, *spread]), file=out)
    losses = []
    for logits, targets in model.windows(text_ids(model, args.text), args.windows):
        logits = logits.double()
        losses.append(float((logits.logsumexp(1) - logits[torch.arange(len(targets)), targets]).mean()))
        print(f"window {len(losses)}: perplexity {np.exp(np.mean(losses)):.5f}", file=sys.stderr, flush=True)
    print("nll", numbers(losses, "%.6f"), file=out)


def fnv1a(data):
    hash = 0xCBF29CE484222325
    for byte in data:
        hash = (hash ^ byte) * 0x100000001B3 % 2**64
    return hash


def write_logits(model, args):
    """Writes the format of commands/perplexity/saved_logits.h, one window at a time."""
    ids = text_ids(model, args.text)
    count = min(args.windows, len(ids) // WINDOW)
    rows, vocab_size = count * (WINDOW // 2 - 1), model.config.vocab_size
    targets = [t for w in range(count) for t in ids[w * WINDOW + WINDOW // 2 + 1:(w + 1) * WINDOW]]
    header = {
        "__metadata__": {
            "format": "limpid-logits", "vocab_size": str(vocab_size), "window": str(WINDOW), "stride": str(WINDOW), "second_half": "true",
            "text_hash": f"{fnv1a(np.array(ids[:count * WINDOW], '<i4').tobytes()):016x}", "model": os.path.basename(args.model),
            "precision": "float32 of transformers", "kv": "none"},
        "targets": {"dtype": "I64", "shape": [rows], "data_offsets": [0, 8 * rows]},
        "logits": {"dtype": "F32", "shape": [rows, vocab_size], "data_offsets": [8 * rows, 8 * rows + 4 * rows * vocab_size]}}
    text = json.dumps(header).encode()
    with open(args.logits, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + np.array(targets, "<i8").tobytes())
        for w, (logits, _) in enumerate(model.windows(ids, count)):
            out.write(logits.numpy().astype("<f4").tobytes())
            print(f"window {w + 1} of {count}", file=sys.stderr, flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", help="a GGUF file that transformers can read")
    p.add_argument("--out")
    p.add_argument("--logits", help="a file for `run perplexity --kl`")
    p.add_argument("--program", default="./run", help="limpid, which tokenizes the text")
    p.add_argument("--text", default="../shared/data/text/wiki.test.raw")
    p.add_argument("--windows", type=int, default=64)
    p.add_argument("--threads", type=int, default=1)
    args = p.parse_args()
    os.chdir(os.path.dirname(os.path.abspath(__file__)) + "/..")
    started = time.time()
    model = Model(args.model, args.program, args.threads)
    if args.out:
        text = io.StringIO()
        write_expected(model, args, text)
        write_whole(args.out, text.getvalue())
    if args.logits:
        write_logits(model, args)
    print(f"real_models: {time.time() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    end_with(main)

#!/usr/bin/env python3
"""Trains the model that is built into limpid, on a CPU or a GPU: text in, a Hugging Face directory out.

    python3 -m venv v && v/bin/pip install torch 'sentencepiece>=0.2.3' safetensors numpy
    v/bin/python training/train_builtin_model.py --text stories.txt --told 'told_*.txt' --out DIR

The architecture is nanochat's of October 2025: an RMS norm after the embedding, rotary positions,
then a norm without weights on queries and keys, grouped queries, squared ReLU, logits capped at 15.
Matrices learn by Muon (K. Jordan 2024), the embedding and the head by AdamW.

--text     real stories, each followed by <|endoftext|>; 60 are held back. They are seen many times, each
           time with other people and things and split into other tokens (BPE dropout, arXiv
           1910.13267), so that they are not memorised
--told     stories of a model that tells such stories well (training/tune_teller.py,
           training/sample_stories). Those that do not repeat themselves are used as real ones are
--sampled  stories of a very small model. Those that also stay with their people and things are used
           behind the token <sampled>, so that the model learns from them and can tell them apart; their
           share falls during the run. Without --sampled or --told there is more real text
--taught   the real stories, as they are and retold, with a large model's distribution at each token
           (training/teach_stories, arXiv 1503.02531): targets beside the text. In the last third of
           the run the text is the only target, which restores the style of the stories
--out      a folder, new or of a run to go on with: checkpoint.pt (an interrupted run continues from it,
           with the same text, seed, --rows and shape), tokenizer.sha256 (of what the tokenizer was made
           of), log.csv, and at the end model/: config.json, model.safetensors (transformers:
           NanoChatForCausalLM) and tokenizer.model

In the last twelfth the model is also trained not to repeat itself, on stories of its own: a model that
has seen this little text falls into loops (training/own_text.py, arXiv 1908.04319).

The length is --steps, or --minutes of wall-clock time, for which the learning rate follows the time that
is left. With --steps, --type and --threads the numbers are reproducible on CPUs of the same kind, also
for a run that was interrupted and continued.
"""
import csv
import json
import math
import os
import random
import shutil
import sysconfig
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic; read when torch begins

from own_text import OwnText
from stories import PIP_INSTALL, digest, packages, stop
from training_arguments import check_inputs, make_out, parse_arguments

with packages(PIP_INSTALL):
    import torch
    from safetensors.torch import save_file

    from training_model import CAP, HEAD_DIM, THETA, Model
    from training_rows import BOS, EOS
    from training_text import CONTEXT, PLAN, SHORT, Text

OWN_ROWS, UNLIKELIHOOD = 40, 3.0  # per step; the weight of unlikelihood beside the text


# ---- evaluation ----

def bits_per_byte(model, ids, n_bytes, device):
    """As `run perplexity` computes it: adjacent windows, every token but the first scored once."""
    places = -(-(len(ids) - 1) // CONTEXT) * CONTEXT
    rows = torch.tensor((ids + [0] * CONTEXT)[:places + 1])
    shares = (torch.arange(1, places + 1) < len(ids)).float()
    total = 0.0
    model.eval()
    with torch.no_grad():
        for begin in range(0, places, CONTEXT):
            share = shares[None, begin:begin + CONTEXT, None]
            loss = model(rows[None, begin:begin + CONTEXT].to(device),
                         rows[None, begin + 1:begin + CONTEXT + 1, None].to(device), share.to(device))
            total += float(loss)
    model.train()
    return total / math.log(2) / n_bytes


# ---- optimisation ----

def faster_type(device):
    """bfloat16 where its products are faster than those of float32, which is not so on every CPU that has it."""
    if device == "cuda":
        return torch.bfloat16
    seconds = {}
    for dtype in (torch.bfloat16, torch.float32):
        a, b = torch.ones(4096, 192, dtype=dtype), torch.ones(192, 768, dtype=dtype)
        times = []
        for _ in range(10):
            begun = time.monotonic()
            a @ b
            times.append(time.monotonic() - begun)
        seconds[dtype] = min(times)
    return min(seconds, key=seconds.get)


def orthogonal(g, dtype):
    """Approximately the orthogonal matrix nearest to g, by five Newton-Schulz steps."""
    x = g.to(dtype)
    x = x.T if g.shape[0] > g.shape[1] else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x.T if g.shape[0] > g.shape[1] else x).to(g.dtype)


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, dtype, lr, momentum=0.95, weight_decay=0.1):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
        self.dtype = dtype

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                mean = state.setdefault("mean", torch.zeros_like(p))
                mean.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(mean, group["momentum"]), self.dtype)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def make_optimizers(model, rate, dtype):
    matrices = [p for p in model.layers.parameters()]
    adam = torch.optim.AdamW([dict(params=[model.embedding.weight], lr=0.05 * rate),
                              dict(params=[model.head.weight], lr=0.005 * rate)],
                             betas=(0.8, 0.95), eps=1e-10, weight_decay=0.01, foreach=False)
    optimizers = [Muon(matrices, dtype, lr=0.02 * rate), adam]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["full_lr"] = group["lr"]
    return optimizers


def set_rate(optimizers, step, done):
    """done: the share of the run that is over, 0 to 1."""
    factor = min(1, (step + 1) / PLAN.warmup_steps, (1 - done) / (1 - PLAN.level_until))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["full_lr"] * max(factor, 0)


class Run:
    """What a checkpoint holds: the model, the optimisers, and the progress of the run."""

    def __init__(self, args, shape):
        self.args, self.shape = args, shape
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.dtype = getattr(torch, args.type) if args.type else faster_type(self.device)
        print(f"products in {self.dtype}", flush=True)
        torch.manual_seed(args.seed)
        self.text = Text(args)
        self.model = Model(shape).to(self.device)
        self.optimizers = make_optimizers(self.model, args.rate, self.dtype)
        self.random = random.Random(args.seed)
        self.step, self.seconds, self.tokens = 0, 0.0, 0
        self.mean_loss = None  # over about twenty steps
        self.own = OwnText(self.text, args.seed, BOS, EOS, SHORT)
        self.own_generator = torch.Generator()  # for sampling its own stories
        self.own_generator.manual_seed(args.seed)
        self.path = os.path.join(args.out, "checkpoint.pt")
        if os.path.exists(self.path):
            self.load()
        self.compiled = torch.compile(self.model, dynamic=False) if args.compile else self.model
        self.started = time.monotonic() - self.seconds

    def load(self):
        saved = torch.load(self.path, map_location="cpu", weights_only=False)
        if "made_of" not in saved:
            stop(3, f"{self.path}: of an older train_builtin_model.py, which did not keep its text and seed; begin anew")
        other = [f"--{name.replace('_', '-')}" for name, value in self.made_of().items() if saved["made_of"][name] != value]
        if other:
            stop(2, f"{self.path}: a run with another {', '.join(other)}; give what it had, or another --out")
        if saved["texts"] != self.texts():
            stop(2, f"{self.path}: a run with other texts; go on with {' '.join(saved['texts'])}")
        self.model.load_state_dict(saved["model"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        self.step, self.seconds, self.random = saved["step"], saved["seconds"], saved["random"]
        self.tokens, self.mean_loss = saved["tokens"], saved["mean_loss"]
        self.own.random, self.own.rate = saved["own"]
        self.own_generator.set_state(saved["own_generator"])
        torch.set_rng_state(saved["torch"])  # for dropout
        if torch.cuda.is_available():
            torch.cuda.set_rng_state_all(saved["cuda"])
        for name, rows in self.text.rows.items():
            rows.load(*saved["rows"][name])
        print(f"goes on after step {self.step}", flush=True)

    def made_of(self):
        """What a run keeps to its end. With another text or seed, stories that are held back would have been trained on."""
        return {"seed": self.args.seed, "text": digest(sorted(self.text.dev + self.text.real)), "rows": self.args.rows, **self.shape}

    def texts(self):
        return ["--" + name for name in ("told", "sampled", "taught") if getattr(self.args, name)]

    def save(self):
        rows = {name: rows.saved() for name, rows in self.text.rows.items()}
        torch.save({"model": self.model.state_dict(), "step": self.step, "seconds": self.elapsed(),
                    "optimizers": [o.state_dict() for o in self.optimizers],
                    "tokens": self.tokens, "mean_loss": self.mean_loss,
                    "random": self.random, "made_of": self.made_of(), "texts": self.texts(), "rows": rows,
                    "own": (self.own.random, self.own.rate), "own_generator": self.own_generator.get_state(),
                    "torch": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()},
                   self.path + ".new")
        os.replace(self.path + ".new", self.path)

    def elapsed(self):
        return time.monotonic() - self.started

    def done(self):
        if self.args.minutes:
            return min(1, self.elapsed() / 60 / self.args.minutes)
        return self.step / self.args.steps

    def gradient(self, ids, pieces, shares, total):
        """Adds the gradient of (sum of losses) / total to the parameters' gradients; returns the loss, in nats."""
        ids, pieces, shares = (x.to(self.device) for x in (ids, pieces, shares))
        with torch.autocast(self.device, torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            loss = self.compiled(ids[:, :-1].contiguous(), pieces, shares) / total
        loss.backward()
        return float(loss.detach())

    def learn(self, done):
        ids, pieces, shares = map(torch.from_numpy, self.text.batch(self.args.rows, done, self.random))
        pieces, shares = pieces[:, 1:].contiguous(), shares[:, 1:].contiguous()
        loss = self.gradient(ids, pieces, shares, shares.sum())
        if done >= PLAN.unlearn_from:
            self.unlearn()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    def unlearn(self):
        self.model.eval()
        ids, shares, told = self.own.batch(self.model, OWN_ROWS, self.own_generator)
        self.model.train()
        self.gradient(ids, ids[:, 1:, None].contiguous(), UNLIKELIHOOD * shares[..., None], max(1, told))

    def report(self):
        ids, n_bytes = self.text.dev_text()
        dev = bits_per_byte(self.model, ids, n_bytes, self.device)
        spent, done = self.elapsed(), self.done()
        left = spent * (1 - done) / done if done > 0 else math.nan
        row = [self.step, self.tokens, round(spent), round(self.mean_loss, 4), round(dev, 4)]
        self.save()  # first: killed between the two, a run that goes on would write the row twice
        log = os.path.join(self.args.out, "log.csv")
        new = not os.path.exists(log)
        with open(log, "a", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(["step", "tokens", "seconds", "train_nats", "dev_bits_per_byte"])
            writer.writerow(row)
        rounds = sum(rows.rounds for name, rows in self.text.rows.items() if name not in ("told", "sampled"))
        print(f"step {self.step}, {self.tokens / 1e6:.2f} M tokens: loss {self.mean_loss:.3f} nats, held-back "
              f"text {dev:.4f} bits per byte; real text round {rounds}; "
              f"{self.said_again()}{spent / 60:.1f} min, {left / 60:.1f} left", flush=True)

    def said_again(self):
        return "" if self.own.rate is None else f"{100 * self.own.rate:.2f} % of its own pieces say something again; "

    def train(self):
        begun = self.step
        while (done := self.done()) < 1:
            set_rate(self.optimizers, self.step, done)
            loss = self.learn(done)
            self.mean_loss = loss if self.mean_loss is None else 0.95 * self.mean_loss + 0.05 * loss
            self.step += 1
            self.tokens += self.args.rows * CONTEXT
            if self.step % self.args.report == 0:
                self.report()
        if self.step > begun and self.step % self.args.report:
            self.report()


# ---- the Hugging Face directory ----

def hugging_face_tensors(model, shape):
    state, out = model.state_dict(), {}
    parts = [shape["heads"] * HEAD_DIM] + 2 * [shape["kv_heads"] * HEAD_DIM]
    for i in range(shape["layers"]):
        layer, name = f"layers.{i}.", f"model.layers.{i}."
        for part, matrix in zip("qkv", state[layer + "qkv.weight"].split(parts)):
            out[f"{name}self_attn.{part}_proj.weight"] = matrix
        out[name + "self_attn.o_proj.weight"] = state[layer + "o.weight"]
        out[name + "mlp.fc1.weight"] = state[layer + "up.weight"]
        out[name + "mlp.fc2.weight"] = state[layer + "down.weight"]
    out["model.embed_tokens.weight"] = state["embedding.weight"]
    out["lm_head.weight"] = state["head.weight"]
    return {name: tensor.float().cpu().contiguous() for name, tensor in out.items()}


DESCRIPTION = """Tells short stories for small children, in simple English. Knows nothing else, cannot talk.
Trained by limpid's training/train_builtin_model.py on {text:.1f} MB of TinyStories (CDLA-Sharing-1.0; \
written by GPT-3.5 and GPT-4){told}.{taught} Unlearnt to repeat itself.
Seen: {tokens:.1f} million tokens. {loss}
Loses its thread and contradicts itself after some sentences; repeats what its text got wrong."""


def describe(run, args):
    held_back = bits_per_byte(run.model, *run.text.dev_text(), run.device)
    loss = f"{held_back:.3f} bits per byte on stories held back"
    if args.check:
        text = open(args.check, encoding="utf-8").read()
        bits = bits_per_byte(run.model, run.text.pieces.encode(text), len(text.encode()), run.device)
        loss += f", {bits:.3f} on {os.path.basename(args.check)}, which it never saw"
    taught = f"\nTaught word by word by {args.teacher}." if run.text.n_taught else ""
    text, *others = run.text.megabytes
    told = "".join(f" and {size:.1f} MB told by {who}" for size, who in
                   zip(others, (args.teacher + " that was tuned on it", "stories260K (MIT)")) if size)
    return DESCRIPTION.format(text=text, told=told, taught=taught,
                              tokens=run.tokens / 1e6, loss=loss + ".")


def write_folder(folder, model, shape, description):
    save_file(hugging_face_tensors(model, shape), os.path.join(folder, "model.safetensors"),
              metadata={"format": "pt"})
    config = {
        "architectures": ["NanoChatForCausalLM"], "model_type": "nanochat", "dtype": "float32",
        "vocab_size": shape["vocab"], "hidden_size": shape["dim"],
        "intermediate_size": shape["hidden"], "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"], "num_key_value_heads": shape["kv_heads"],
        "head_dim": HEAD_DIM, "max_position_embeddings": CONTEXT, "hidden_act": "relu2",
        "rms_norm_eps": 1e-6, "final_logit_softcapping": CAP, "attention_bias": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": THETA},
        "tie_word_embeddings": False, "bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": EOS,
        "description": description, "license": "MIT"}
    generation = {"bos_token_id": BOS, "eos_token_id": EOS, "do_sample": True, "temperature": 0.8}
    for name, content in (("config.json", config), ("generation_config.json", generation)):
        with open(os.path.join(folder, name), "w") as file:
            json.dump(content, file, indent=2)
            file.write("\n")


def check_compiler():
    """torch.compile says it too, after the text has been read and on a hundred lines."""
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not shutil.which(os.environ.get("CXX", "g++")) or not os.path.exists(header):
        stop(4, "compiling needs g++ and Python.h: apt install g++ python3-dev, or --no-compile, which is slower")


def main():
    args = parse_arguments(__doc__)
    check_inputs(args)
    if args.compile and not torch.cuda.is_available():
        check_compiler()
    torch.use_deterministic_algorithms(True, warn_only=True)  # compiled code would sum in any order
    torch.set_num_threads(args.threads)
    make_out(args.out)
    shape = {name: getattr(args, name) for name in
             ("vocab", "dim", "layers", "heads", "kv_heads", "hidden")}
    run = Run(args, shape)
    print(f"{sum(p.numel() for p in run.model.parameters()) / 1e6:.2f} million parameters", flush=True)
    run.train()
    write_folder(os.path.join(args.out, "model"), run.model, shape, describe(run, args))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains a model that knows English to tell stories like those of a text.

    ./run convert SmolLM2.gguf DIR --type bf16
    v/bin/pip install torch transformers
    v/bin/python training/tune_teller.py --model DIR --text stories.txt --out TELLER
    ./run convert TELLER teller.gguf --type q8_0

A model of 135 million parameters that has seen much text can stay with the people and things of a story
once it has learnt the style. What it writes then (training/sample_stories) is text for
training/train_builtin_model.py. Only the upper half of its layers is trained, which is faster and keeps
what the lower ones know. The 60 stories that the training holds back are held back here too.

The length is --minutes of wall-clock time, at most one epoch.
"""
import argparse
import math
import os
import time

from stories import PIP_INSTALL, hold_back, not_held_back, packages, read_stories, stop

with packages(PIP_INSTALL):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

LENGTH = 512  # tokens of a row
CHECKED = 16  # stories, of those held back


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--model", required=True, help="a Hugging Face folder")
    p.add_argument("--text", required=True, help="stories, each followed by <|endoftext|>")
    p.add_argument("--out", required=True, help="a folder")
    p.add_argument("--minutes", type=float, default=20)
    p.add_argument("--rate", type=float, default=3e-4)
    p.add_argument("--rows", type=int, default=4, help="of 512 tokens, in a step")
    p.add_argument("--seed", type=int, default=1, help="that of the training: the same stories are held back")
    args = p.parse_args()
    if min(args.minutes, args.rows) <= 0:
        p.error("--minutes and --rows: more than 0")
    return args


class Teller:
    def __init__(self, folder):
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        layers = self.model.model.layers
        self.model.model.embed_tokens.requires_grad_(False)
        for layer in layers[:len(layers) // 2]:
            layer.requires_grad_(False)
        self.learning = [p for p in self.model.parameters() if p.requires_grad]

    def ids(self, story):
        config = self.model.config
        ids = self.tokenizer(story, add_special_tokens=False)["input_ids"]
        return [config.bos_token_id] + ids + [config.eos_token_id]

    def loss(self, rows):
        with torch.autocast("cpu", torch.bfloat16):
            return self.model(rows, labels=rows).loss

    @torch.no_grad()
    def bits_per_byte(self, stories):
        nats = sum(float(self.loss(ids)) * (ids.shape[1] - 1)
                   for ids in (torch.tensor([self.ids(story)]) for story in stories))
        return nats / math.log(2) / sum(map(len, stories))


def check(args):
    """What would else be missed until the model is loaded, or until it is trained."""
    not_held_back(args.text, args.seed)
    if not os.path.isfile(os.path.join(args.model, "config.json")):  # transformers would ask the network for it
        stop(4, f"--model: {args.model} is no Hugging Face folder: ./run convert MODEL {args.model} --type bf16")
    if os.path.exists(args.out) and (not os.path.isdir(args.out) or os.listdir(args.out)):
        stop(2, f"--out: {args.out} is there already: give another folder")
    try:
        os.makedirs(args.out, exist_ok=True)
    except OSError as error:
        stop(4, f"--out: cannot make {args.out}: {error.strerror}")


def main():
    args = parse_arguments()
    check(args)
    teller = Teller(args.model)
    held_back, stories = hold_back(read_stories(args.text), args.seed)
    ids = torch.tensor([i for story in stories for i in teller.ids(story)])
    rows = ids[:len(ids) // LENGTH * LENGTH].view(-1, LENGTH)
    steps = len(rows) // args.rows
    if not steps:
        stop(3, f"--text: {len(rows)} rows of {LENGTH} tokens, and a step has {args.rows}: give a longer text, or a smaller --rows")
    optimizer = torch.optim.AdamW(teller.learning, lr=args.rate, betas=(0.9, 0.95), weight_decay=0.01)
    print(f"held-back stories {teller.bits_per_byte(held_back[:CHECKED]):.4f} bits per byte", flush=True)
    begun = time.monotonic()
    for step in range(steps):
        done = max((time.monotonic() - begun) / 60 / args.minutes, step / steps)
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1, (step + 1) / 10, (1 - done) / 0.6)
        loss = teller.loss(rows[step * args.rows:(step + 1) * args.rows])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(teller.learning, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 10 == 0:
            print(f"step {step + 1} of at most {steps}: loss {float(loss.detach()):.3f} nats; at most "
                  f"{(1 - done) * args.minutes:.1f} min left", flush=True)
    print(f"held-back stories {teller.bits_per_byte(held_back[:CHECKED]):.4f} bits per byte", flush=True)
    teller.model.to(torch.bfloat16).save_pretrained(args.out)
    teller.tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()

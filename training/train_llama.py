#!/usr/bin/env python3
"""Trains a small Llama whose weights were never quantised, for scripts/conversions; writes a Hugging Face directory in F16.

    python3 -m venv v && v/bin/pip install torch transformers 'sentencepiece>=0.2.3' safetensors numpy
    v/bin/python training/train_llama.py --text tinystories_sample.txt --out DIR

All its matrices have rows of whole superblocks (256 or 768), so that each K-quant is measured in every tensor. --text are
stories, each followed by <|endoftext|>.
"""
import argparse
import os
import time

from stories import PIP_INSTALL, packages, stop

with packages(PIP_INSTALL):
    import sentencepiece
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

CONTEXT, VOCABULARY = 256, 1024
UNK, BOS, EOS = range(3)
SHORTEST_TEXT = 100_000  # bytes, for which this vocabulary can be made


def read_ids(path, folder):
    with open(path, encoding="utf-8", errors="ignore") as file:
        stories = [story.strip() for story in file.read().split("<|endoftext|>") if story.strip()]
    prefix = os.path.join(folder, "tokenizer")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(stories), model_prefix=prefix, model_type="bpe", vocab_size=VOCABULARY, byte_fallback=True,
        character_coverage=1.0, normalization_rule_name="identity", remove_extra_whitespaces=False,
        max_sentence_length=1 << 16, num_threads=1, minloglevel=2)
    os.remove(prefix + ".vocab")
    pieces = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
    return torch.tensor([i for story in stories for i in [BOS, *pieces.encode(story)]])


def rate(step, steps):
    return 2e-3 * min(1, (step + 1) / 50, (steps - step) / (0.4 * steps))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=8, help=f"of {CONTEXT} tokens, in a step")
    args = parser.parse_args()
    if min(args.steps, args.rows) < 1:
        parser.error("--steps and --rows: at least 1")
    if os.path.exists(args.out):
        stop(2, f"--out: {args.out} is there already: give another folder")
    if not os.path.isfile(args.text):
        stop(4, f"--text: there is no file {args.text}")
    if os.path.getsize(args.text) < SHORTEST_TEXT:
        stop(3, f"--text: {args.text} has less than {SHORTEST_TEXT} bytes: give a longer text")
    os.makedirs(args.out)
    torch.manual_seed(1)
    ids = read_ids(args.text, args.out)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=768, num_hidden_layers=5, num_attention_heads=8,
        num_key_value_heads=4, max_position_embeddings=CONTEXT, tie_word_embeddings=False,
        bos_token_id=BOS, eos_token_id=EOS, architectures=["LlamaForCausalLM"]))
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    begun, mean = time.monotonic(), None
    model.train()
    for step in range(args.steps):
        begins = torch.randint(len(ids) - CONTEXT, (args.rows,))
        rows = torch.stack([ids[b:b + CONTEXT] for b in begins])
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=rows, labels=rows).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate(step, args.steps)
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if (step + 1) % 50 == 0:
            spent = (time.monotonic() - begun) / 60
            print(f"step {step + 1} of {args.steps}: {mean:.3f} nats, {spent:.1f} min, "
                  f"{spent * (args.steps - step - 1) / (step + 1):.1f} left", flush=True)
    model.half().save_pretrained(args.out)


if __name__ == "__main__":
    main()

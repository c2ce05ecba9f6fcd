#!/usr/bin/env python3
"""Tokens per second of 1 to 16 sequences that are decoded together, beside the limits.

    tests/programs/bench_batch.py MODEL [--rounds 5] [--tokens 48] [--threads 2] [--sets avx512,avx2]

A round is one run of `bench` for each set of instructions and precision, one after the other: prompts of 512 tokens,
sequences, and the machine's limits. Figures are medians over the rounds, shares are taken within a run:
of the read rate (the weights once a pass), and of the arithmetic that a prompt of 512 tokens reaches with the same
weights: with the logits of every token, since a batch multiplies the head for every sequence.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../../scripts")
from common import end_with, need_files  # noqa: E402

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../run")
BATCHES = (1, 2, 4, 8, 16)


def bench(arguments, instructions, precision, more):
    line = [RUN, "bench", arguments.model, "--precision", precision, "-j", str(arguments.threads), "-r", "1", "--json", *more]
    result = subprocess.run(line, check=False, capture_output=True, env={**os.environ, "LIMPID_ISA": instructions})
    if result.returncode:
        sys.exit(result.stderr.decode())
    return json.loads(result.stdout)


def measure(arguments, instructions, precision):
    """What one round gives: {batch: (tokens/s, share of the read rate, share of the prompt's arithmetic)}."""
    prompt = bench(arguments, instructions, precision, ["--only", "prefill", "--pp", "512", "--all-logits"])["prefill"]
    decode = bench(arguments, instructions, precision, ["--only", "decode", "--gen", str(arguments.tokens),
                                                        "--batch", ",".join(map(str, BATCHES))])
    found = {row["batch"]: (row["tokens_per_second"], row["share_of_read"],
                            row["gflop_per_second"] / prompt["gflop_per_second"]) for row in decode["rows"]}
    return {**found, "prompt": (prompt["tokens_per_second"], None, prompt["share_of_peak"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sets", default="avx512,avx2", type=lambda text: text.split(","))
    arguments = parser.parse_args()
    need_files("make", RUN)
    ways = [(s, p) for s in arguments.sets for p in ("a16", "a8")]
    rounds = [{way: measure(arguments, *way) for way in ways} for _ in range(arguments.rounds)]

    def median(way, batch, which):
        return statistics.median(r[way][batch][which] for r in rounds)

    print("| sequences | " + " | ".join(f"{s}, {p} | times one | read % | arithmetic %" for s, p in ways) + " |")
    print("| ---: |" + " ---: |" * 4 * len(ways))
    for batch in BATCHES:
        cells = []
        for way in ways:
            times = statistics.median(r[way][batch][0] / r[way][1][0] for r in rounds)
            read, arithmetic = (100 * median(way, batch, which) for which in (1, 2))
            cells.append(f"{median(way, batch, 0):.0f} | {times:.2f} | {read:.0f} | {arithmetic:.0f}")
        print(f"| {batch} | " + " | ".join(cells) + " |")
    prompts = (f"{median(way, 'prompt', 0):.0f} | | | {100 * median(way, 'prompt', 2):.0f} of peak" for way in ways)
    print("| prompt of 512 | " + " | ".join(prompts) + " |")


if __name__ == "__main__":
    end_with(main)

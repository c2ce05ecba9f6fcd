#!/usr/bin/env python3
"""Tokens per second with and without drafts, on texts that repeat themselves and on prose.

    tests/programs/bench_speculation.py MODEL [--draft SMALL] [--rounds 5] [--tokens 200] [--threads N]
                                        [--precision a8] [--peer PYTHON]

Each round runs every way on every text, one after the other; figures are medians, ratios are taken within a round.
Ids and logits_hash of all ways must be equal: exit 1 where they are not. Speculation is exact only if they are.
--peer adds llama.cpp without and with lookup on the greedy texts: the Python that peers/install_llamacpp prints.
Its ratio is to itself without lookup.
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

HERE = os.path.dirname(os.path.abspath(__file__)) + "/../.."
RUN = os.path.join(HERE, "run")


def excerpt(path, begin, length):
    with open(os.path.join(HERE, path)) as file:
        text = file.read()
    at = text.index(begin)
    return text[at:at + length]


def texts():
    """What is named: the prompt, the options of sampling. The first four are continued by what stands in them."""
    code = excerpt("model/speculation/lookup.c", "void lookup_push", 900)
    rows = ",\n".join(f'  {{"id": {i}, "name": "item {i}", "price": {3 * i + 1}, "stock": true}}' for i in range(12))
    facts = excerpt("README.md", "**limpid** is", 900)
    greedy = ["-t", "0"]
    return {
        "code, again": (code + "\n// The same once more:\n" + code[:60], greedy),
        "code, continued": (code, greedy),
        "JSON": ("[\n" + rows + ",\n", greedy),
        "summary": (facts + "\n\nIn other words: limpid is", greedy),
        "prose, greedy": ("The old man went down to the harbour before sunrise, and", greedy),
        "prose, sampled": ("The old man went down to the harbour before sunrise, and", ["-t", "0.9", "-s", "1"]),
    }


def output(line):
    result = subprocess.run(line, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    if result.returncode:
        sys.exit(result.stderr.decode())
    return json.loads(result.stdout)


def run(arguments, prompt, sampling, more):
    line = [RUN, arguments.model, "-i", prompt, "--max-tokens", str(arguments.tokens), "--json", "-q", "--ignore-eos",
            *sampling, *more]
    if arguments.threads:
        line += ["-j", str(arguments.threads)]
    if arguments.precision:
        line += ["--precision", arguments.precision]
    return output(line)


def run_peer(arguments, ids, lookup):
    line = [arguments.peer, HERE + "/peers/llamacpp.py", arguments.model, "--decode", str(arguments.tokens),
            "--continue", ",".join(map(str, ids)), "--lookup", str(lookup)]
    if arguments.threads:
        line += ["--threads", str(arguments.threads)]
    found = output(line)
    return {"decode_tokens_per_second": found["continue"], "accepted_tokens": found["accepted"]}


def show(name, way, results, without):
    rates = [r["decode_tokens_per_second"] for r in results]
    ratios = [r / p["decode_tokens_per_second"] for r, p in zip(rates, without)]
    drafted, accepted = (statistics.median(r.get(k, 0) for r in results) for k in ("drafted_tokens", "accepted_tokens"))
    figures = f"{statistics.median(rates):.1f} | {statistics.median(ratios):.2f}"
    print(f"| {name} | {way} | {figures} | {f'{drafted:.0f}' if drafted else ''} | {accepted:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--draft")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--precision")
    parser.add_argument("--peer", metavar="PYTHON")
    arguments = parser.parse_args()
    need_files("make", RUN)
    ways = {"without": [], "lookup": ["--speculate", "lookup"]}
    if arguments.draft:
        ways["draft"] = ["--draft", arguments.draft]
    peers = {"llama.cpp, without": 0, "llama.cpp, lookup": 10} if arguments.peer else {}
    differ = False
    print("| text | way | tokens/s | ratio | drafted | accepted |\n| --- | --- | --- | --- | --- | --- |")
    for name, (prompt, sampling) in texts().items():
        peers_here = peers if sampling == ["-t", "0"] else {}
        found = {way: [] for way in [*ways, *peers_here]}
        for _ in range(arguments.rounds):
            for way, more in ways.items():
                found[way].append(run(arguments, prompt, sampling, more))
            for way, lookup in peers_here.items():
                found[way].append(run_peer(arguments, found["without"][0]["prompt_ids"], lookup))
        for way, results in found.items():
            show(name, way, results, found["llama.cpp, without" if way in peers else "without"])
        for way in ways:
            for r in found[way]:
                if (r["ids"], r["logits_hash"]) != (found["without"][0]["ids"], found["without"][0]["logits_hash"]):
                    differ = True
                    print(f"{name}, {way}: another text or other logits", file=sys.stderr)
    return differ


if __name__ == "__main__":
    end_with(main)

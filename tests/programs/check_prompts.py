#!/usr/bin/env python3
"""Many prompts answered together, alone, by four processes, killed and resumed, and with speculation: one digest.

    tests/programs/check_prompts.py [MODEL ...] [--prompts 1000] [--precision a16] [--window N] [--draft SMALL] [--directory DIR]

Prompts of all lengths (from one character to most of the context), greedy and sampled, are cut from the texts of
this repository. The answers of `generate --prompts` are compared with those of other ways of running the same lines:

    parallel 1, 3, 8        the same bytes
    4 shards                started by mpirun where it is installed; merged: the same bytes
    kill -9                 at random moments until the end is reached, always with --resume: the same bytes
    alone                   one process a prompt, without and with --speculate lookup and --draft SMALL (in
                            every pass, by --draft-tokens): the same ids, text and logits_hash

Prints a table; exit code 1 where anything differs. Without MODEL: the built-in model.
"""
import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../../scripts")
from common import end_with, need_files  # noqa: E402

HERE = os.path.abspath(os.path.dirname(os.path.abspath(__file__)) + "/../..")
RUN = os.environ.get("LIMPID_RUN", os.path.join(HERE, "run"))
SHARDS = 4


def corpus():
    names = sorted(os.path.join("docs", n) for n in os.listdir(HERE + "/docs") if n.endswith(".md"))
    texts = []
    for name in ["README.md", "model/forward.c", *names]:
        with open(os.path.join(HERE, name), encoding="utf-8") as file:
            texts.append(file.read())
    return "\n".join(texts)


def make_prompts(n, context, seed):
    """n lines: a quarter short, most of some hundred characters, some as long as the context allows."""
    rng, text, lines = random.Random(seed), corpus(), []
    for i in range(n):
        length = int(2 ** rng.uniform(0, 9.3)) if i % 16 else int(context * rng.uniform(1, 1.6))
        at = rng.randrange(len(text) - length)
        line = {"id": f"p{i}", "prompt": text[at:at + length].strip() or "A", "max_tokens": rng.choice([1, 5, 17, 40])}
        line |= rng.choice([{"temperature": 0}, {"temperature": 0.8, "top_k": 40, "seed": i}, {"temperature": 1, "min_p": 0.05, "seed": i}])
        lines.append(line)
    return lines


def call(arguments, *, may_fail=False):
    result = subprocess.run([RUN, *arguments], check=False, capture_output=True, stdin=subprocess.DEVNULL)
    if result.returncode and not may_fail:
        sys.exit(f"{' '.join(arguments)}: {result.returncode}: {result.stderr.decode()}")
    return result


def content(path):
    with open(path, "rb") as file:
        return file.read()


class Check:
    def __init__(self, model, arguments, directory):
        self.directory = directory
        self.base = [model, "--prompts", os.path.join(directory, "prompts.jsonl"), *common(arguments)]
        self.failures = 0

    def path(self, name):
        return os.path.join(self.directory, name)

    def row(self, way, digest, same, note=""):
        self.failures += not same
        print(f"| {way} | {digest} | {'yes' if same else 'NO'} | {note} |", flush=True)

    def digest(self, name):
        out = call(["merge", self.path(name)])
        return (out.stdout + out.stderr).decode().split("digest ")[1].split()[0]


def common(arguments):
    more = ["-q"]
    if arguments.precision:
        more += ["--precision", arguments.precision]
    if arguments.window:
        more += ["--pattern", f"window:{arguments.window}"]
    return more


def together(check):
    for parallel in (1, 3, 8):
        out = check.path(f"answers{parallel}.jsonl")
        call([*check.base, "--out", out, "--parallel", str(parallel)])
        same = content(out) == content(check.path("answers1.jsonl"))
        check.row(f"--parallel {parallel}", check.digest(f"answers{parallel}.jsonl"), same)


def sharded(check):
    out, mpirun = check.path("shards.jsonl"), shutil.which("mpirun")
    command = [RUN, *check.base, "--out", out]
    if mpirun:
        environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        subprocess.run([mpirun, "--oversubscribe", "-n", str(SHARDS), *command], check=True, capture_output=True, env=environment)
    else:
        for rank in range(SHARDS):
            call([*command[1:], "--shard", f"{rank}/{SHARDS}"])
    call(["merge", check.path(f"shards.0-of-{SHARDS}.jsonl"), "--out", check.path("merged.jsonl")])
    check.row(f"{SHARDS} shards", check.digest("merged.jsonl"), content(check.path("merged.jsonl")) == content(check.path("answers1.jsonl")),
              "mpirun" if mpirun else "one after the other")


def killed(check, seconds, rng):
    out, kills = check.path("killed.jsonl"), 0
    while True:
        process = subprocess.Popen([RUN, *check.base, "--out", out, "--resume"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            process.wait(timeout=rng.uniform(0.02, seconds / 3) if kills < 40 else None)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            continue
        if process.returncode:
            sys.exit(process.stderr.read().decode())
        process.stderr.close()
        break
    check.row("kill -9 and --resume", check.digest("killed.jsonl"), content(out) == content(check.path("answers1.jsonl")), f"{kills} kills")


def command_of(line):
    names = {"max_tokens": "--max-tokens", "temperature": "-t", "top_k": "--top-k", "min_p": "--min-p", "seed": "-s"}
    more = ["-i", line["prompt"]]
    for key, name in names.items():
        if key in line:
            more += [name, str(line[key])]
    return more


def alone(check, model, arguments, lines, rng):
    answers = {a["id"]: a for a in map(json.loads, content(check.path("answers1.jsonl")).splitlines()) if "id" in a}
    ways = {"alone": [], "alone, --speculate lookup": ["--speculate", "lookup"]}
    if arguments.draft:
        ways["alone, --draft"] = ["--draft", arguments.draft]
    for way, guesses in ways.items():
        same, drafted, accepted = True, 0, 0
        for line in lines:
            more = [*guesses, "--draft-tokens", str(rng.randrange(1, 16))] if guesses else []
            result = call([model, "--json", *common(arguments), *command_of(line), "-c", str(arguments.context), *more], may_fail=True)
            answer = answers[line["id"]]
            if "error" in answer:
                same &= result.returncode != 0
                continue
            found = json.loads(result.stdout)
            equal = all(found[k] == answer[k] for k in ("ids", "text", "stop", "logits_hash"))
            if not equal:
                print(f"{model}, {way}: {line['id']} differs", file=sys.stderr)
            same &= equal
            drafted, accepted = drafted + found.get("drafted_tokens", 0), accepted + found.get("accepted_tokens", 0)
        errors = sum("error" in a for a in answers.values())
        check.row(way, "each answer", same, f"{drafted} drafts, {accepted} accepted" if drafted else f"{len(answers)} answers, {errors} of them errors")


def folder(kept):
    """A temporary one, or one in `kept` that stays."""
    if not kept:
        return tempfile.TemporaryDirectory()
    os.makedirs(kept, exist_ok=True)
    return contextlib.nullcontext(tempfile.mkdtemp(prefix="prompts-", dir=kept))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--precision")
    parser.add_argument("--window", type=int)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draft")
    parser.add_argument("--directory", help="leave the files in a new folder there")
    arguments = parser.parse_args()
    need_files("make", RUN)
    failures = 0
    for model in arguments.models or ["builtin"]:
        with folder(arguments.directory) as directory:
            check = Check(model, arguments, directory)
            check.base += ["-c", str(arguments.context)]
            lines = make_prompts(arguments.prompts, arguments.context, arguments.seed)
            with open(check.path("prompts.jsonl"), "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            print(f"{os.path.basename(model)}, {len(lines)} prompts {' '.join(common(arguments))}\n\n"
                  "| way | digest | same bits | |\n| --- | --- | --- | --- |", flush=True)
            begin = time.monotonic()
            together(check)
            seconds = (time.monotonic() - begin) / 3
            sharded(check)
            killed(check, seconds, random.Random(arguments.seed))
            alone(check, model, arguments, lines, random.Random(arguments.seed))
            failures += check.failures
            print(flush=True)
    return failures > 0


if __name__ == "__main__":
    end_with(main)

#!/usr/bin/env python3
"""Runs commands one after the other, in rounds, and compares a figure of theirs within each round.

    peers/interleave.py [--rounds 5] NAME[@KEY]=COMMAND NAME[@KEY]=COMMAND ...

    peers/interleave.py 'limpid@decode.tokens_per_second=./run bench MODEL --json --no-limits -j 2' \\
                        'llama.cpp@decode=build/peers/llamacpp-native/bin/python peers/llamacpp.py MODEL --threads 2'

A shared machine is slow in one minute and fast in the next. Figures taken a minute apart cannot be
compared; figures of one round can. So the order is A B C, A B C, ..., a ratio is taken within a
round, and what is reported is the median of these ratios with a 95 % bootstrap interval.

A command prints a line with a JSON object; KEY (default "value", dots go deeper) names its figure.
It should run for a second or more.

The guard: while a command runs, CPU time that others use (busy and stolen time of all CPUs in
/proc/stat, less what the command used) may be at most --noise of one CPU, plus one tick of the
kernel's clock for each CPU. A command that was disturbed is run again, up to three times; then the
round is thrown away. The guard never looks at the figures. With fewer than 5 clean rounds there is
no interval and the result is inconclusive (exit code 3). --busy keeps every round and says so:
for trying whether all runs, not for figures.
"""
import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time

TICK = os.sysconf("SC_CLK_TCK")
ENOUGH, TRIES, TIMEOUT_S, RESAMPLES = 5, 3, 900, 10000


def busy_seconds():
    """Busy and stolen seconds of all CPUs since the machine started."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def own_seconds():
    """CPU seconds of this process and of the children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in usages)


def figure(output, key):
    """The positive number under KEY in the last line that is a JSON object with one, or None.

    >>> figure('loading\\n{"decode": {"tokens_per_second": 8.5}}\\n', "decode.tokens_per_second")
    8.5
    >>> figure('{"value": null}', "value") is None, figure("no JSON", "value") is None
    (True, True)
    """
    for line in reversed(output.splitlines()):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        for part in key.split(".") if isinstance(value, dict) else ():
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, (int, float)) and value > 0:
            return value
    return None


def run_once(name, key, command, noise):
    """The figure of one run, and whether nothing disturbed it."""
    busy, own, begin = busy_seconds(), own_seconds(), time.monotonic()
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S)
    wall = time.monotonic() - begin
    others = busy_seconds() - busy - (own_seconds() - own)
    value = figure(done.stdout, key)
    if done.returncode or value is None:
        sys.exit(f"interleave: {name}: exit code {done.returncode}, no figure {key}\n{done.stdout[-500:]}{done.stderr[-1000:]}")
    return value, others <= noise * wall + os.cpu_count() / TICK


def one_round(commands, noise, busy):
    """A figure of every command, or None where one was disturbed each time."""
    values = {}
    for name, key, command in commands:
        for _ in range(TRIES):
            values[name], quiet = run_once(name, key, command, noise)
            if quiet or busy:
                break
        else:
            return None
    return values


def interval(ratios):
    """The 95 % bootstrap interval of the median."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40 - 1]


def compare(commands, rounds, busy=False):
    """The result for clean rounds: medians, and ratios of the first command to each of the others.

    The median of the ratios, not the ratio of the medians: here every round says 2.

    >>> rounds = [{"a": 2, "b": 1}, {"a": 20, "b": 10}, {"a": 4, "b": 2}, {"a": 6, "b": 3}, {"a": 8, "b": 4}]
    >>> result = compare([("a", "", ""), ("b", "", "")], rounds)
    >>> result["medians"], result["ratios"]["b"]
    ({'a': 6, 'b': 3}, {'median': 2.0, 'low': 2.0, 'high': 2.0})
    >>> compare([("a", "", ""), ("b", "", "")], rounds[:4])["ratios"]["b"]  # too few rounds for an interval
    {'median': 2.0}
    """
    result = {"rounds": len(rounds), "medians": {}, "ratios": {}}
    names = [name for name, _, _ in commands] if rounds else []
    for name in names:
        result["medians"][name] = round(statistics.median(r[name] for r in rounds), 2)
    for name in names[1:]:
        ratios = [r[names[0]] / r[name] for r in rounds]
        result["ratios"][name] = {"median": round(statistics.median(ratios), 4)}
        if len(rounds) >= ENOUGH and not busy:
            low, high = interval(ratios)
            result["ratios"][name] |= {"low": round(low, 4), "high": round(high, 4)}
    if busy:
        result["busy"] = True
    return result


def interleave(commands, rounds=5, noise=0.05, busy=False):
    """Measures commands, each (name, key, shell command), until so many rounds are clean; gives up
    after twice as many."""
    clean = []
    for _ in range(2 * rounds):
        if len(clean) == rounds:
            break
        values = one_round(commands, noise, busy)
        if values:
            clean.append(values)
    return compare(commands, clean, busy)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("commands", nargs="+", metavar="NAME[@KEY]=COMMAND")
    p.add_argument("--rounds", type=int, default=5, help="clean rounds wanted (default %(default)s)")
    p.add_argument("--noise", type=float, default=0.05, help="share of one CPU that others may use (default %(default)s)")
    p.add_argument("--busy", action="store_true", help="keep disturbed rounds; the result is never conclusive")
    args = p.parse_args()
    commands = []
    for text in args.commands:
        label, equals, command = text.partition("=")
        name, _, key = label.partition("@")
        if not (equals and name and command.strip()) or name in [c[0] for c in commands]:
            p.error(f"wanted NAME[@KEY]=COMMAND, each with another name: {text}")
        commands.append((name, key or "value", command))
    result = interleave(commands, args.rounds, args.noise, args.busy)
    print(json.dumps(result))
    return 0 if result["rounds"] >= ENOUGH and not args.busy else 3


if __name__ == "__main__":
    sys.exit(main())

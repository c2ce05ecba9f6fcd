#!/usr/bin/env python3
"""Checks docs/evidence.md: all 134 rows and 28 goals are there once, what they name exists, and the
counts are right. Exit code 1 where not.

    tests/programs/check_evidence.py [--fix]      --fix writes the counts
"""
import collections
import csv
import glob
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../../scripts")
from common import write_whole  # noqa: E402

os.chdir(os.path.dirname(os.path.abspath(__file__)) + "/../..")
PAGE, LEDGER = "docs/evidence.md", "docs/fuzzing.csv"
CORPUS = "tests/support/files/gguf_corpus.c"
CORPUS_TEST = "gguf_hostile::corpus_is_answered_as_the_table_says"
ROWS = {"G": 52, "S": 21, "L": 12, "T": 10, "J": 8, "P": 14, "F": 9, "O": 3, "C": 5}
GOALS = 28
STATES = ["holds", "in part", "no test"]


def read(path):
    with open(path) as file:
        return file.read()


def tests():
    """suite::name of every test, and the suites."""
    named = set()
    for path in glob.glob("tests/*/test_*.c"):
        named |= {"::".join(m) for m in re.findall(r"^Test\((\w+),\s*(\w+)", read(path), re.M)}
    return named, {name.split("::")[0] for name in named}


def cells(text):
    for line in text.split("\n"):
        if re.match(r"\| ([A-Z]\d\d|\d+) \|", line):
            yield [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]


def wrong_names(row, shown, named, suites, corpus):
    for code in re.findall(r"suite `(\w+)`", shown):
        if code not in suites:
            yield f"{row}: no suite {code}"
    for code in re.findall(r"(?<!suite )`([\w./:]+)`", shown):
        if code not in named and not os.path.exists(code):
            yield f"{row}: no test {code}"
    for other in re.findall(r"corpus(?: of (\w\d\d))?", shown):
        if f'"{other or row} ' not in corpus:
            yield f"{row}: {CORPUS} has no {other or row}"


def wrong_rows(rows, named, suites):
    corpus = read(CORPUS)
    wanted = [f"{k}{i:02}" for k, n in ROWS.items() for i in range(1, n + 1)] + [str(i) for i in range(1, GOALS + 1)]
    found = collections.Counter(row[0] for row in rows)
    yield from (f"{name}: wanted once, found {found[name]} times" for name in wanted if found[name] != 1)
    yield from (f"{name}: no such row" for name in found if name not in wanted)
    if CORPUS_TEST not in named:
        yield f"no test {CORPUS_TEST}"
    for name, _, shown, state in rows:
        yield from wrong_names(name, shown, named, suites, corpus)
        if name.isdigit():
            continue
        if state.split(":")[0] not in STATES:
            yield f"{name}: state \"{state}\", wanted one of {STATES}"
        if (state == "no test" or state.startswith("no test:")) != (shown == "–"):
            yield f"{name}: {state}, shown by {shown}"
        if state.startswith("in part") and ":" not in state:
            yield f"{name}: in part, and not said which"


def counted(rows):
    states = collections.Counter(row[3].split(":")[0] for row in rows if not row[0].isdigit())
    return f"{sum(states.values())} rows: {states['holds']} hold, {states['in part']} in part, {states['no test']} without a test."


def executions(ledger):
    """The phrases of the page that say how many the ledger has."""
    def phrase(rows, text):
        return f"{sum(int(r['executions']) for r in rows):,} executions of {text.format(len({r['target'] for r in rows}))}"
    return [phrase(ledger, "{} targets in the ledger"),
            phrase([r for r in ledger if r["engine"].startswith("AFL++")], "{} targets by AFL++"),
            phrase([r for r in ledger if r["target"] == "fuzz_program"], "the whole program"),
            phrase([r for r in ledger if r["engine"].endswith(" memory")], "{} targets with MemorySanitizer")]


def main():
    text = read(PAGE)
    rows = list(cells(text))
    bad = list(wrong_rows(rows, *tests()))
    line = counted(rows)
    with open(LEDGER, newline="") as file:
        ledger = list(csv.DictReader(file))
    counted_targets = {r["target"] for r in ledger}
    bad += [f"{LEDGER}: no row of {t}: scripts/fuzz {t}" for t in
            sorted(os.path.basename(p)[:-2] for p in glob.glob("tests/fuzz/fuzz_*.c")) if t not in counted_targets]
    counts = executions(ledger)
    fixed = re.sub(r"^\d+ rows: .* without a test\.$", line, text, flags=re.M)
    for count in counts:
        fixed = re.sub(r"[\d,]*\d" + re.sub(r"\d+", r"\\d+", re.escape(count.lstrip("0123456789,"))), count, fixed)
    if sys.argv[1:] == ["--fix"]:
        write_whole(PAGE, fixed)
    elif fixed != text:
        said = ", ".join(f'"{count}"' for count in [line, *counts])
        bad.append(f"{PAGE}: the counts are {said}: tests/programs/check_evidence.py --fix")
    print("\n".join(bad) if bad else f"{PAGE}: {line}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())

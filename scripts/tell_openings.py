#!/usr/bin/env python3
"""How well models go on with stories: what they tell from openings, by the rules of scripts/stories.py.

    scripts/tell_openings.py tinystories_sample.txt tinystories_val.txt [MODEL...]

An opening is two sentences of the second text. Each model goes on from each with several seeds, as
`run MODEL -t 0.8` does; without a model the built-in one. Good is what says nothing twice and stays with
its people and things. For comparison the text's own continuations are judged, cut to the same length;
its stories are told apart by a blank line before "Once". The first text says what people there are, both
say what words.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys

from stories import Judge, all_words, openings, tidy

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run")


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("text")
    p.add_argument("unseen")
    p.add_argument("models", nargs="*", metavar="MODEL")
    p.add_argument("--openings", type=int, default=160)
    p.add_argument("--seeds", type=int, default=6, help="stories from each opening")
    p.add_argument("--tokens", type=int, default=150, help="that a model goes on with")
    p.add_argument("--temperature", default="0.8")
    p.add_argument("--out", metavar="FILE", help="the stories, each followed by <|endoftext|>")
    return p.parse_args()


def read_unseen(path):
    text = open(path, encoding="utf-8", errors="replace").read()
    stories = map(tidy, re.split(r"<\|endoftext\|>|\n\s*\n(?=Once )", text))
    return [story for story in stories if story]


def whole_sentences(story):
    """
    >>> whole_sentences('He said, "Go!" Then he w'), whole_sentences("He went.")
    ('He said, "Go!"', 'He went.')
    """
    ends = [match.end() for match in re.finditer(r'[.!?]"?', story)]
    return story[:ends[-1]] if ends else story


def tell(model, opening, seed, args):
    command = [RUN] + ([model] if model else []) + [
        "-i", opening, "--max-tokens", str(args.tokens), "-t", args.temperature, "--seed", str(seed), "--threads", "1", "-q"]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, errors="replace")
    if told.returncode:
        sys.exit(told.returncode)
    return tidy(whole_sentences(told.stdout)) or ""


def tell_all(model, chosen, args):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        tasks = [pool.submit(tell, model, opening, seed, args)
                 for opening, _ in chosen for seed in range(1, 1 + args.seeds)]
        try:
            return [task.result() for task in tasks]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def main():
    args = parse_arguments()
    judge, unseen = Judge(args.text, 1), read_unseen(args.unseen)
    judge.known |= all_words(unseen)
    chosen, length = openings(unseen, args.openings), 0
    if not chosen:
        sys.exit(f"tell_openings.py: there are no openings in {args.unseen}")
    with open(args.out or os.devnull, "w") as out:
        for model in args.models or [None]:
            told = tell_all(model, chosen, args)
            length = max(length, sum(map(len, told)) // len(told))
            print(f"{model or 'the built-in model'}: {judge.good(told)}", flush=True)
            out.writelines(story + "<|endoftext|>\n" for story in told)
    real = [whole_sentences((opening + rest)[:length]) for opening, rest in chosen]
    print(f"the text itself, {length} bytes of it: {judge.good(real)}")


if __name__ == "__main__":
    main()

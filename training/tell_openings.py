#!/usr/bin/env python3
"""How well models continue stories, by the rules of training/stories.py.

    training/tell_openings.py tinystories_sample.txt tinystories_val.txt [MODEL...]

An opening is two sentences of the second text. Each model continues each opening with several seeds, as
`run MODEL -t 0.8` does; without MODEL the built-in one. A continuation is good if it does not repeat itself and
stays with its people and things. It stutters if a word is repeated at once; it repeats if a sentence, or more
than a twentieth of its groups of four words, occurs twice. For comparison the text's own
continuations are judged, cut to the same length; its stories are separated by a blank line before "Once". The names
of people come from the first text, the known words from both.
"""
import argparse
import concurrent.futures
import contextlib
import os
import random
import re
import subprocess
import sys

from stories import SHORTEST, Others, all_words, keep_good, not_held_back, repeats, stop, stutters, tidy

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
    args = p.parse_args()
    if min(args.openings, args.seeds, args.tokens) < 1:
        p.error("--openings, --seeds and --tokens: at least 1")
    return args


def read_unseen(path):
    text = open(path, encoding="utf-8", errors="replace").read()
    stories = map(tidy, re.split(r"<\|endoftext\|>|\n\s*\n(?=Once )", text))
    return [story for story in stories if story]


def openings(stories, most, seed=5):
    """Two sentences that begin a paragraph, and the rest of the story after them; at most `most`.

    >>> story = ("Tom had a very old kite. It was as red as the evening sun was. He flew it in the park.\\n\\n"
    ...          "Sue came by, and she had a kite too. It was blue. Theirs flew side by side.")
    >>> openings([story, "Too short. To go on. With.", story], 9)  # doctest: +ELLIPSIS
    [('Tom had a very old kite. It was as red as the evening sun was.', ' He flew it ... side by side.')]
    """
    found = {}
    for story in stories:
        for begin in [0] + [match.end() for match in re.finditer("\n\n", story)]:
            two = re.match(r'(?:[^.!?"\n]+[.!?] ?){2}(?= [A-Z])', story[begin:])
            if two and 60 <= len(two[0]) <= 160 and two[0][0].isupper():
                found[two[0]] = story[begin + len(two[0]):]
    chosen = sorted(found.items())
    random.Random(seed).shuffle(chosen)
    return chosen[:most]


def whole_sentences(story):
    """
    >>> whole_sentences('He said, "Go!" Then he w'), whole_sentences("He went.")
    ('He said, "Go!"', 'He went.')
    """
    ends = [match.end() for match in re.finditer(r'[.!?]"?', story)]
    return story[:ends[-1]] if ends else story


class Judge:
    """The words, people and things of the stories of a text that are not held back."""

    def __init__(self, text, seed):
        stories = not_held_back(text, seed)
        self.others, self.known = Others(stories), all_words(stories)

    def good(self, told):
        """The counts as a sentence."""
        told = [story for story in told if len(story) >= SHORTEST]
        counts = len(keep_good(told, self.known, self.others)), sum(map(stutters, told)), sum(map(repeats, told))
        shares = [100 * count / max(1, len(told)) for count in counts]
        return (f"{len(told)} stories of {SHORTEST} bytes or more, {shares[0]:.1f} % good, "
                f"{shares[1]:.1f} % stutter, {shares[2]:.1f} % repeat")


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


@contextlib.contextmanager
def written_whole(path):
    """A file beside `path`, which replaces it at the end: where something fails, the old one stays.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "stories")
    ...     with written_whole(path) as file:
    ...         _ = file.write("old")
    ...     with contextlib.suppress(ValueError), written_whole(path) as file:
    ...         _ = file.write("new")
    ...         raise ValueError
    ...     open(path).read(), os.listdir(folder)
    ('old', ['stories'])
    """
    # A device or a pipe cannot be replaced: it is written to as it is.
    if not path or os.path.exists(path) and not os.path.isfile(path):
        with open(path or os.devnull, "w", encoding="utf-8") as file:
            yield file
        return
    path = os.path.realpath(path)
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            yield file
        os.replace(path + ".new", path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path + ".new")


def main():
    args = parse_arguments()
    try:
        judge_all(args)
    except OSError as error:
        stop(4, f"{error.filename or args.out or 'standard output'}: {error.strerror}")


def judge_all(args):
    judge, unseen = Judge(args.text, 1), read_unseen(args.unseen)
    judge.known |= all_words(unseen)
    chosen, length = openings(unseen, args.openings), 0
    if not chosen:
        stop(3, f"there are no openings in {args.unseen}: give a text of longer stories")
    with written_whole(args.out) as out:
        for model in args.models or [None]:
            told = tell_all(model, chosen, args)
            length = max(length, sum(map(len, told)) // len(told))
            print(f"{model or 'the built-in model'}: {judge.good(told)}", flush=True)
            out.writelines(story + "<|endoftext|>\n" for story in told)
    real = [whole_sentences((opening + rest)[:length]) for opening, rest in chosen]
    print(f"the text itself, {length} bytes of it: {judge.good(real)}")


if __name__ == "__main__":
    main()

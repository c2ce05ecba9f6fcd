"""Sequence-level unlikelihood training (Welleck et al. 2019, arXiv 1908.04319): stories that the model
itself writes during training, and the places where they repeat themselves.

A small model trained on little text falls into loops: it is most certain of what stands there already.
Training on its own stories makes repetitions less likely, as far as they are more frequent than in the
real text, which sometimes repeats itself too. Needs the standard library alone; `python3 -m doctest training/own_text.py` runs the examples.
"""
import bisect
import random
import re

GROUP = 4  # words; the last one of a group that occurred before is a repetition
OPENING = 8, 48  # tokens of a real story that the model continues
TEMPERATURE, TOP_P = (0.6, 1.0), 0.9
MEASURED = 1000  # stories of the text
SMOOTHING = 0.8  # of the running mean of the repetition rate


def said_again(pieces, begin):
    """The indices, from begin on, of tokens that begin the last word of a repeated group.

    pieces: the spelling of each token.

    >>> said_again(["She", " was", " ha", "ppy", ". ", "She", " was", " ha", "ppy", "."], 0)
    []
    >>> said_again(["She", " was", " so", " ha", "ppy", ". ", "She", " was", " so", " ha", "ppy", "."], 0)
    [9]
    >>> said_again(["She", " was", " so", " ha", "ppy", ". ", "She", " was", " so", " ha", "ppy", "."], 10)
    []
    """
    begins, text = [], ""
    for piece in pieces:
        begins.append(len(text))
        text += piece
    said, groups, places = [], set(), []
    for word in re.finditer("[A-Za-z]+", text):
        said.append(word[0].lower())
        group = tuple(said[-GROUP:])
        place = bisect.bisect_right(begins, word.start()) - 1
        if len(group) == GROUP and group in groups and place >= begin:
            places.append(place)
        groups.add(group)
    return places


def unlearnt(pieces, begin):
    """The indices before those: the predictions there are to become less likely.

    >>> unlearnt(["She", " was", " so", " ha", "ppy", ". ", "She", " was", " so", " ha", "ppy", "."], 0)
    [8]
    """
    return [place - 1 for place in said_again(pieces, begin)]


def weight(rate, texts_rate):
    """The weight of unlikelihood: the share of the repetitions that the real text would not have.

    >>> weight(0.02, 0.01), weight(0.01, 0.02), weight(0, 0)
    (0.5, 0, 0)
    """
    return 1 - texts_rate / rate if rate > texts_rate else 0


class OwnText:
    """Stories of the model's own, with the places to be trained against.

    text: has .real, stories; .others; .pieces, a sentencepiece processor. bos, eos: ids that begin and end a story.
    """

    def __init__(self, text, seed, bos, eos, length):
        self.text, self.bos, self.eos, self.length = text, bos, eos, length
        self.random = random.Random(seed)
        self.rate = None  # the share of its tokens that are repetitions, smoothed
        spelt = [text.pieces.id_to_piece(i) for i in range(text.pieces.vocab_size())]
        self.spelt = [re.sub("<.*>", "", piece).replace("\u2581", " ") for piece in spelt]
        stories = [(story[:length], given) for story, given in self.real(MEASURED)]
        self.texts_rate = (sum(len(unlearnt(self.spelling(story), given)) for story, given in stories)
                           / max(1, sum(max(0, len(story) - given) for story, given in stories)))

    def real(self, n):
        """Stories of the text, as they are or retold, whole or from a later paragraph on; and how many of
        their ids are the opening."""
        for _ in range(n):
            story = self.random.choice(self.text.real)
            if self.random.random() < 0.5:
                story = self.text.others.other(story, self.random)
            paragraphs = story.split("\n\n")
            begin = self.random.randrange(len(paragraphs)) if self.random.random() < 0.5 else 0
            ids = self.text.pieces.encode("\n\n".join(paragraphs[begin:]))
            yield [self.bos] + ids, self.random.randrange(*OPENING)

    def spelling(self, ids):
        return [self.spelt[i] for i in ids]

    def batch(self, model, n, generator):
        """ids (n, length + 1); the weight of what follows each (n, length), below 0 where it is
        trained against; how many ids the model wrote."""
        openings = [ids[:given] for ids, given in self.real(n)]
        temperatures = [self.random.uniform(*TEMPERATURE) for _ in openings]
        rows, given = model.generate(openings, self.length + 1, temperatures, TOP_P, generator)
        shares, told, again = rows[:, 1:] * 0.0, 0, 0
        for row, share, begin in zip(rows.tolist(), shares, given.tolist()):
            end = row.index(self.eos, 1) if self.eos in row[1:] else len(row)
            places = unlearnt(self.spelling(row[:end]), begin)
            share[places] = -1
            told, again = told + max(0, end - begin), again + len(places)
        rate = again / max(1, told)
        self.rate = rate if self.rate is None else SMOOTHING * self.rate + (1 - SMOOTHING) * rate
        return rows, shares * weight(self.rate, self.texts_rate), told

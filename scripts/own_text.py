"""What a model itself tells while it trains, and where it says again what it has said.

A small model that has seen little text falls into loops: what stands there already is what it is surest
of. Sequence-level unlikelihood training (Welleck et al. 2019, arXiv 1908.04319) shows it its own
stories and makes less likely what repeats. The text repeats itself too, now and then: the model may
as often. Only what Python brings along is needed; `python3 -m doctest scripts/own_text.py` runs the examples.
"""
import bisect
import random
import re

GROUP = 4  # words; the last of such a group that was there before is said again
OPENING = 8, 48  # pieces of a real story that a story of its own goes on from
TEMPERATURE, TOP_P = (0.6, 1.0), 0.9
MEASURED = 1000  # stories of the text
FADES = 0.8  # of how often it repeated itself so far


def said_again(pieces, begin):
    """The places, from begin on, of pieces that begin a word with which something is said again.

    pieces: how each of them is spelt.

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


class OwnText:
    """Own stories with what is to be unlearnt in them.

    text: has .real, stories; .others; .pieces, sentencepiece's; first, last: ids of a story's ends.
    """

    def __init__(self, text, seed, first, last, length):
        self.text, self.first, self.last, self.length = text, first, last, length
        self.random, self.rate = random.Random(seed), None  # of its words: how many are said again
        spelt = [text.pieces.id_to_piece(i) for i in range(text.pieces.vocab_size())]
        self.spelt = [re.sub("<.*>", "", piece).replace("\u2581", " ") for piece in spelt]
        stories = [(story[:length], given) for story, given in self.real(MEASURED)]
        self.texts_rate = (sum(len(self.again(*story)) for story in stories)
                           / max(1, sum(max(0, len(story) - given) for story, given in stories)))

    def real(self, n):
        """Stories of the text, as they are and of others, whole and from a later paragraph on; and how
        many of its ids are to be the opening."""
        for _ in range(n):
            story = self.random.choice(self.text.real)
            if self.random.random() < 0.5:
                story = self.text.others.other(story, self.random)
            paragraphs = story.split("\n\n")
            begin = self.random.randrange(len(paragraphs)) if self.random.random() < 0.5 else 0
            ids = self.text.pieces.encode("\n\n".join(paragraphs[begin:]))
            yield [self.first] + ids, self.random.randrange(*OPENING)

    def again(self, ids, given):
        return said_again([self.spelt[i] for i in ids], given)

    def batch(self, model, n, generator):
        """ids (n, length + 1); the shares of what follows on each (n, length), below 0 where it is
        to be unlearnt; how many ids the model told."""
        openings = [ids[:given] for ids, given in self.real(n)]
        warmth = [self.random.uniform(*TEMPERATURE) for _ in openings]
        rows, given = model.tell(openings, self.length + 1, warmth, TOP_P, generator)
        shares, told, again = rows[:, 1:] * 0.0, 0, 0
        for row, share, begin in zip(rows.tolist(), shares, given.tolist()):
            end = row.index(self.last, 1) if self.last in row[1:] else len(row)
            places = self.again(row[:end], begin)
            share[[place - 1 for place in places]] = -1
            told, again = told + max(0, end - begin), again + len(places)
        rate = again / max(1, told)
        self.rate = rate if self.rate is None else FADES * self.rate + (1 - FADES) * rate
        return rows, shares * max(0, 1 - self.texts_rate / max(self.rate, 1e-9)), told

"""Rows of tokens to train on, with the targets of each: the text's own token, and a teacher's distribution.

Needs numpy; `python3 -m doctest training/training_rows.py` runs the examples.
"""
import random

import numpy as np

from stories import matching

UNK, BOS, EOS, SAMPLED = range(4)
CHOICES = 12  # as in training/teach_stories.c
# A token of a text, and its targets with their weights: itself first, then a teacher's.
PIECE = np.dtype([("id", np.int32), ("pieces", np.uint16, 1 + CHOICES),
                  ("shares", np.float16, 1 + CHOICES)])


def untaught(ids):
    """Tokens whose only target is the text itself."""
    row = np.zeros(len(ids), PIECE)
    row["id"] = row["pieces"][:, 0] = ids
    row["shares"][:, 0] = ~np.isin(row["id"], (BOS, SAMPLED))  # the token that begins a story is not predicted
    return row


class Breaks:
    """Ends of paragraphs: one token with the end of the sentence, ".\\n\\n", but two tokens for a teacher.

    A teacher's "." becomes "." or ".\\n\\n", whichever the text has there. Where the text has neither, it
    is divided as the two are in all stories. The teacher's "\\n" after it, and the bytes of the curly
    quotes that it knows, are no tokens here and are dropped.

    >>> class Pieces:
    ...     spelling = ["<unk>", "<s>", "</s>", "<sampled>", "Hi", ".", ".\\n\\n", "\\n", "<0xE2>", "!"]
    ...     vocab_size, id_to_piece = lambda self: 10, lambda self, i: self.spelling[i]
    ...     piece_to_id = lambda self, text: self.spelling.index(text)
    >>> story = untaught([4, 5, 4, 5, 4, 6, 4])  # Hi.Hi.Hi.   Hi
    >>> for place, expected in ((1, {5: 0.5, 9: 0.5}), (2, {7: 0.75, 4: 0.25}), (3, {9: 0.5, 8: 0.5}),
    ...                         (4, {5: 0.75, 4: 0.25}), (5, {5: 0.5, 4: 0.5}), (6, {8: 1})):
    ...     for i, piece in enumerate(expected):
    ...         story["pieces"][place, 1 + i], story["shares"][place, 1 + i] = piece, expected[piece]
    >>> Breaks(Pieces(), [story]).mend(story)
    >>> [{int(p): round(float(s), 2) for p, s in zip(*both) if s}
    ...  for both in zip(story["pieces"][:, 1:], story["shares"][:, 1:])]
    [{}, {5: 0.5, 9: 0.5}, {4: 1.0}, {9: 1.0}, {5: 0.5, 4: 0.25, 6: 0.25}, {6: 0.5, 4: 0.5}, {}]
    """

    def __init__(self, pieces, stories):
        spelling = [pieces.id_to_piece(i) for i in range(pieces.vocab_size())]
        self.never = np.array([text.startswith(("\n", "<0x")) for text in spelling])
        self.base = np.array([pieces.piece_to_id(text.split("\n")[0]) if "\n" in text[1:] else i
                              for i, text in enumerate(spelling)])
        counts = np.bincount(np.concatenate([story["id"] for story in stories]), minlength=len(spelling))
        self.ends = {}  # "." -> what it may be, how often
        for base in sorted(set(self.base[self.base != np.arange(len(spelling))]) - {UNK}):
            several = np.flatnonzero(self.base == base)
            if counts[several].sum():
                self.ends[base] = several, counts[several] / counts[several].sum()

    def mend(self, story):
        """Of one story: pieces and shares of the teacher's alone, each (n, CHOICES)."""
        pieces, shares = story["pieces"][:, 1:], story["shares"][:, 1:].astype(np.float32)
        shares[self.never[pieces]] = 0
        own = np.broadcast_to(story["id"][:, None], pieces.shape)
        same = self.base[own] == pieces
        pieces[same] = own[same]
        free = shares == 0
        for base, (several, often) in self.ends.items():
            for place in np.flatnonzero(((pieces == base) & ~same & (shares > 0)).any(1)):
                at = int(np.flatnonzero(pieces[place] == base)[0])
                room = [at, *np.flatnonzero(free[place])][:len(several)]
                order = np.argsort(-often)[:len(room)]
                pieces[place, room] = several[order]
                shares[place, room] = shares[place, at] * often[order] / often[order].sum()
                free[place, room] = False
        total = shares.sum(1, keepdims=True)
        story["shares"][:, 1:] = np.where(total > 0.1, shares / np.maximum(total, 0.1), 0)


def read_taught(pattern, share, pieces):
    """Stories as training/teach_stories.c writes them: arrays of PIECE.

    share: of what is learnt where the teacher said something; the rest of it is the text itself.
    pieces: what sentencepiece has of the vocabulary.

    >>> import tempfile
    >>> file = tempfile.NamedTemporaryFile()
    >>> _ = file.write(np.array([2, 4, 5], np.int32))  # "Hi", where nothing is known, then "."
    >>> story = np.zeros((2, 2, CHOICES), np.uint16)
    >>> story[1, :, :2] = [5, 9], [0.8 * 65535, 0.2 * 65535]
    >>> _ = file.write(story)
    >>> file.flush()
    >>> Pieces = type("Pieces", (), {"vocab_size": lambda self: 10, "id_to_piece": lambda self, i: str(i)})
    >>> for piece in read_taught(file.name, 0.5, Pieces())[0]:
    ...     print(piece["id"], piece["pieces"][:3], piece["shares"][:3].round(2))
    4 [4 0 0] [1. 0. 0.]
    5 [5 5 9] [0.5 0.4 0.1]
    """
    stories = []
    for path in matching(pattern or ""):
        data, at = open(path, "rb").read(), 0
        while at < len(data):
            n = int(np.frombuffer(data, np.int32, 1, at)[0])
            story = untaught(np.frombuffer(data, np.int32, n, at + 4))
            expected = np.frombuffer(data, np.uint16, 2 * CHOICES * n, at + 4 + 4 * n)
            expected = expected.reshape(n, 2, CHOICES)
            story["pieces"][:, 1:], story["shares"][:, 1:] = expected[:, 0], expected[:, 1] / 65535
            stories.append(story)
            at += 4 + 4 * n + expected.nbytes
    breaks = Breaks(pieces, stories) if stories else None
    for story in stories:
        breaks.mend(story)
        known = story["shares"][:, 1:].any(1)
        story["shares"][:, 1:] *= share
        story["shares"][known, 0] = 1 - share
    return stories


class Rows:
    """Rows of PIECE without end: stories in a new order each time round.

    make_round(generator, dropout): all stories once, one behind the other.

    >>> stories = [untaught([i]) for i in range(5)]
    >>> rows = Rows(lambda generator, _: shuffled(stories, generator), seed=1)
    >>> first = [rows.next(2, 0)["id"].tolist() for _ in range(7)]
    >>> all(before[-1] == after[0] for before, after in zip(first, first[1:]))
    True
    >>> sorted(sum((row[:2] for row in first), [])[:10])
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    >>> later = Rows(rows.make_round, seed=2)
    >>> later.load(*rows.saved())
    >>> [rows.next(2, 0)["id"].tolist() for _ in range(9)] == [later.next(2, 0)["id"].tolist() for _ in range(9)]
    True
    """

    def __init__(self, make_round, seed):
        self.make_round, self.random = make_round, random.Random(seed)
        self.round = untaught([])
        self.begun, self.at, self.rounds = None, 0, 0

    def next(self, length, dropout):
        """length + 1 pieces, the last of them the first of the next row."""
        while len(self.round) - self.at <= length:
            self.begin_round(self.random.getstate(), self.round[self.at:].copy(), dropout)
        row = self.round[self.at:self.at + length + 1]
        self.at += length
        return row

    def begin_round(self, state, left, dropout):
        self.begun = state, left, dropout
        self.random.setstate(state)
        self.round = np.concatenate([left, self.make_round(self.random, dropout)])
        self.at, self.rounds = 0, self.rounds + 1

    def saved(self):
        """Little: a round is made again from how it began."""
        return self.begun, self.at, self.rounds

    def load(self, begun, at, rounds):
        if begun:
            self.begin_round(*begun)
        self.at, self.rounds = at, rounds


def shuffled(stories, generator, before=untaught([]), after=untaught([])):
    """Arrays of PIECE one behind the other in a new order, each between the same two."""
    return np.concatenate([part for story in generator.sample(stories, len(stories))
                           for part in (before, story, after)])

"""What is learnt at each piece of a text: the text itself, and what a teacher expected in its place.

`python3 -m doctest scripts/soft_targets.py` runs the example; it needs numpy alone.
"""
import glob

import numpy as np

UNK, BOS, EOS, SAMPLED = range(4)
CHOICES = 12  # as in tests/teach_stories.c
# A piece of text and what is learnt in its place: itself, and what a teacher expected there.
PIECE = np.dtype([("id", np.int32), ("pieces", np.uint16, 1 + CHOICES),
                  ("shares", np.float16, 1 + CHOICES)])


def untaught(ids):
    row = np.zeros(len(ids), PIECE)
    row["id"] = row["pieces"][:, 0] = ids
    row["shares"][:, 0] = ~np.isin(row["id"], (BOS, SAMPLED))  # what begins a story is given
    return row


class Breaks:
    """Where a paragraph ends: the pieces have it in one with the sentence's, ".\\n\\n", a teacher has not.

    What it expects as "." is "." or ".\\n\\n", whichever the text has there; where the text has neither,
    as often the one as the other is in all stories. Its "\\n" behind that is no piece of a text, nor
    are the bytes of the curly quotes that it knows.

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
    """Stories as tests/teach_stories.c writes them: arrays of PIECE.

    share: of what is learnt where the teacher said something; 1: the text itself is not learnt at all.
    pieces: what sentencepiece has of the vocabulary.
    """
    stories = []
    for path in sorted(glob.glob(pattern or "")):
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
        story["shares"][known | (share == 1), 0] = 1 - share
    return stories

"""BPE dropout (Provilkov et al. 2020, arXiv 1910.13267): byte pair encoding that skips merges at random.

sentencepiece has it too, but with a random seed in every process; this takes the caller's generator.
Needs the standard library alone; `python3 -m doctest training/bpe_dropout.py` runs the examples.
"""
import re


def split_word(word, ranks, dropout, generator):
    """The pieces of a word. ranks: the rank of each merged piece, 0 first; dropout: 0 to 1.

    In each step every possible merge is skipped with probability dropout, and the one of lowest rank
    among the others is made, until there is none.

    >>> ranks = {"in": 0, "ng": 1, "ing": 2, "si": 3, "sing": 4}
    >>> split_word("sing", ranks, 0, None), split_word("ringing", ranks, 0, None)
    (['sing'], ['r', 'ing', 'ing'])
    >>> import random
    >>> drawn = [tuple(split_word("sing", ranks, 0.5, random.Random(seed))) for seed in range(999)]
    >>> drawn == [tuple(split_word("sing", ranks, 0.5, random.Random(seed))) for seed in range(999)]
    True
    >>> sorted(set(drawn))
    [('s', 'i', 'n', 'g'), ('s', 'i', 'ng'), ('s', 'in', 'g'), ('s', 'ing'), ('si', 'n', 'g'), ('si', 'ng'), ('sing',)]
    >>> abs(drawn.count(("s", "i", "n", "g")) / 999 - 0.5 ** 3) < 0.03  # "si", "in" and "ng" skipped in one step
    True
    """
    parts = list(word)
    while True:
        merges = [(ranks[first + second], place) for place, (first, second) in enumerate(zip(parts, parts[1:]))
                  if first + second in ranks and (not dropout or generator.random() >= dropout)]
        if not merges:
            return parts
        place = min(merges)[1]
        parts[place:place + 2] = [parts[place] + parts[place + 1]]


class Splitter:
    """Splits text as a sentencepiece tokenizer does, or with dropout.

    pieces: a sentencepiece.SentencePieceProcessor of a BPE with byte fallback and no normalisation.

    >>> class Pieces:
    ...     spelling = ["<unk>", "<0x21>", "ab", "\\u2581ab", "\\u2581", "a", "b"]
    ...     scores = [0, 0, -0.0, -1, -2, -3, -4]
    ...     vocab_size, id_to_piece, get_score = lambda s: 7, lambda s, i: s.spelling[i], lambda s, i: s.scores[i]
    ...     is_control = is_unknown = is_byte = lambda s, i: i < 2
    >>> Splitter(Pieces()).encode("ab! ba", 0, None)
    [3, 1, 4, 6, 5]
    >>> import random
    >>> drawn = {tuple(Splitter(Pieces()).encode("ab! ba", 0.5, random.Random(seed))) for seed in range(99)}
    >>> {"".join({1: "!"}.get(i, Pieces.spelling[i]) for i in ids) for ids in drawn} == {"\u2581ab!\u2581ba"}
    True
    >>> len(drawn)  # _ab as it is, as _ and ab, or as _, a and b
    3
    """

    def __init__(self, pieces):
        self.ids = {pieces.id_to_piece(i): i for i in range(pieces.vocab_size())}
        merged = [i for i in self.ids.values() if len(pieces.id_to_piece(i)) > 1
                  and not (pieces.is_control(i) or pieces.is_unknown(i) or pieces.is_byte(i))]
        merged.sort(key=pieces.get_score, reverse=True)
        self.ranks = {pieces.id_to_piece(i): rank for rank, i in enumerate(merged)}

    def encode(self, text, dropout, generator):
        ids = []
        for word in re.findall("\u2581[^\u2581]*", "\u2581" + text.replace(" ", "\u2581")):
            for part in split_word(word, self.ranks, dropout, generator):
                ids += [self.ids[part]] if part in self.ids else \
                    [self.ids[f"<0x{byte:02X}>"] for byte in part.encode()]
        return ids

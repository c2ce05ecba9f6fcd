"""The text that scripts/train_builtin_model.py learns from, as rows of token ids without end."""
import os
import random
import sys
from typing import NamedTuple

import numpy as np
import sentencepiece

from stories import Others, hold_back, keep_good, read_stories, words
from training_rows import (BOS, CHOICES, EOS, SAMPLED, UNK, Rows, read_taught, shuffled, untaught)

CONTEXT, SHORT = 512, 256
CORRECTED_SHARE = 0.6  # of the rows that are not real, where there are corrected stories
TOLD_OF_OTHERS = 0.75  # of the real stories: other names and things than their own
BPE_DROPOUT = 0.1
TAUGHT_SHARE = 0.7  # of what is learnt where a teacher said what it expects; the rest is the text


class Plan(NamedTuple):
    """How a run changes on its way, in shares of it."""

    warmup_steps: int  # the learning rate rises
    level_until: float  # it is level; from there on it falls to 0 in a straight line
    real: tuple  # of the rows, at the beginning and at the end
    short_until: float  # rows are SHORT, and more
    split_until: float  # there is BPE dropout; text as it is split in use is soon learnt by heart


WHOLE = Plan(warmup_steps=40, level_until=0.4, real=(0.3, 0.75), short_until=0.5, split_until=0.88)
LAST = Plan(warmup_steps=20, level_until=0, real=(0.8, 0.8), short_until=0, split_until=0.4)


def train_tokenizer(stories, prefix, vocab_size):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(stories), model_prefix=prefix, model_type="bpe", vocab_size=vocab_size,
        byte_fallback=True, character_coverage=1.0, normalization_rule_name="identity",
        remove_extra_whitespaces=False, split_digits=True, max_sentence_length=65536,
        control_symbols=["<sampled>"], num_threads=1, minloglevel=2)


class Text:
    """Rows of it, from what args names: .batch(), for as long as wanted; .dev is held back."""

    def __init__(self, args):
        self.dev, self.real = hold_back(read_stories(args.text), args.seed)
        self.others = Others(self.real)
        known = {word for story in self.real for word in words(story)}
        sampled = keep_good(read_stories(args.sampled), known, self.others) if args.sampled else []
        path = os.path.join(args.out, "model", "tokenizer")
        if not os.path.exists(path + ".model"):
            train_tokenizer(self.real, path, args.vocab)
            os.remove(path + ".vocab")
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=path + ".model")
        self.sampled = [untaught([SAMPLED] + ids) for ids in self.pieces.encode(sampled)]
        self.taught = read_taught(args.taught, TAUGHT_SHARE, self.pieces)
        self.corrected = read_taught(args.corrected, 1, self.pieces)
        dev = set(map(tuple, self.pieces.encode(self.dev)))
        for name in ("taught", "corrected"):
            stories = [story["id"].tolist() for story in getattr(self, name)]
            if getattr(args, name) and not stories:
                sys.exit(f"--{name}: there are no stories in {getattr(args, name)}")
            if any(self.pieces.encode(self.pieces.decode(ids)) != ids for ids in stories[:9]):
                sys.exit(f"--{name}: split by another tokenizer than that of --out")
            if any(tuple(ids) in dev for ids in stories):
                sys.exit(f"--{name}: has stories that are held back with this --seed")
        begin, end, cut = untaught([BOS]), untaught([EOS]), untaught([EOS])
        cut["shares"] = 0  # the end of a story that was told may be where it was cut off
        if self.taught:
            between = [self.in_text(story) for story in self.taught]
            self.alone = Rows(lambda r, d: shuffled(self.taught, r, begin, end), args.seed)
            self.joined = Rows(lambda r, d: shuffled(between, r), args.seed + 1)
        else:
            self.alone = Rows(lambda r, d: self.real_round(r, d, [BOS], "", [EOS]), args.seed)
            self.joined = Rows(lambda r, d: self.real_round(r, d, [], "\n\n", []), args.seed + 1)
        self.told = Rows(lambda r, d: shuffled(self.sampled, r), args.seed + 2)
        self.mended = Rows(lambda r, d: shuffled(self.corrected, r, begin, cut), args.seed + 3)
        self.megabytes = [sum(map(len, stories)) / 1e6 for stories in (self.real, sampled)]
        print(f"{len(self.real)} real stories, {self.megabytes[0]:.2f} MB; {len(self.taught)} taught, "
              f"{len(self.corrected)} corrected; {len(sampled)} sampled, {self.megabytes[1]:.2f} MB", flush=True)

    def real_round(self, generator, dropout, before, parting, after):
        """All real stories once: ids in front and behind, and a text behind that is split with it."""
        sentencepiece.set_random_generator_seed(generator.randrange(1 << 31))
        out = []
        for story in generator.sample(self.real, len(self.real)):
            if generator.random() < TOLD_OF_OTHERS:
                story = self.others.other(story, generator)
            out += before + self.pieces.encode(story + parting, enable_sampling=dropout > 0,
                                               alpha=dropout, nbest_size=-1) + after
        return untaught(out)

    def in_text(self, story):
        """A taught story as it is split between others, a blank line behind it: "Once ... end.\\n\\n"."""
        story, spell, find = story.copy(), self.pieces.id_to_piece, self.pieces.piece_to_id
        for place, spelling in ((0, spell(int(story["id"][0])).removeprefix("\u2581")),
                                (-1, spell(int(story["id"][-1])) + "\n\n")):
            old, new = story["id"][place], find(spelling)
            if new != UNK:
                story["pieces"][place][story["pieces"][place] == old] = new
                story["id"][place] = new
            elif place:
                story = np.concatenate([story, untaught([find("\n\n")])])
        return story

    def batch(self, plan, n_rows, share_done, generator):
        """ids (n, length + 1); what is learnt in each place: pieces, shares (n, length + 1, ..)."""
        share = plan.real[0] + (plan.real[1] - plan.real[0]) * share_done
        dropout = BPE_DROPOUT if share_done < plan.split_until else 0
        length = SHORT if share_done < plan.short_until else CONTEXT
        rows = []
        for _ in range(n_rows * CONTEXT // length):
            if not (self.sampled or self.corrected) or generator.random() < share:
                row = generator.choice([self.alone, self.joined]).next(length, dropout)
            elif not self.sampled or self.corrected and generator.random() < CORRECTED_SHARE:
                row = self.mended.next(length, dropout)
            else:  # it may begin in the middle of a story
                row = np.concatenate([untaught([SAMPLED]), self.told.next(length, dropout)[:-1]])
            rows.append(row)
        rows = np.stack(rows)
        ends = 1 + CHOICES if self.taught or self.corrected else 1
        return (rows["id"].astype(np.int64), rows["pieces"].astype(np.int64)[..., :ends],
                rows["shares"].astype(np.float32)[..., :ends])

    def dev_text(self):
        text = "\n\n".join(self.dev)
        return self.pieces.encode(text), len(text.encode())

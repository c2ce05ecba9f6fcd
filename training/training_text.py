"""The text that training/train_builtin_model.py trains on, as an endless stream of rows of token ids."""
import os
from typing import NamedTuple

import numpy as np
import sentencepiece

from bpe_dropout import Splitter
from stories import HELD_BACK, Others, all_words, digest, hold_back, keep_clean, keep_good, read_stories, stop
from training_rows import BOS, CHOICES, EOS, SAMPLED, UNK, Rows, read_taught, shuffled, untaught

CONTEXT, SHORT = 512, 256
TOLD_OF_OTHERS = 0.75  # share of the stories that are retold with other names and things
BPE_DROPOUT = 0.1
TAUGHT_SHARE = 0.7  # weight of the teacher's targets where there are any; the rest is the text


class Plan(NamedTuple):
    """How a run changes, by the share of it that is over."""

    warmup_steps: int  # the learning rate rises
    level_until: float  # it is constant; then it falls linearly to 0
    shares: tuple  # of the rows, at the beginning and at the end: real, told, sampled
    short_until: float  # rows are SHORT, and there are more of them
    taught_until: float  # real rows have a teacher's targets, if there is one; then the text alone
    split_until: float  # real rows without a teacher have BPE dropout, or they would soon be memorised
    unlearn_from: float  # unlikelihood training on the model's own stories, beside the text


PLAN = Plan(warmup_steps=40, level_until=0.4, shares=((0.35, 0.65), (0.35, 0.35), (0.3, 0)),
            short_until=0.5, taught_until=0.65, split_until=0.88, unlearn_from=0.92)


def tokenizer_of(stories, out, vocab_size):
    """That of a run which was interrupted, if it is of these stories, or a new one. Beside the model stands what it was made of."""
    path, key = os.path.join(out, "model", "tokenizer.model"), os.path.join(out, "tokenizer.sha256")
    made_of = f"{digest(stories)} {vocab_size}\n"
    if not os.path.exists(path):
        train_tokenizer(stories, path + ".new", vocab_size)
        os.remove(path + ".new.vocab")
        with open(key, "w", encoding="ascii") as file:
            file.write(made_of)
        os.replace(path + ".new.model", path)
    elif not os.path.exists(key) or open(key, encoding="ascii").read() != made_of:
        stop(2, f"--out: {path} was made of another --text, --seed or --vocab, or by an older train_builtin_model.py: "
             "give what it had, or another --out")
    return sentencepiece.SentencePieceProcessor(model_file=path)


def train_tokenizer(stories, prefix, vocab_size):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(stories), model_prefix=prefix, model_type="bpe", vocab_size=vocab_size,
        byte_fallback=True, character_coverage=1.0, normalization_rule_name="identity",
        remove_extra_whitespaces=False, split_digits=True, max_sentence_length=65536,
        control_symbols=["<sampled>"], num_threads=1, minloglevel=2)


class Text:
    """Rows of the text that args names: .batch(), without end; .dev is held back."""

    def __init__(self, args):
        self.dev, self.real = hold_back(read_stories(args.text), args.seed)
        if not self.real:
            stop(3, f"--text: there are no more stories than the {HELD_BACK} to hold back in {args.text}")
        self.others = Others(self.real)
        sampled = keep_good(read_stories(args.sampled or ""), all_words(self.real), self.others)
        self.told = keep_clean(read_stories(args.told or ""))
        self.pieces = tokenizer_of(self.real, args.out, args.vocab)
        self.splitter = Splitter(self.pieces)
        self.sampled = [untaught([SAMPLED] + ids) for ids in self.pieces.encode(sampled)]
        taught = read_taught(args.taught, TAUGHT_SHARE, self.pieces)
        self.check(taught)
        for name, stories in (("taught", taught), ("told", self.told), ("sampled", sampled)):
            if getattr(args, name) and not stories:
                stop(3, f"--{name}: there are no good stories in {getattr(args, name)}")
        between = [self.in_text(story) for story in taught]
        begin, end = untaught([BOS]), untaught([EOS])
        makers = {"sampled": lambda r, d: shuffled(self.sampled, r),
                  "told": lambda r, d: self.told_round(r),
                  "alone": lambda r, d: self.round(self.real, r, d, [BOS], "", [EOS]),
                  "joined": lambda r, d: self.round(self.real, r, d, [], "\n\n", []),
                  "taught alone": lambda r, d: shuffled(taught, r, begin, end),
                  "taught joined": lambda r, d: shuffled(between, r)}
        self.rows = {name: Rows(maker, args.seed + i) for i, (name, maker) in enumerate(makers.items())}
        self.n_taught = len(taught)
        self.megabytes = [sum(map(len, stories)) / 1e6 for stories in (self.real, self.told, sampled)]
        print(f"{len(self.real)} real stories, {self.megabytes[0]:.2f} MB; {self.n_taught} taught; "
              f"{len(self.told)} told, {self.megabytes[1]:.2f} MB; {len(sampled)} sampled, "
              f"{self.megabytes[2]:.2f} MB", flush=True)

    def check(self, taught):
        """Checks that the splitter and the taught stories agree with this tokenizer, and that no taught story is held back."""
        if any(self.splitter.encode(story, 0, None) != self.pieces.encode(story) for story in self.dev):
            stop(3, "--out: bpe_dropout.py splits stories otherwise than the tokenizer there")
        stories = [story["id"].tolist() for story in taught]
        dev = set(map(tuple, self.pieces.encode(self.dev)))
        if any(self.pieces.encode(self.pieces.decode(ids)) != ids for ids in stories[:9]):
            stop(3, "--taught: split by another tokenizer than that of --out")
        if any(tuple(ids) in dev for ids in stories):
            stop(3, "--taught: has stories that are held back with this --seed")

    def round(self, stories, generator, dropout, before, parting, after):
        """All stories once: each between the given ids, or joined by a separator into one text."""
        told = [self.others.other(story, generator) if generator.random() < TOLD_OF_OTHERS else story
                for story in generator.sample(stories, len(stories))]
        if parting:  # one text: after another story there is no space of a text's beginning
            told = ["".join(story + parting for story in told)]
        out = []
        for text in told:
            ids = self.splitter.encode(text, dropout, generator) if dropout else self.pieces.encode(text)
            out += before + ids + after
        return untaught(out)

    def told_round(self, generator):
        out = self.round(self.told, generator, 0, [BOS], "", [EOS])
        out["shares"][out["id"] == EOS] = 0  # a sampled story may have been cut off where it ends
        return out

    def in_text(self, story):
        """A taught story as it is split inside a longer text, followed by a blank line: "Once ... end.\\n\\n"."""
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

    def batch(self, n_rows, share_done, generator):
        """ids (n, length + 1); the targets at each place: pieces, shares (n, length + 1, ..)."""
        shares = [begin + (end - begin) * share_done for begin, end in PLAN.shares]
        dropout = BPE_DROPOUT if share_done < PLAN.split_until else 0
        length = SHORT if share_done < PLAN.short_until else CONTEXT
        taught = self.n_taught > 0 and share_done < PLAN.taught_until
        rows = []
        for _ in range(n_rows * CONTEXT // length):
            kind = generator.choices(["real", "told", "sampled"], shares)[0]
            if kind == "sampled" and self.sampled:  # it may begin in the middle of a story
                row = np.concatenate([untaught([SAMPLED]), self.rows[kind].next(length, dropout)[:-1]])
            elif kind == "told" and self.told:
                row = self.rows[kind].next(length, dropout)
            else:
                name = generator.choice(["alone", "joined"])
                row = self.rows["taught " + name if taught else name].next(length, dropout)
            rows.append(row)
        rows = np.stack(rows)
        ends = 1 + CHOICES if taught else 1
        return (rows["id"].astype(np.int64), rows["pieces"].astype(np.int64)[..., :ends],
                rows["shares"].astype(np.float32)[..., :ends])

    def dev_text(self):
        text = "\n\n".join(self.dev)
        return self.pieces.encode(text), len(text.encode())

"""The text that scripts/train_builtin_model.py learns from, as rows of token ids without end."""
import glob
import os
import random
import sys

import numpy as np
import sentencepiece

from stories import Others, hold_back, keep_good, read_stories, words

UNK, BOS, EOS, SAMPLED = range(4)
CONTEXT = 512
SHORT, SHORT_UNTIL = 256, 0.5  # rows are shorter, and more, for the first part of the run
REAL_SHARE = (0.3, 0.85)  # of the rows, at the beginning and at the end
TOLD_OF_OTHERS = 0.75  # of the real stories: other names and things than their own
BPE_DROPOUT = 0.1
BPE_DROPOUT_UNTIL = 0.88  # of the run: the rest, split as it will be in use, is soon learnt by heart
CHOICES = 12  # as in tests/teach_stories.c
TAUGHT = np.dtype([("id", np.int32), ("pieces", np.uint16, CHOICES), ("shares", np.uint16, CHOICES)])


def train_tokenizer(stories, prefix, vocab_size):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(stories), model_prefix=prefix, model_type="bpe", vocab_size=vocab_size,
        byte_fallback=True, character_coverage=1.0, normalization_rule_name="identity",
        remove_extra_whitespaces=False, split_digits=True, max_sentence_length=65536,
        control_symbols=["<sampled>"], num_threads=1, minloglevel=2)


def without_teacher(ids):
    row = np.zeros(len(ids), TAUGHT)
    row["id"] = ids
    return row


def read_taught(pattern):
    """Stories as tests/teach_stories.c writes them: arrays of TAUGHT."""
    stories = []
    for path in sorted(glob.glob(pattern)):
        data, at = open(path, "rb").read(), 0
        while at < len(data):
            n = int(np.frombuffer(data, np.int32, 1, at)[0])
            story = without_teacher(np.frombuffer(data, np.int32, n, at + 4))
            targets = np.frombuffer(data, np.uint16, 2 * CHOICES * n, at + 4 + 4 * n)
            targets = targets.reshape(n, 2, CHOICES)
            story["pieces"], story["shares"] = targets[:, 0], targets[:, 1]
            stories.append(story)
            at += 4 + 4 * n + targets.nbytes
    return stories


class Rows:
    """Rows of ids, or of TAUGHT, without end: stories in a new order each time round."""

    def __init__(self, make_round, seed):
        self.make_round, self.random, self.ids = make_round, random.Random(seed), None
        self.rounds = 0

    def next(self, length):
        """length + 1 ids, the last of them the first of the next row."""
        while self.ids is None or len(self.ids) <= length:
            more = self.make_round(self.random)
            self.ids = more if self.ids is None else np.concatenate([self.ids, more])
            self.rounds += 1
        row, self.ids = self.ids[:length + 1], self.ids[length:]
        return row


class Text:
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
        self.dropout = BPE_DROPOUT
        self.sampled = [np.array(ids, np.int32) for ids in self.pieces.encode(sampled)]
        self.taught = read_taught(args.taught) if args.taught else []
        for story in self.taught[:9]:
            ids = story["id"].tolist()
            if self.pieces.encode(self.pieces.decode(ids)) != ids:
                sys.exit("--taught: the stories were split by another tokenizer than that of --out")
        real_round = self.taught_round if self.taught else self.real_round
        self.alone = Rows(lambda r: real_round(r, [BOS], [EOS]), args.seed)
        self.joined = Rows(lambda r: real_round(r, [], "\n\n"), args.seed + 1)
        self.told = Rows(self.sampled_round, args.seed + 2)
        self.megabytes = [sum(map(len, stories)) / 1e6 for stories in (self.real, sampled)]
        print(f"{len(self.real)} real stories, {self.megabytes[0]:.2f} MB; {len(self.taught)} taught; "
              f"{len(sampled)} sampled, {self.megabytes[1]:.2f} MB", flush=True)

    def real_round(self, generator, before, after):
        sentencepiece.set_random_generator_seed(generator.randrange(1 << 31))
        out = []
        for story in generator.sample(self.real, len(self.real)):
            if generator.random() < TOLD_OF_OTHERS:
                story = self.others.other(story, generator)
            joined = story + after if isinstance(after, str) else story
            ids = self.pieces.encode(joined, enable_sampling=self.dropout > 0, alpha=self.dropout,
                                     nbest_size=-1)
            out += before + ids + (after if isinstance(after, list) else [])
        return np.array(out, np.int32)

    def taught_round(self, generator, before, after):
        if isinstance(after, str):  # as it is split behind a sentence
            after = self.pieces.encode("." + after)[len(self.pieces.encode(".")):]
        before, after = without_teacher(before), without_teacher(after)
        return np.concatenate([part for story in generator.sample(self.taught, len(self.taught))
                               for part in (before, story, after)])

    def sampled_round(self, generator):
        tag = np.array([SAMPLED], np.int32)
        return np.concatenate([part for ids in generator.sample(self.sampled, len(self.sampled))
                               for part in (tag, ids)])

    def batch(self, n_rows, share_done, generator):
        """ids (n, length + 1), and None or what a teacher expects: pieces and shares, (.., CHOICES)."""
        share = REAL_SHARE[0] + (REAL_SHARE[1] - REAL_SHARE[0]) * share_done
        self.dropout = BPE_DROPOUT if share_done < BPE_DROPOUT_UNTIL else 0
        length = SHORT if share_done < SHORT_UNTIL else CONTEXT
        rows = []
        for _ in range(n_rows * CONTEXT // length):
            real = not self.sampled or generator.random() < share
            source = generator.choice([self.alone, self.joined]) if real else self.told
            row = source.next(length)
            if source is self.told:  # it may begin in the middle of a story
                row = np.concatenate([[SAMPLED], row[:-1]])
            rows.append(row)
        if not self.taught:
            return np.stack(rows).astype(np.int64), None
        rows = np.stack([row if row.dtype == TAUGHT else without_teacher(row) for row in rows])
        return (rows["id"].astype(np.int64),
                (rows["pieces"].astype(np.int64), rows["shares"].astype(np.float32) / 65535))

    def dev_text(self):
        text = "\n\n".join(self.dev)
        return self.pieces.encode(text), len(text.encode())

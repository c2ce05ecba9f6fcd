"""Changed files for scripts/differential: small ones of each format, and what random changes make of them.

    data = Inputs("gguf").make(seed=1, number=17)       the same bytes each time

A change is one of the structure (a dimension, a type, an id, an entry twice, counts and offsets put right
or not), of a number or a piece of text where it stands, or of bytes. Files of ../shared/data, where they
are there, are cut to a few hundred entries first.
"""
import pickle
import random

from gguf_files import gguf_bases, gguf_bytes
from json_values import change_json, encoded
from safetensors_files import change_safetensors, safetensors_bases
from tokenizer_files import change_tokenizer, tokenizer_bases

SNIPPETS = [b",", b"}", b"{", b"]", b"[", b'"', b":", b" ", b"\n", b"\t", b"\x00", b"\xff", b"\xc0\x80", b"\xed\xa0\x80",
            b"\xef\xbb\xbf", b"\\", b"\\u0000", b"\\ud800", b"//", b"0", b"-", b".0", b"e1", b"null", b"\x0c", b"\xc2\xa0"]


def change_bytes(r, data):
    data = bytearray(data)
    if not data:
        return b"\x00"
    kind, at = r.randrange(8), r.randrange(min(len(data), r.choice([64, 1024, 1 << 20])))
    n = 1 << r.randrange(6)
    if kind == 0:
        data[at] ^= 1 << r.randrange(8)
    elif kind == 1:
        data[at] = r.choice([0, 1, 0x20, 0x22, 0x2c, 0x5c, 0x7b, 0x7d, 0x7f, 0x80, 0xff, r.randrange(256)])
    elif kind == 2:
        data[at:at] = r.choice(SNIPPETS)
    elif kind == 3:
        del data[at:at + n]
    elif kind == 4:
        data[at:at] = data[at:at + n]
    elif kind == 5:
        del data[at:]
    elif kind == 6:
        data += r.choice([b"\x00", b" ", b"}", b"\n\n", bytes(n)])
    else:
        other = r.randrange(len(data))
        data[at:at + n] = data[other:other + n]
    return bytes(data)


class Inputs:
    """The files of one format; `bases` are the ones that are changed."""

    def __init__(self, kind):
        self.kind = kind
        self.bases = {"safetensors": safetensors_bases, "gguf": gguf_bases, "tokenizer": tokenizer_bases}[kind]()
        self.packed = [pickle.dumps(base) for base in self.bases]  # faster than a deep copy

    def _changed(self, r, base, count):
        if self.kind == "gguf":
            return gguf_bytes(r, base, count)
        meaning = change_safetensors if self.kind == "safetensors" else change_tokenizer
        root = base.header if self.kind == "safetensors" else base
        for _ in range(count):
            if r.random() < 0.8:
                meaning(r, base)
            else:
                change_json(r, root)
        return base.bytes(r) if self.kind == "safetensors" else encoded(root)

    def make(self, seed, number):
        """The first inputs are the files as they are."""
        r = random.Random(f"{self.kind} {seed} {number}")
        base = pickle.loads(self.packed[number % len(self.bases)])
        as_is = number < len(self.bases)
        if as_is:
            return base.bytes(r, False) if self.kind == "gguf" else base.bytes(r) if self.kind == "safetensors" else encoded(base)
        how = r.random()
        data = self._changed(r, base, 0 if how < 0.12 else r.choice([1, 1, 1, 1, 2, 3]))
        if how < 0.2:
            for _ in range(r.choice([1, 1, 2, 4])):
                data = change_bytes(r, data)
        return data

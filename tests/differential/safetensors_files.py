"""Small safetensors files, and changes to them that a reader has to judge by their meaning."""
import json
import os
import struct

from json_values import SHARED, VALUES, Pairs, change_json, encoded

BITS = {"F32": 32, "F16": 16, "BF16": 16, "F64": 64, "I64": 64, "U64": 64, "I32": 32, "U32": 32, "I16": 16, "U16": 16,
        "I8": 8, "U8": 8, "BOOL": 8, "C64": 64, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
        "F8_E5M2FNUZ": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4}


def size_of(dtype, shape):
    bits = BITS[dtype]
    for n in shape:
        bits *= n
    return bits // 8


class Safetensors:
    """A header as JSON and the data behind it."""

    def __init__(self, header, data):
        self.header, self.data = header, data

    def entries(self):
        return [pair[1] for pair in self.header if pair[0] != "__metadata__" and isinstance(pair[1], Pairs)]

    def bytes(self, r):
        text = encoded(self.header)
        if r.random() < 0.5:
            text += b" " * (-len(text) % 8)
        length = len(text)
        if r.random() < 0.03:
            length = r.choice([length + r.randrange(-9, 10), r.choice(VALUES)]) % 2**64
        return struct.pack("<Q", length) + text + self.data


def make_safetensors(tensors, metadata):
    header, data = Pairs(), b""
    if metadata is not None:
        header.append(["__metadata__", Pairs(list(pair) for pair in metadata.items())])
    for name, dtype, shape in tensors:
        size = size_of(dtype, shape)
        header.append([name, Pairs([["dtype", dtype], ["shape", list(shape)],
                                    ["data_offsets", [len(data), len(data) + size]]])])
        data += bytes((7 * i + len(data)) % 256 for i in range(size))
    return Safetensors(header, data)


def cut_safetensors(path):
    """The first tensors of at most 2 KiB, one after another."""
    with open(path, "rb") as file:
        whole = file.read()
    length = struct.unpack("<Q", whole[:8])[0]
    header, data = Pairs(), b""
    for name, entry in json.loads(whole[8:8 + length]).items():
        if name == "__metadata__":
            header.append([name, Pairs([["format", "pt"]])])
            continue
        begin, end = entry["data_offsets"]
        if end - begin <= 2048 and len(header) < 12:
            header.append([name, Pairs([["dtype", entry["dtype"]], ["shape", entry["shape"]],
                                        ["data_offsets", [len(data), len(data) + end - begin]]])])
            data += whole[8 + length + begin:8 + length + end]
    return Safetensors(header, data)


def safetensors_bases():
    types = list(BITS)
    bases = [
        make_safetensors([("a", "F32", [2, 3])], None),
        make_safetensors([], {}),
        make_safetensors([(f"t.{t}", t, [2, 4]) for t in types], {"format": "pt"}),
        make_safetensors([("scalar", "F32", []), ("empty", "F16", [0, 3]), ("b", "BF16", [1, 2, 3, 4]),
                          ("odd", "U8", [3]), ("after.odd", "F32", [1])], {"format": "np", "note": "\u00e9 \"", "a": ""}),
    ]
    for folder in ("reference-models/llama-tied", "reference-models/gemma3-bf16", "reference-models-2026/lfm2"):
        if os.path.exists(SHARED + folder):
            bases.append(cut_safetensors(SHARED + folder + "/model.safetensors"))
    return bases


def change_safetensors(r, base):
    """One change that a reader has to judge by meaning; most keep type, shape and range in agreement."""
    entries = base.entries()
    entry = r.choice(entries) if entries else Pairs()
    kind, shape = r.randrange(12), entry.get("shape")
    if not isinstance(shape, list):
        return change_json(r, base.header)
    if kind == 0:
        entry.put("dtype", r.choice(list(BITS) + ["f32", "F128", "F32 ", "Q4_0"]))
    elif kind == 1:  # the same number of elements
        shape.insert(r.randrange(len(shape) + 1), 1)
    elif kind == 2 and len(shape) > 1 and all(isinstance(n, int) for n in shape[:2]):
        shape[:2] = [shape[0] * shape[1]]
    elif kind == 3:
        shape.insert(0, 0)
    elif kind == 4:  # an empty tensor somewhere
        at = r.randrange(len(base.data) + 1)
        base.header.append(["new", Pairs([["dtype", "F32"], ["shape", [0]], ["data_offsets", [at, at]]])])
    elif kind == 5:  # two tensors change places
        other = r.choice(entries)
        one, two = entry.get("data_offsets"), other.get("data_offsets")
        entry.put("data_offsets", two)
        other.put("data_offsets", one)
    elif kind == 6:
        at = r.randrange(len(base.data) + 1)
        base.data = r.choice([base.data[:at], base.data + b"\0", base.data[:at] + b"\0" + base.data[at:]])
    elif kind == 7:
        base.header.insert(r.randrange(len(base.header) + 1),
                           ["__metadata__", Pairs([[r.choice(["a", "b", "note", ""]), r.choice(["x", "", 1, None])]])])
    elif kind == 8:  # a tensor more behind the others
        n = r.choice([1, 2, 4])
        base.header.append([r.choice(["new", "a", "", "\u00e9", "x" * 300]), Pairs(
            [["dtype", "U8"], ["shape", [n]], ["data_offsets", [len(base.data), len(base.data) + n]]])])
        base.data += bytes(n)
    elif kind == 9:
        r.shuffle(base.header)
    elif kind == 10:
        r.shuffle(entry)
    else:
        entry.append([r.choice(["dtype", "extra", "shape", "offset"]), r.choice([1, "F32", [1], None])])
    return None

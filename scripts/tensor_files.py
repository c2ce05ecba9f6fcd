"""Safetensors files with numpy only: 8 bytes of length, a JSON header, raw tensors.

    header: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}

Used by the other scripts here; works with Debian's /usr/bin/python3 and python3-numpy.
"""
import json
import os
import struct

import numpy as np

from common import stop

TYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
         "U8": "u1", "BOOL": "?"}


def read(path):
    """(tensors by name, metadata); bfloat16 is widened to float32."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = np.frombuffer(data[8 + size + begin:8 + size + end], TYPES[entry["dtype"]])
        if entry["dtype"] == "BF16":
            flat = (flat.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors, metadata


def bfloat16(values):
    """float32 -> bfloat16 bits: the upper half, rounded to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def write(path, tensors, metadata=None, dtype="F32"):
    """Floating-point tensors are stored as `dtype`, integers as int64."""
    header, parts, at = {}, [], 0
    if metadata:
        header["__metadata__"] = {str(key): str(value) for key, value in metadata.items()}
    for name, values in tensors.items():
        values = np.asarray(values)
        whole = values.dtype.kind in "iu"
        stored = "I64" if whole else dtype
        flat = bfloat16(values) if stored == "BF16" else values.astype(TYPES[stored])
        part = np.ascontiguousarray(flat).tobytes()
        header[name] = {"dtype": stored, "shape": list(values.shape),
                        "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


SIZES = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "head_dim", "vocab_size")


def write_trace(path, tensors, producer, model, shape):
    """A trace with the metadata of docs/trace.md; `shape` has the sizes and the family."""
    write(path, tensors, {
        "producer": producer, "model": model, "family": shape.family.replace("_text", ""),
        "precision": "f32", "kv": "f32", "backend": producer,
        "prompt_tokens": len(tensors["input_ids"]),
        "config": json.dumps({name: getattr(shape, name) for name in SIZES}),
        "order": "\n".join(tensors)})


# ---- the command lines of the scripts that write such files ----

def add_trace_options(parser):
    parser.add_argument("--prompt-ids", required=True, help="1,2,3")
    parser.add_argument("--greedy", type=int, metavar="N", help="print N greedy ids")
    parser.add_argument("--out", help="write every stage to this safetensors file")
    parser.add_argument("--force", action="store_true", help="replace a file that exists, but none of the model's")


def check_output(path, model, force):
    """Ends the script where `path` exists. Without `force` it stays; a file that is read, `model` or one in it, does so always."""
    if not os.path.exists(path):
        return
    files = [os.path.join(model, name) for name in os.listdir(model)] if os.path.isdir(model) else [model]
    if any(os.path.exists(name) and os.path.samefile(name, path) for name in files):
        stop(2, f"{path} belongs to the model, and is never replaced")
    if not force:
        stop(2, f"{path} exists: --force replaces it")


def parse_ids(text, vocab_size):
    ids = []
    for word in map(str.strip, text.split(",")):
        if not word.isdecimal() or int(word) >= vocab_size:
            stop(2, f"--prompt-ids: wanted ids of 0 to {vocab_size - 1} such as 1,2,3, got \"{word}\"")
        ids.append(int(word))
    return ids


# ---- a model ----

def read_model(directory):
    """All tensors of a Hugging Face directory, from one file or from the shards in its index."""
    index = os.path.join(directory, "model.safetensors.index.json")
    names = ["model.safetensors"]
    if not os.path.exists(os.path.join(directory, names[0])) and os.path.exists(index):
        with open(index) as file:
            names = sorted(set(json.load(file)["weight_map"].values()))
    tensors = {}
    for name in names:
        tensors.update(read(os.path.join(directory, name))[0])
    return tensors

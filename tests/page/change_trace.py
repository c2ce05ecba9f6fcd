#!/usr/bin/env python3
"""Writes a copy of a safetensors file that a Python statement has changed.

    tests/page/change_trace.py FROM TO STATEMENT

In the statement `tensors` has [dtype, shape, bytearray] for each name, `metadata` a text for each
key, and put(name, index, number) sets a float32.
"""
import json
import struct
import sys


def main():
    source, target, statement = sys.argv[1:]
    with open(source, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    tensors = {name: [entry["dtype"], entry["shape"], bytearray(data[slice(*entry["data_offsets"])])]
               for name, entry in header.items()}

    def put(name, index, number):
        struct.pack_into("<f", tensors[name][2], 4 * index, number)

    exec(statement, {"tensors": tensors, "metadata": metadata, "put": put, "json": json, "struct": struct})  # noqa: S102
    entries, at = {"__metadata__": metadata}, 0
    for name, (dtype, shape, values) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(values)]}
        at += len(values)
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(values for _, _, values in tensors.values()))


if __name__ == "__main__":
    main()

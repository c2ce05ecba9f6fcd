"""Small GGUF files, most of them models, and changes to their keys and tensors."""
import os
import struct

from json_values import SHARED, VALUES

KINDS = {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "string": 8, "array": 9,
         "u64": 10, "i64": 11, "f64": 12}
CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
TENSOR_TYPES = {0: (1, 4), 1: (1, 2), 30: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
                10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 20: (32, 18),
                24: (1, 1), 26: (1, 4), 28: (1, 8)}


class Gguf:
    """keys: [name, type, value], an array's value (element type, list); tensors: [name, dims fastest
    first, type, data]."""

    def __init__(self, keys, tensors):
        self.keys, self.tensors = keys, tensors
        self.version, self.tail, self.gaps = 3, b"", {}

    def alignment(self):
        found = [v for name, kind, v in self.keys if name == b"general.alignment" and kind == 4]
        return found[0] if found and 0 < found[0] <= 65536 else 32

    def head(self, numbers):
        """The header; `numbers` gets (offset, size) of every integer that others depend on."""
        out = bytearray(b"GGUF")

        def put(code, value):
            numbers.append((len(out), struct.calcsize(code)))
            out.extend(struct.pack("<" + code, value))

        def text(value):
            put("Q", len(value))
            out.extend(value)

        put("I", self.version)
        put("Q", len(self.tensors))
        put("Q", len(self.keys))
        for name, kind, value in self.keys:
            text(name)
            put("I", kind)
            element, values = value if kind == 9 else (kind, [value])
            if kind == 9:
                put("I", element)
                put("Q", len(values))
            if element == 8:
                for v in values:
                    text(v)
            else:
                out.extend(struct.pack(f"<{len(values)}{CODES[element]}", *values))
        at = 0
        for i, (name, dims, kind, data) in enumerate(self.tensors):
            text(name)
            put("I", len(dims))
            for n in dims:
                put("Q", n)
            put("I", kind)
            put("Q", (at + self.gaps.get(i, 0)) % 2**64)
            at += len(data) + -len(data) % self.alignment()
        return out

    def bytes(self, r, forge):
        numbers = []
        out = self.head(numbers)
        if forge:  # a number that is not what it should be
            at, size = r.choice(numbers[:6] if r.random() < 0.2 else numbers)
            value = int.from_bytes(out[at:at + size], "little")
            value = r.choice([r.choice(VALUES), value + r.randrange(-9, 10), value ^ 1 << r.randrange(8 * size)])
            out[at:at + size] = (value % 256**size).to_bytes(size, "little")
        out += bytes(-len(out) % self.alignment())
        for _, _, _, data in self.tensors:
            out += data + bytes(-len(data) % self.alignment())
        return bytes(out) + self.tail


def tensor(name, dims, kind=0):
    n = 1
    for d in dims:
        n *= d
    block, size = TENSOR_TYPES[kind]
    return [name.encode(), list(dims), kind, bytes(7 * i % 251 for i in range(n // block * size))]


def key(name, kind, value):
    return [name.encode(), KINDS[kind], value]


def strings(texts):
    return (8, [t.encode() for t in texts])


def llama_tensors(vocab):
    names = [("attn_q", 32, 32), ("attn_k", 32, 32), ("attn_v", 32, 32), ("attn_output", 32, 32), ("ffn_gate", 32, 32),
             ("ffn_up", 32, 32), ("ffn_down", 32, 32)]
    return [tensor("token_embd.weight", [32, vocab], 2), tensor("output_norm.weight", [32]),
            tensor("blk.0.attn_norm.weight", [32]), tensor("blk.0.ffn_norm.weight", [32])] + [
                tensor(f"blk.0.{name}.weight", [a, b], 8) for name, a, b in names]


def llama_keys():
    return [key("general.architecture", "string", b"llama"), key("llama.block_count", "u32", 1),
            key("llama.embedding_length", "u32", 32), key("llama.feed_forward_length", "u32", 32),
            key("llama.context_length", "u32", 64), key("llama.attention.head_count", "u32", 2),
            key("llama.attention.head_count_kv", "u32", 2), key("llama.attention.layer_norm_rms_epsilon", "f32", 1e-5)]


def spm_keys(words):
    spellings = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + words
    n = len(spellings)
    return n, [key("tokenizer.ggml.model", "string", b"llama"), key("tokenizer.ggml.tokens", "array", strings(spellings)),
               key("tokenizer.ggml.scores", "array", (6, [-float(i) for i in range(n)])),
               key("tokenizer.ggml.token_type", "array", (5, [2, 3, 3] + [6] * 256 + [1] * len(words))),
               key("tokenizer.ggml.bos_token_id", "u32", 1), key("tokenizer.ggml.eos_token_id", "u32", 2),
               key("tokenizer.ggml.add_bos_token", "bool", 1)]


def byte_letters():
    """GPT-2's letter for each byte."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in shown}
    for b in range(256):
        if b not in letters:
            letters[b] = chr(256 + len(letters) - len(shown))
    return letters


def byte_level_keys():
    spellings = list(byte_letters().values()) + ["\u0120a", "th", "<|endoftext|>"]
    return len(spellings), [
        key("tokenizer.ggml.model", "string", b"gpt2"), key("tokenizer.ggml.pre", "string", b"llama-bpe"),
        key("tokenizer.ggml.tokens", "array", strings(spellings)),
        key("tokenizer.ggml.token_type", "array", (5, [1] * (len(spellings) - 1) + [3])),
        key("tokenizer.ggml.merges", "array", strings(["\u0120 a", "t h"])),
        key("tokenizer.ggml.eos_token_id", "u32", len(spellings) - 1)]


def cut_gguf(path):
    """Its keys, with lists cut to 260 entries, and its tensors of at most 2 KiB."""
    with open(path, "rb") as file:
        data = file.read()
    at = 8

    def take(code):
        nonlocal at
        at += struct.calcsize("<" + code)
        values = struct.unpack("<" + code, data[at - struct.calcsize("<" + code):at])
        return values if len(values) > 1 else values[0]

    def text():
        n = take("Q")
        return take(f"{n}s") if n else b""

    def value(kind):
        if kind == 9:
            element, n = take("IQ")
            return (element, [value(element) for _ in range(n)][:260])
        return text() if kind == 8 else take(CODES[kind])

    def key_and_value():
        name, kind = text(), take("I")
        return [name, kind, value(kind)]

    def tensor_info():
        name, n = text(), take("I")
        return name, [take("Q") for _ in range(n)], take("I"), take("Q")

    n_tensors, n_keys = take("QQ")
    keys = [key_and_value() for _ in range(n_keys)]
    infos = [tensor_info() for _ in range(n_tensors)]
    start, tensors = at + -at % 32, []
    for name, dims, kind, offset in infos:
        size = len(tensor("", dims, kind)[3])
        if size <= 2048:
            tensors.append([name, dims, kind, data[start + offset:start + offset + size]])
    return Gguf(keys, tensors)


def gguf_bases():
    every = [key(f"x.{k}", k, 1) for k in KINDS if k not in ("string", "array", "f32", "f64")] + [
        key("x.f32", "f32", 1.5), key("x.f64", "f64", -2.5), key("x.string", "string", "\u00e9\n".encode()),
        key("x.none", "string", b""), key("x.no_strings", "array", (8, [])), key("x.strings", "array", strings(["a", ""]))
    ] + [key(f"x.array.{k}", "array", (n, [0, 1, 1])) for k, n in KINDS.items() if n in CODES]
    types = [tensor(f"x.type.{kind}", [256, 2], kind) for kind in (0, 1, 30, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14)]
    n, spm = spm_keys(["\u2581a", "\u2581", "th"])
    m, bpe = byte_level_keys()
    shared = [SHARED + "stories260K/stories260K.gguf", SHARED + "reference-models-2026/gguf/olmo3.gguf"]
    return [
        Gguf(llama_keys() + [key("llama.vocab_size", "u32", 4)], llama_tensors(4)),
        Gguf(llama_keys() + every, llama_tensors(4) + types),
        Gguf(llama_keys() + [key("general.alignment", "u32", 64)] + spm, llama_tensors(n)),
        Gguf(llama_keys() + bpe, llama_tensors(m)),
        Gguf(llama_keys() + every[:4], llama_tensors(4) + [tensor("x.3", [2, 3, 4]), tensor("x.4", [2, 1, 2, 2], 1),
                                                           tensor("x.1", [1])]),
    ] + [cut_gguf(path) for path in shared if os.path.exists(path)]


def change_key(r, base):
    keys = base.keys
    i, kind = r.randrange(len(keys)), r.randrange(8)
    name, code, value = keys[i]
    if kind == 0:
        del keys[i]
    elif kind == 1:
        keys.insert(r.randrange(len(keys) + 1), [r.choice([name, name + b"2", b"GGUF.version"]), code, value])
    elif kind == 2:
        r.shuffle(keys)
    elif kind == 3:
        at = r.randrange(len(name) + 1)
        keys[i] = [r.choice([b"", name[:at] + r.choice([b"\0", b" ", b"\xff", b"\x1b", "\u00e9".encode(), b"a", b"/"])
                             + name[at:], name * 40]), code, value]
    elif kind == 4:
        other = r.choice([c for c in CODES if c not in (6, 12)])
        keys[i] = [name, other, r.choice([0, 1, 2, 100])]
    elif kind == 5 and code in CODES and code not in (6, 12):
        width = struct.calcsize(CODES[code])
        low = -(1 << 8 * width - 1) if CODES[code].islower() else 0
        keys[i][2] = (r.choice(VALUES + [value + 1, value - 1, 3, 13, 16, 32, 64, 128]) - low) % (1 << 8 * width) + low
    elif kind == 6 and code == 9 and value[1]:
        element, values = value[0], list(value[1])
        j = r.randrange(len(values))
        values[j:j + 1] = r.choice([[], [values[j]] * 2, [values[r.randrange(len(values))]]])
        keys[i][2] = (element, values)
    elif code == 8:
        keys[i][2] = r.choice([b"", value + b"x", b"\xff\xfe", b"llama", b"gpt2", value * 50])
    else:
        keys.append(key("general.alignment", "u32", r.choice([0, 1, 4, 8, 16, 48, 64, 4096, 1 << 20])))


def change_tensor(r, base):
    i, kind = r.randrange(len(base.tensors)), r.randrange(9)
    name, dims, code, data = base.tensors[i]
    if kind == 0:
        del base.tensors[i]
    elif kind == 1:
        base.tensors.insert(r.randrange(len(base.tensors) + 1), [r.choice([name, b"new", b"", b"x" * 70, b"a b", b"\xff"]),
                                                                 dims, code, data])
    elif kind == 2:
        r.shuffle(base.tensors)
    elif kind == 3:
        base.tensors[i] = [name, dims[::-1], code, data]
    elif kind == 4:
        base.tensors[i] = [name, dims + [1] * r.choice([1, 1, 2, 3, 4]), code, data]
    elif kind == 5:  # another type, with data of its size
        other = r.choice(list(TENSOR_TYPES))
        base.tensors[i] = tensor("x.other", [256, 2], other)
    elif kind == 6:
        dims = list(dims)
        dims[r.randrange(len(dims))] = r.choice(VALUES) % 2**64
        base.tensors[i] = [name, dims, code, data]
    elif kind == 7:
        base.gaps[i] = r.choice([-64, -32, -1, 1, 4, 32, 64, 4096]) if i else r.choice([1, 32])
    else:
        base.tail = r.choice([b"\0", bytes(31), bytes(32), bytes(4096)])


def gguf_bytes(r, base, count):
    for _ in range(count):
        r.choice([change_key, change_tensor])(r, base)
        if not base.tensors or not base.keys:
            break
    base.version = r.choice([3] * 20 + [2, 1, 4, 0x03000000])
    return base.bytes(r, r.random() < 0.25)

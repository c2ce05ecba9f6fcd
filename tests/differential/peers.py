"""What the Python packages read, as the text of which tests/programs/differential.c makes a sum.

    for verdict in peer_verdicts("gguf", paths): "accepted SUM", "refused MESSAGE"
"""
import hashlib
import os
import resource
import signal

import gguf
import numpy as np
import safetensors
import tokenizers

# A peer's own time for one file. What takes longer does not end: a small file takes a tenth of it.
SECONDS = 0.1
TEXTS = ["Hello world", " the  other\n\nin 1234 \u00e9t\u00e9 e\u0301", "", " ", "\u2581a\u2581the", "<s>an</s> <|endoftext|> in",
         "an an, an.  \t an\r\n", "\u4e2d\U0001f600ll 12 can't we'LL", "<|im_start|>  er<unk><x>AtheA", "\u00e9\u00e9 \u00c9 \ufb01"]


def counted(data):
    return b"%d:%s " % (len(data), data)


def tensor_line(name, kind, shape, offset, data):
    return b"tensor %s%s [%s] %d %s\n" % (counted(name), kind.encode(), b",".join(b"%d" % n for n in shape), offset,
                                          hashlib.sha256(data).hexdigest().encode())


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    tensors = dict(safetensors.deserialize(data))
    with safetensors.safe_open(path, "numpy") as file:
        metadata, order = file.metadata() or {}, file.offset_keys()
    at, offsets = 8 + int.from_bytes(data[:8], "little"), {}
    for name in order:  # the library tells no offsets, but there are no holes
        offsets[name] = at
        at += len(tensors[name]["data"])
    out = b""
    for name in sorted(tensors, key=lambda n: n.encode()):
        t = tensors[name]
        out += tensor_line(name.encode(), t["dtype"], t["shape"], offsets[name], t["data"])
    for name in ["", "a", "b", "format", "note"]:
        if name in metadata:
            out += b'metadata "%s" %s\n' % (name.encode(), counted(metadata[name].encode()))
    return out


GGUF_TYPES = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"]


def key_line(name, parts):
    kind = int(parts[2][0])
    line = b"key %s%s " % (counted(name.encode()), GGUF_TYPES[kind].encode())
    if kind != 9:
        return line + counted(parts[-1].tobytes()) + b"\n"
    values = hashlib.sha256(b"".join(part.tobytes() for part in parts[5:])).hexdigest()
    return line + b"%s %d %s\n" % (GGUF_TYPES[int(parts[3][0])].encode(), int(parts[4][0]), values.encode())


def sum_of_texts(name, field):
    texts = [field.parts[i].tobytes() for i in field.data] if field else []
    return f"{name} {len(texts)} {hashlib.sha256(b''.join(map(counted, texts))).hexdigest()}\n"


def read_model(fields):
    """Sizes and vocabulary, by the names of the format's specification."""
    def number(name, default=None):
        field = fields.get(name)
        return default if field is None else field.parts[field.data[0]][0]

    family = bytes(fields["general.architecture"].parts[-1]).decode()
    heads = number(family + ".attention.head_count")
    eps = number(family + ".attention.layer_norm_rms_epsilon", number(family + ".attention.layer_norm_epsilon"))
    text = (f"dim {number(family + '.embedding_length')} layers {number(family + '.block_count')} heads {heads} "
            f"kv_heads {number(family + '.attention.head_count_kv', heads)} context "
            f"{min(int(number(family + '.context_length')), 1 << 22)} eps {'%.9g' % eps}\n")
    kind = fields.get("tokenizer.ggml.model")
    known = kind is not None and bytes(kind.parts[-1]) not in (b"none", b"no_vocab")

    def words(name):
        return fields.get("tokenizer.ggml." + name) if known else None

    def numbers(name, code):
        field = words(name)
        values = np.array([field.parts[i][0] for i in field.data] if field else [], dtype=code)
        return hashlib.sha256(values.tobytes()).hexdigest()

    tokens = words("tokens")

    def token_id(name):
        value = number(f"tokenizer.ggml.{name}_token_id", -1) if known else -1
        return value if 0 <= value < len(tokens.data) else -1

    text += sum_of_texts("tokens", tokens) + sum_of_texts("merges", words("merges"))
    text += f"scores {numbers('scores', '<f4')}\ntypes {numbers('token_type', 'u1')}\n"
    return (text + f"bos {token_id('bos')} eos {token_id('eos')} unknown {token_id('unknown')}\n").encode()


def read_gguf(path):
    """The container, a tab, the model where there is one."""
    reader = gguf.GGUFReader(path)
    header = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count")  # no keys, but listed with them
    fields = {name: field for name, field in reader.fields.items() if name not in header}
    out = b"GGUF v%d\n" % int(reader.fields["GGUF.version"].parts[0][0])
    for name in sorted(fields, key=lambda n: n.encode()):
        out += key_line(name, fields[name].parts)
    for t in reader.tensors:
        out += tensor_line(t.name.encode(), str(int(t.tensor_type)), [int(n) for n in reversed(t.shape)],
                           t.data_offset, t.data.tobytes())
    try:
        return out, read_model(fields)
    except Exception as error:  # no model of a kind that is known here
        return out, f"refused {error!r}".encode()


def read_tokenizer(path):
    """Tokens and ids, a tab, the text that the ids stand for."""
    t = tokenizers.Tokenizer.from_file(path)
    out = b"".join(b"token %s\n" % counted((t.id_to_token(i) or "").encode()) for i in range(t.get_vocab_size(True)))
    texts = b""
    for text in TEXTS:
        ids = t.encode(text, add_special_tokens=False).ids
        out += b"ids" + b"".join(b" %d" % i for i in ids) + b"\n"
        texts += b"text %s\n" % counted(t.decode(ids).encode())
    return out, texts


PEERS = {"safetensors": read_safetensors, "gguf": read_gguf, "tokenizer": read_tokenizer}


class Slow(Exception):
    pass


def too_slow(*_):
    raise Slow("does not come to an end")


def verdict(contents):
    return "accepted " + hashlib.sha256(contents).hexdigest()


def as_text(contents):
    return contents.decode("utf-8", "backslashreplace")


def peer_verdict(kind, path, shown=False):
    """In the words of limpid's side: "accepted SUM", "refused MESSAGE"."""
    shown = as_text if shown else verdict
    signal.signal(signal.SIGPROF, too_slow)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        contents = PEERS[kind](path)
        if isinstance(contents, tuple):
            first, second = contents
            return shown(first) + "\t" + (second.decode() if second.startswith(b"refused") else shown(second))
        return shown(contents)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        said = f"{type(error).__name__}: {error}".split("\n")[0]
        return "refused " + said.encode("ascii", "backslashreplace").decode()[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def peer_verdicts(kind, paths):
    """In a child, since a library may abort: then the file at hand is one on which it died."""
    verdicts = []
    while len(verdicts) < len(paths):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a panic prints too
            with os.fdopen(write_end, "w") as out:
                for path in paths[len(verdicts):]:
                    print(peer_verdict(kind, path), file=out, flush=True)
            os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end) as lines:
            verdicts += [line.rstrip("\n") for line in lines]
        os.waitpid(child, 0)
        if len(verdicts) < len(paths):
            verdicts.append("refused died")
    return verdicts

# The stopped program, for limpid-gdb.py: its model, the current stage, its tensors by name. Reads
# memory and runs no code of the program, except (need_calls) to copy from a GPU, to read a KV cache
# whose layout only the backend knows, and for `attention`, `diff`, `rewind` and `set-token`.
import re
import struct

import gdb

from limpid_blocks import BLOCKS, block_values, f32

# The stages that model/observe.h reports: the width of a row, by name, and a description.
STAGES = {
    "token_embedding": ("dim", "the rows of the embedding table, before their norm"),
    "embedding": ("dim", "the input of the first layer"),
    "att_norm": ("dim", "the residual stream after the attention norm, input of wq, wk and wv"),
    "q": ("q", "queries, before norm and RoPE"),
    "k": ("kv", "keys, before norm and RoPE"),
    "v": ("kv", "values"),
    "q_norm": ("q", "queries after their norm"),
    "k_norm": ("kv", "keys after their norm"),
    "q_rotated": ("q", "queries after RoPE"),
    "k_rotated": ("kv", "keys after RoPE"),
    "att_weights": ("weights", "the softmax of the scores, for each query over all keys"),
    "att_heads": ("q", "each head's weighted sum of values"),
    "att_projected": ("dim", "the output of wo, before the post norm"),
    "att_out": ("dim", "the output of the attention block, which is added to the residual stream"),
    "att_residual": ("dim", "the residual stream after attention"),
    "ffn_norm": ("dim", "the residual stream after the feed-forward norm, input of w_gate and w_up"),
    "ffn_gate": ("hidden", "the output of w_gate, before the activation"),
    "ffn_up": ("hidden", "the output of w_up"),
    "ffn_activated": ("hidden", "the input of w_down"),
    "ffn_projected": ("dim", "the output of w_down, before the post norm"),
    "ffn_out": ("dim", "the output of the feed-forward block, which is added to the residual stream"),
    "layer_out": ("dim", "the residual stream after the layer"),
    "final_norm": ("dim", "the residual stream after the final norm, input of the head"),
    "logits_uncapped": ("vocab", "logits before the softcap"),
    "logits": ("vocab", "one unnormalised log-probability for each token of the vocabulary"),
}
OF_LOGIT_ROWS = ("final_norm", "logits_uncapped", "logits")  # only of rows whose logits are wanted
ENUMERATORS = {"logits_uncapped": "STAGE_UNCAPPED"}  # where the enumerator is not STAGE_NAME

# Scratch of the model: name, width of a row.
SCRATCH = {"x": "dim", "x_norm": "dim", "branch": "dim", "q": "q", "k": "kv", "v": "kv", "att_heads": "q",
           "gate": "hidden", "up": "hidden", "last": "dim", "logits": "vocab"}
MATRICES = ("wq", "wk", "wv", "wo", "w_gate", "w_up", "w_down")
BIASES = {"bq": "wq", "bk": "wk", "bv": "wv", "bo": "wo", "b_up": "w_up", "b_down": "w_down"}
CACHED = ("keys", "values")
NORMS = ("att_norm", "att_post_norm", "ffn_norm", "ffn_post_norm", "q_norm", "k_norm")
ENDS = ("token_embedding", "position_embedding", "head", "embedding_norm", "final_norm", "final_norm_bias")
INTEGERS = ("tokens", "positions", "sequences")
PASSES = ("forward_batch", "forward_sampled", "model_forward")  # functions, innermost first
TABLES = ("rope.cos", "rope.sin", "rope_local.cos", "rope_local.sin")


# ---- finding things ----


def frames():
    try:
        frame = gdb.newest_frame()
    except gdb.error:
        raise gdb.GdbError("the program is not running: `limpid break q_rotated 0`, then `run`")
    while frame:
        yield frame
        frame = frame.older()


def arguments(frame):
    """Names of a frame's arguments."""
    try:
        block = frame.block()
    except RuntimeError:
        return []
    while block and not block.function:
        block = block.superblock
    return [symbol.name for symbol in block if symbol.is_argument] if block else []


def struct_name(type_):
    type_ = type_.strip_typedefs()
    if type_.code != gdb.TYPE_CODE_PTR:
        return None
    return type_.target().unqualified().strip_typedefs().tag


def find(wanted):
    """The innermost argument that points to a struct of that name, or None."""
    optimised = False
    for frame in frames():
        for name in arguments(frame):
            value = frame.read_var(name)
            if struct_name(value.type) != wanted:
                continue
            optimised |= value.is_optimized_out
            if not value.is_optimized_out and int(value):
                return value.dereference()
    if optimised:
        raise gdb.GdbError("optimised out in this frame: try `up` or `finish`, or use `make debug`")
    return None


def session():
    value = find("Session")
    if value is None:
        generation = find("Generation")
        value = generation["session"].dereference() if generation is not None else None
    return value


def accepted_tokens(sampler):
    """Tokens of prompt and text so far, from the sampler's ring of them (model/sampler.c)."""
    count, end, room = (int(sampler[name]) for name in ("count", "next", "capacity"))
    return [int(sampler["history"][(end - count + i) % room]) for i in range(count)]


def model():
    value = find("Model")
    if value is None:
        holder = session()
        if holder is not None and int(holder["model"]):
            value = holder["model"].dereference()
    if value is None:
        raise gdb.GdbError("no frame here has a model: stop in `observe` first (limpid break STAGE [LAYER])")
    return value


def drafts(m):
    """Whether a model is the one that guesses (--draft), and not the one whose text is generated."""
    try:
        generation = find("Generation")
    except gdb.GdbError:  # optimised out in every frame: it cannot be told
        return False
    return generation is not None and int(generation["session"]["model"]) != int(m.address)


def argument_of(function, name):
    """An argument of the innermost frame of a function, or None."""
    for frame in frames():
        if frame.name() == function:
            value = frame.read_var(name) if name in arguments(frame) else None
            return None if value is None or value.is_optimized_out else value
    return None


def stage_at_hand():
    """The stage's name if the program is stopped in observe, else None."""
    frame = gdb.newest_frame()
    if frame.name() != "observe":
        return None
    id_ = argument_of("observe", "id")
    return next((name for name in STAGES if enumerator(name) == str(id_)), None)


def enumerator(stage):
    return ENUMERATORS.get(stage, "STAGE_" + stage.upper())


def layer_at_hand():
    layer = argument_of("observe", "layer")
    if layer is not None:
        return int(layer)
    for frame in frames():
        if "l" in arguments(frame) and any(struct_name(frame.read_var(a).type) == "Model" for a in arguments(frame)):
            value = frame.read_var("l")
            return None if value.is_optimized_out else int(value)
    return None


def spelling(token):
    """ ' "Once"' if the session has a tokenizer."""
    try:
        tokenizer = session()["tokenizer"].dereference()
        if not 0 <= token < int(tokenizer["n_tokens"]):
            return ""
        span = tokenizer["tokens"][token]
        text = read(span["text"], int(span["length"]))
        return ' "%s"' % "".join(c if c.isprintable() else "\\x%02x" % ord(c) for c in text.decode("utf-8", "replace"))
    except (gdb.error, gdb.GdbError, TypeError, ValueError):
        return ""


def read(address, count):
    try:
        return gdb.selected_inferior().read_memory(int(address), count).tobytes() if count else b""
    except gdb.MemoryError:
        raise gdb.GdbError("cannot read %d bytes at %#x: not host memory, or freed" % (count, int(address)))


def floats(address, count):
    return memoryview(read(address, 4 * count)).cast("f").tolist()


# ---- calling functions of the program ----


def need_calls():
    """gdb before version 14 does not know the registers of AMX. A call then fails, and each that was tried leaves a
    breakpoint on the program's stack, which the next `continue` writes over live variables."""
    global can_call
    if can_call is None:
        try:
            with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
                flags = next((line.split() for line in file if line.startswith("flags")), [])
        except OSError:
            flags = []
        version = re.search(r"\d+", gdb.VERSION)  # "13.1", "Fedora Linux 14.1-1.fc39"
        can_call = "amx_tile" not in flags or not version or int(version[0]) >= 14
    if not can_call:
        raise gdb.GdbError("this needs gdb 14 or newer: before it cannot call functions of a program on a processor with AMX")


can_call = None


def call(prototype, *arguments):
    """Calls a function of the program; "TYPE NAME(TYPES)", since kernels may come without -g."""
    need_calls()
    result, rest = prototype.split(" ", 1)
    name, types = rest.split("(", 1)
    return gdb.parse_and_eval("(%s (*)(%s)%s" % (result, types, name)).dereference()(*arguments)


def check_device(m):
    error = call("Error* device_error(void*)", m["device"]).dereference()
    if int(error["code"]):
        raise gdb.GdbError(error["message"].string())


# Functions of the CUDA backend that run the recorded operations; a call from inside would run them twice.
AT_WORK = ("device_sync", "device_end", "device_upload", "device_download", "perform", "run_all")


def on_gpu():
    """Whether the activations are in GPU memory, which gdb cannot read."""
    return not int(gdb.parse_and_eval("*(unsigned char *)&DEVICE_MEMORY_IS_HOST"))


class HostMemory:
    """`with HostMemory(count) as address`: memory in the program, for its functions to write to."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.address = int(call("void* malloc(unsigned long)", self.count))
        if not self.address:
            raise gdb.GdbError("no memory for %d bytes in the program" % self.count)
        return self.address

    def __exit__(self, *_):
        call("void free(void*)", self.address)


def need_idle():
    if any((frame.name() or "").split("(")[0] in AT_WORK for frame in frames()):
        raise gdb.GdbError("the program is inside the backend: `finish` until it is not, or limpid next")


def device_read(m, address, count):
    """Device memory; a GPU's is copied to the host after the recorded operations have run."""
    if not on_gpu() or not count:
        return read(address, count)
    need_idle()
    with HostMemory(count) as host:
        call("void device_download(void*,void*,void*,unsigned long)", m["device"], host, int(address), count)
        check_device(m)
        return read(host, count)


def device_write(m, address, data):
    """What is recorded must have run (device_read), since it might write there later."""
    inferior = gdb.selected_inferior()
    if not on_gpu():
        inferior.write_memory(address, data)
        return
    need_idle()
    with HostMemory(len(data)) as host:
        inferior.write_memory(host, data)
        call("void device_upload(void*,void*,void*,unsigned long)", m["device"], address, host, len(data))
    check_device(m)


def device_floats(m, address, count):
    return memoryview(device_read(m, address, 4 * count)).cast("f").tolist()


def rows_at_hand(m):
    """Tokens, positions and sequences of the rows, as the device has them: it samples tokens itself."""
    chunk, n = m["chunk"], int(m["chunk"]["n"])
    try:
        lists = [device_read(m, m["scratch"][name], 4 * n) for name in INTEGERS]
    except (gdb.error, gdb.GdbError):  # a core file has no GPU
        lists = None  # what the host sent last
    rows = [struct.unpack("<%di" % n, b) for b in lists or [read(chunk[name], 4 * n) for name in INTEGERS]]
    tokens, positions, sequences = rows
    # Behind a prompt forward_sampled_begin has put the position of the next pass into row 0.
    if n > 1 and sequences[0] == sequences[1] and positions[0] >= positions[1]:
        positions = (positions[1] - 1,) + positions[1:]
    return [tokens, positions, sequences]


def in_pass():
    return any(frame.name() in PASSES for frame in frames())


def tokens_by_position(m):
    """{position: token} of sequence 0, as far as known: all of a text, or only the rows of the pass."""
    length = int(m["cache"]["lengths"][0])
    here = {p: t for t, p, s in zip(*rows_at_hand(m)) if s == 0 and p < length}
    try:
        generation = find("Generation")
        known = dict(enumerate(accepted_tokens(generation["sampler"]["sampler"].dereference()))) if generation is not None else {}
    except gdb.GdbError:
        known = {}
    # In a conversation a token may have been accepted twice. The last token of a text is not in the cache.
    if not in_pass():
        return known if known and len(known) <= length + 1 else here
    return here if any(known.get(p, t) != t for p, t in here.items()) else {**known, **here}


# ---- tensors ----


class Tensor:
    """shape (rows first), dtype, and rows(first, count): lists of float. slow: one call per head.
    address: of activations, which may be changed."""

    def __init__(self, shape, dtype, rows, slow=False, address=None):
        self.shape, self.dtype, self.rows, self.slow, self.address = tuple(shape), dtype, rows, slow, address


def vector(m, address, count):
    return Tensor((count,), "F32", lambda first, rows: [device_floats(m, address, count)])


def activations(m, address, rows, widths):
    width = 1
    for w in widths:
        width *= w
    address = int(address)

    def some(first, count):
        values = device_floats(m, address + 4 * width * first, width * count)
        return [values[width * i:width * (i + 1)] for i in range(count)]

    return Tensor((rows,) + tuple(widths), "F32", some, address=address)


def integers(values):
    return Tensor((len(values),), "int32", lambda first, rows: [list(values)])


def stored_row(m, row):
    """weights/matrix.h: the row order of wq and wk in files with interleaved RoPE pairs."""
    head_dim, rope_dim = int(m["head_dim"]), int(m["rope_dim"])
    if not rope_dim or row % head_dim >= rope_dim:
        return row
    i, middle = row % head_dim, rope_dim // 2
    return row - i + (2 * i if i < middle else 2 * (i - middle) + 1)


def numbers(dtype, b):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + b[i:i + 2])[0] for i in range(0, len(b), 2)]
    size, code = (4, "f") if dtype == "F32" else (2, "e")
    return list(struct.unpack("<%d%s" % (len(b) // size, code), b))


def matrix(m):
    dtype, cols, data = str(m["dtype"]).replace("DTYPE_", ""), int(m["cols"]), int(m["data"])

    def one(row):
        row = stored_row(m, row)
        if dtype in ("F32", "F16", "BF16"):
            size = 4 if dtype == "F32" else 2
            return numbers(dtype, read(data + row * cols * size, cols * size))
        if dtype == "Q8_GROUP":
            group = int(m["group_size"])
            scales = floats(int(m["scales"]) + 4 * row * (cols // group), cols // group)
            q = struct.unpack("<%db" % cols, read(data + row * cols, cols))
            return [f32(x * scales[i // group]) for i, x in enumerate(q)]
        size, size_bytes, unpack = BLOCKS[dtype]
        b = read(data + row * (cols // size) * size_bytes, cols // size * size_bytes)
        return [x for at in range(0, len(b), size_bytes) for x in block_values(b[at:at + size_bytes], unpack)]

    return Tensor((int(m["rows"]), cols), dtype, lambda first, count: [one(first + i) for i in range(count)])


def device_matrix(pointer, name):
    if not int(pointer):
        raise gdb.GdbError("%s: not in this model" % name)
    weight = pointer.dereference()
    if "matrix" not in [field.name for field in weight.type.fields()]:
        raise gdb.GdbError("%s: this backend packs its matrices; `make debug` keeps them as in the file" % name)
    return matrix(weight["matrix"])


def optional_vector(m, pointer, count, name):
    if not int(pointer):
        raise gdb.GdbError("%s: not in this model" % name)
    return vector(m, int(pointer), count)


def widths(m, kind):
    c = m["config"]
    return {"dim": [int(c["dim"])], "hidden": [int(c["hidden_dim"])], "vocab": [int(c["vocab_size"])],
            "q": [int(c["n_heads"]), int(c["head_dim"])], "kv": [int(c["n_kv_heads"]), int(c["head_dim"])],
            "weights": [int(c["n_heads"]), int(m["options"]["context"])]}[kind]


def cached_pairs(m, layer, head, positions, sequence=0):
    """(key, value) of each position of a sequence, read by the backend."""
    width, pairs = int(m["config"]["head_dim"]), []
    need_idle()
    with HostMemory(16 + 8 * width) as view:  # a KvView, then what kv_read writes
        key, value = view + 16, view + 16 + 4 * width
        gdb.selected_inferior().write_memory(view, struct.pack("<Qi", int(m["cache"]["kv"]), layer))
        for position in positions:
            call("void kv_read(void*,void*,int,int,int,float*,float*)", m["device"], view, sequence, head, position,
                 key, value)
            pairs.append((floats(key, width), floats(value, width)))
    check_device(m)
    return pairs


def attended(stage):
    """Whether a stage of a layer comes after its kv_write and attention."""
    return stage is not None and list(STAGES).index(stage) >= list(STAGES).index("att_weights")


def layers_written():
    """How many layers have put their keys and values of the pass at hand into the cache; None: no pass runs."""
    stage, layer = stage_at_hand(), layer_at_hand()
    if stage in ("final_norm", "logits_uncapped", "logits") or not in_pass():
        return None
    if layer is None or layer < 0:
        return 0
    return layer + attended(stage)


def written(m, layer):
    """How many positions of a layer hold what this text put there: the cache is longer as soon as a pass begins."""
    length, layers = int(m["cache"]["lengths"][0]), layers_written()
    if layers is None or layer < layers:
        return length
    return min([p for _, p, s in zip(*rows_at_hand(m)) if s == 0], default=length)


def cached(m, layer, name):
    """The cached keys or values of sequence 0, of the positions that this text has put there."""
    heads, which = int(m["config"]["n_kv_heads"]), CACHED.index(name)

    count = written(m, layer)
    held = int(call("int kv_cache_first(void*,int,int)", m["cache"].address, layer, 0)) if count else 0
    if held:
        raise gdb.GdbError("layers.%d.%s: this layer has a window, and keeps positions %d .. %d: limpid kv %d HEAD" % (
            layer, name, held, count - 1, layer))

    def some(first, count):
        pairs = [cached_pairs(m, layer, head, range(first, first + count)) for head in range(heads)]
        return [[x for head in range(heads) for x in pairs[head][i][which]] for i in range(count)]

    dtype = str(m["options"]["kv_type"]).replace("KV_", "")
    return Tensor((count, heads, int(m["config"]["head_dim"])), dtype, some, slow=True)


def layer_tensor(m, layer, name, full):
    c = m["config"]
    if not 0 <= layer < int(c["n_layers"]):
        raise gdb.GdbError("%s: the layers are 0 .. %d" % (full, int(c["n_layers"]) - 1))
    weights = m["layers"][layer]
    if name in CACHED:
        return cached(m, layer, name)
    if name in MATRICES:
        return device_matrix(weights[name]["weight"], full)
    if name in BIASES:
        rows = {"bq": "q_dim", "bk": "kv_dim", "bv": "kv_dim", "bo": "dim", "b_down": "dim"}.get(name, "hidden_dim")
        return optional_vector(m, weights[BIASES[name]]["bias"], int(c[rows]), full)
    base, bias = (name[:-5], "bias") if name.endswith("_bias") else (name, "weight")
    if base not in NORMS:
        raise unknown(full)
    count = "dim"
    if base in ("q_norm", "k_norm"):
        per_head = str(c["qk_norm"]) == "QK_NORM_PER_HEAD"
        count = "head_dim" if per_head else "q_dim" if base == "q_norm" else "kv_dim"
    return optional_vector(m, weights[base][bias], int(c[count]), full)


def names():
    return list(SCRATCH) + list(INTEGERS) + ["stage"] + list(ENDS) + list(TABLES) + [
        "layers.N." + n for n in CACHED + MATRICES + tuple(BIASES) + NORMS]


def unknown(name):
    return gdb.GdbError("no tensor %s: %s" % (name, " ".join(names())))


def stage_tensor(m):
    name, data = stage_at_hand(), argument_of("observe", "data")
    if name is None or data is None:
        raise gdb.GdbError("stage: only inside observe (limpid break STAGE [LAYER])")
    rows = m["chunk"]["n_logit_rows"] if name in OF_LOGIT_ROWS else m["chunk"]["n"]
    return activations(m, data, int(rows), widths(m, STAGES[name][0]))


def end_tensor(m, name):
    if name in ("token_embedding", "position_embedding", "head"):
        return device_matrix(m[name], name)
    base, part = (name[:-5], "bias") if name.endswith("_bias") else (name, "weight")
    return optional_vector(m, m[base][part], int(m["config"]["dim"]), name)


def tensor(m, name):
    parts = name.split(".")
    chunk = m["chunk"]
    if len(parts) == 3 and parts[0] == "layers" and parts[1].isdecimal():
        return layer_tensor(m, int(parts[1]), parts[2], name)
    if name == "stage" or name not in SCRATCH and name == stage_at_hand():
        return stage_tensor(m)
    if name in INTEGERS:
        return integers(rows_at_hand(m)[INTEGERS.index(name)])
    if name in ENDS:
        return end_tensor(m, name)
    if name in TABLES:
        table = m[parts[0]]
        if not int(table["cos"]):
            raise gdb.GdbError("%s: not in this model" % name)
        return activations(m, table[parts[1]], int(m["options"]["context"]), [int(table["rope_dim"]) // 2])
    if name not in SCRATCH:
        raise unknown(name)
    rows = int(chunk["n_logit_rows"]) if name == "last" else int(chunk["n"])
    if name == "logits":  # those of earlier chunks and, while they are computed, of this one
        now = int(chunk["n_logit_rows"])
        rows = int(m["n_logit_rows"]) + (now if stage_at_hand() in ("logits", "logits_uncapped") else 0) or now
    if not int(m["scratch"][name]):
        raise gdb.GdbError("%s: not in this model" % name)
    return activations(m, m["scratch"][name], rows, widths(m, SCRATCH[name]))

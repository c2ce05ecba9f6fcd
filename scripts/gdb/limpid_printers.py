# What gdb prints for Matrix, Batch, KvCache and Config: one line. `print/r` shows the fields.
import gdb
import gdb.printing

MOST_TOKENS = 16


def integers(pointer, count):
    """The first numbers of an array of int: "1 435 462 ..."; NULL has none."""
    if not int(pointer) or count <= 0:
        return "none"
    shown = [str(int(pointer[i])) for i in range(min(count, MOST_TOKENS))]
    return " ".join(shown) + (" ..." if count > MOST_TOKENS else "")


def name_of(value, prefix):
    """An enumerator without its prefix; a number where it is none of them."""
    return str(value).replace(prefix, "", 1)


class MatrixPrinter:
    """weights/matrix.h: type and shape."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        m = self.value
        if not int(m["data"]):
            return "no matrix"
        order = ", RoPE pairs interleaved" if int(m["rope_dim"]) else ""
        return "%s (%d, %d)%s" % (name_of(m["dtype"], "DTYPE_"), int(m["rows"]), int(m["cols"]), order)


class BatchPrinter:
    """model/model.h: rows, their tokens, and what is not the default."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        n = int(self.value["n"])
        text = "%d row%s, tokens %s" % (n, "" if n == 1 else "s", integers(self.value["tokens"], n))
        for name in ("positions", "sequences"):
            if int(self.value[name]):
                text += ", %s %s" % (name, integers(self.value[name], n))
        return text + (", logits of some" if int(self.value["wants_logits"]) else "")


class KvCachePrinter:
    """model/kv_cache.h: how full it is, and its shape."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        shape = self.value["shape"]
        if not int(self.value["kv"]):
            return "no cache"
        lengths = integers(self.value["lengths"], int(shape["n_sequences"]))
        return "%s of %d positions, %d layers, %d KV heads of %d, %s" % (
            lengths, int(shape["max_seq_len"]), int(shape["n_layers"]), int(shape["n_kv_heads"]),
            int(shape["head_dim"]), name_of(shape["type"], "KV_"))


class ConfigPrinter:
    """weights/config.h: the family and the dimensions."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        sizes = tuple(int(self.value[name]) for name in ("n_layers", "dim", "hidden_dim", "n_heads", "head_dim",
                                                         "n_kv_heads", "vocab_size", "max_seq_len"))
        return self.value["family"].string("utf-8", "replace") + (
            ": %d layers, dim %d, hidden_dim %d, %d heads of %d, %d KV heads, vocabulary %d, context %d" % sizes)


class Guarded:
    """A printer that shows the raw structure where memory cannot be read: before the variable is set."""

    def __init__(self, printer):
        self.printer = printer

    def __call__(self, value):
        printer = self.printer(value)
        try:
            printer.to_string()
        except (gdb.error, ValueError):
            return None
        return printer


def define():
    """Of the program alone where gdb loads this with the program; another one may have a Matrix too."""
    printers = gdb.printing.RegexpCollectionPrettyPrinter("limpid")
    for printer, name in ((MatrixPrinter, "Matrix"), (BatchPrinter, "Batch"), (KvCachePrinter, "KvCache"),
                          (ConfigPrinter, "Config")):
        printers.add_printer(name, "^%s$" % name, Guarded(printer))
    gdb.printing.register_pretty_printer(gdb.current_objfile(), printers, replace=True)

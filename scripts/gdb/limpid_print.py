# What the gdb commands of limpid print: tensors in numbers, the place in the forward pass, its rows.
import gdb

from limpid_blocks import BLOCKS
from limpid_program import PASSES, STAGES, drafts, frames, layer_at_hand, model, rows_at_hand, spelling, stage_at_hand

MOST_VALUES = 1 << 20  # values that statistics are computed of, at most
FIRST = 8  # values printed of a row


# ---- printing ----


def numbers(values):
    return " ".join("%.6g" % v for v in values[:FIRST]) + (" ..." if len(values) > FIRST else "")


def statistics(values):
    good = [v for v in values if v == v]
    line = "NaN %d" % (len(values) - len(good))
    if good:
        mean, rms = sum(good) / len(good), (sum(v * v for v in good) / len(good)) ** 0.5
        line = "min %.6g  max %.6g  mean %.6g  rms %.6g  " % (min(good), max(good), mean, rms) + line
    return line


def print_row(t, name, row):
    """One row; a tensor with heads has one line per head."""
    values = t.rows(row, 1)[0]
    print("row %d: %s" % (row, statistics(values)))
    if len(t.shape) == 3:
        for h in range(t.shape[1]):
            print("  head %-3d %s" % (h, numbers(values[h * t.shape[2]:(h + 1) * t.shape[2]])))
    else:
        print("  " + numbers(values))
    if name == "logits":
        best = sorted(range(len(values)), key=lambda i: -values[i])[:5]
        print("  largest: " + ", ".join("%d%s %.6g" % (i, spelling(i), values[i]) for i in best))


def n_rows(t):
    return t.shape[0] if len(t.shape) > 1 else 1


def print_summary(t, name):
    """Prints shape, type and statistics; returns the first rows, which the statistics are of."""
    n, width = n_rows(t), 1
    for s in t.shape[1:] if len(t.shape) > 1 else t.shape:
        width *= s
    most = MOST_VALUES // 256 if t.slow else MOST_VALUES // 16 if t.dtype in BLOCKS else MOST_VALUES
    count = min(n, max(1, most // width))
    rows = t.rows(0, count)
    print("%s (%s) %s" % (name, ", ".join(str(s) for s in t.shape), t.dtype))
    print(statistics([v for values in rows for v in values]) + (" (rows 0 .. %d)" % (count - 1) if count < n else ""))
    return rows


def print_tensor(t, name, row):
    n = n_rows(t)
    if row is not None:
        if not 0 <= row < n:
            raise gdb.GdbError("%s: the rows are 0 .. %d" % (name, n - 1))
        print("%s (%s) %s" % (name, ", ".join(str(s) for s in t.shape), t.dtype))
        print_row(t, name, row)
        return
    rows = print_summary(t, name)
    for i, values in enumerate(rows[:4]):
        print(("row %d: " % i if len(t.shape) > 1 else "") + numbers(values))
    if n > 4:
        print("... %d rows; print one with --row N" % n)


BETWEEN = "between two forward passes"


def place(m):
    """The position in the forward pass: layer, block, stage or functions."""
    inner = [frame.name() or "?" for frame in frames()]
    passes = [name for name in PASSES if name in inner]
    if not passes:
        return BETWEEN + ", in %s" % inner[0]
    layer, stage, words = layer_at_hand(), stage_at_hand(), []
    draft = "draft model, " if drafts(m) else ""
    if layer is not None and layer >= 0:
        words.append("layer %d of %d" % (layer, int(m["config"]["n_layers"])))
    for function, block in (("attention_block", "attention"), ("ffn_block", "feed-forward"), ("forward_logits", "logits")):
        if function in inner:
            words.append(block)
    if stage:
        return draft + "%s: %s, %s" % (", ".join(words) or "before the layers", stage, STAGES[stage][1])
    else:
        within = inner[:inner.index(passes[0])]
        words.append("in " + " < ".join(within[:4] or inner[:1]))
    return draft + ", ".join(words)


def print_rows(m, when):
    n = int(m["chunk"]["n"])
    tokens, positions, sequences = rows_at_hand(m)
    print("%d row%s %s, one token each" % (n, "" if n == 1 else "s", when))
    for i in range(min(n, 16)):
        print("  row %-3d sequence %d, position %-4d token %d%s" % (i, sequences[i], positions[i], tokens[i],
                                                                    spelling(tokens[i])))
    if n > 16:
        print("  ... to position %d" % positions[-1])


def print_where():
    m = model()
    where = place(m)
    print(where)
    if int(m["chunk"]["n"]):
        print_rows(m, "in the last pass" if where.startswith(BETWEEN) else "in this pass")
    cache = m["cache"]
    for s in range(int(m["options"]["n_sequences"])):
        print("cache: sequence %d holds %d of %d positions" % (s, int(cache["lengths"][s]),
                                                               int(m["options"]["context"])))

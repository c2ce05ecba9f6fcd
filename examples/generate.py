"""Continues a text with its likeliest tokens, and shows how likely each was: limpid.h through ctypes.

    python3 generate.py SmolLM2.gguf "Once upon a time"

The logits are a numpy view of the library's own memory: nothing is copied. LIMPID_LIBRARY names the
library where it is not installed."""
import ctypes
import os
import sys

import numpy

BEGIN, TOKENS = 1, 20


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 384)]


class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("family", "tokenizer", "chat")] + [
        (name, ctypes.c_int)
        for name in "vocab_size max_context dim n_layers n_heads n_kv_heads head_dim bos".split()]


class Batch(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int)] + [
        (name, ctypes.c_void_p) for name in ("tokens", "positions", "sequences", "wants_logits")]


def load():
    """The library, with the types of the functions that are called here."""
    library = ctypes.CDLL(os.environ.get("LIMPID_LIBRARY", "liblimpid.so.0"))
    pointer, size, error = ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Error)
    for name, result, arguments in [
            ("open", pointer, [ctypes.c_char_p, ctypes.c_char_p, error]),
            ("close", None, [pointer]),
            ("describe", Info, [pointer]),
            ("context_open", pointer, [pointer, pointer, error]),
            ("context_close", None, [pointer]),
            ("tokenize", ctypes.c_int, [pointer, ctypes.c_char_p, size, ctypes.c_int, pointer, size, error]),
            ("detokenize", ctypes.c_int, [pointer, pointer, size, ctypes.c_int, ctypes.c_char_p, size, error]),
            ("ends", ctypes.c_bool, [pointer, ctypes.c_int32]),
            ("eval", ctypes.c_bool, [pointer, ctypes.POINTER(Batch), error]),
            ("logits", ctypes.POINTER(ctypes.c_float), [pointer, ctypes.c_int])]:
        function = getattr(library, "limpid_" + name)
        function.restype, function.argtypes = result, arguments
    return library


LIMPID, ERROR = load(), Error()


def check(result, failed):
    if failed:
        sys.exit("generate.py: " + ERROR.message.decode())
    return result


def piece(model, token, flags):
    text = ctypes.create_string_buffer(1024)
    ids = numpy.array([token], numpy.int32)
    n = LIMPID.limpid_detokenize(model, ids.ctypes.data, 1, flags, text, len(text), ERROR)
    return check(text.raw[:n], n < 0)


def evaluate(context, ids, vocab_size):
    """The logits (vocab_size) after these tokens, until the next call."""
    good = LIMPID.limpid_eval(context, Batch(len(ids), ids.ctypes.data), ERROR)
    check(good, not good)
    return numpy.ctypeslib.as_array(LIMPID.limpid_logits(context, 0), (vocab_size,))


def main(path, prompt):
    model = LIMPID.limpid_open(path.encode(), None, ERROR)
    check(model, not model)
    context = LIMPID.limpid_context_open(model, None, ERROR)
    check(context, not context)
    text, ids = prompt.encode(), numpy.zeros(1024, numpy.int32)
    n = LIMPID.limpid_tokenize(model, text, len(text), BEGIN, ids.ctypes.data, len(ids), ERROR)
    if n > len(ids):
        sys.exit(f"generate.py: a prompt of {n} tokens (at most {len(ids)})")
    ids = check(ids[:n], n < 0)
    for _ in range(TOKENS):
        logits = evaluate(context, ids, LIMPID.limpid_describe(model).vocab_size)
        ids = numpy.array([logits.argmax()], numpy.int32)
        share = 1 / numpy.exp(logits.astype(numpy.float64) - logits.max()).sum()
        if LIMPID.limpid_ends(model, int(ids[0])):
            break
        print(f"{ids[0]:6d} {100 * share:5.1f} %  {piece(model, ids[0], 0).decode(errors='replace')!r}")
    LIMPID.limpid_context_close(context)
    LIMPID.limpid_close(model)


if __name__ == "__main__":
    main(*(sys.argv[1:] + ["builtin", "Once upon a time"][len(sys.argv) - 1:])[:2])

#!/usr/bin/env python3
"""The speed of llama.cpp on a GGUF file, through its public C API (llama-cpp-python).

    build/peers/llamacpp-native/bin/python peers/llamacpp.py MODEL --threads 2 --decode 32
    ... peers/llamacpp.py MODEL --threads 2 --prefill 512
    ... peers/llamacpp.py MODEL --threads 2 --decode 32 --depth 2048
    ... peers/llamacpp.py MODEL --threads 2 --continue 6403,29 --decode 200 [--lookup 10]
    ... peers/llamacpp.py --about

Prints one line of JSON: "decode" and "prefill" in tokens per second (medians of --repetitions).

--continue takes the ids of a prompt and decodes greedily behind them; --lookup N verifies up to N tokens a
pass, which the package's own LlamaPromptLookupDecoding finds in the prompt and the text so far.

It measures as llama.cpp's own llama-bench does: pseudo-random token ids, an untimed warm-up, batches
of 2048 and micro-batches of 512, a cache in f16 that is no longer than needed. Prefill is one call
for the whole prompt with the logits of its last token; decode is one call for each token, with
logits and without sampling. For --depth the cache is filled once and restored from a saved state
before each repetition. Python adds some microseconds to a decoded token, which matters only above
5,000 tokens/s.
"""
import argparse
import ctypes
import json
import os
import statistics
import sys
import time

try:
    import numpy as np
    import llama_cpp
    from llama_cpp import llama_cpp as lib
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding
except ImportError as missing:
    sys.exit(f"llamacpp.py: {missing}: run it by the Python that peers/install_llamacpp prints")

FLASH = {"auto": -1, "off": 0, "on": 1}
TYPES = {"f32": 0, "f16": 1}
CELLS, BATCH, MICRO_BATCH, WARM_UP, MOST_GUESSES = 256, 2048, 512, 64, 15


def fail(message):
    sys.exit(f"llamacpp.py: {message}")


@lib.llama_log_callback
def only_errors(level, text, _):
    if level == 4:  # GGML_LOG_LEVEL_ERROR
        sys.stderr.write(text.decode("utf-8", "replace"))


class Peer:
    """A model with a context of so many tokens."""

    def __init__(self, args, length):
        p = lib.llama_model_default_params()
        p.n_gpu_layers = 0
        self.model = lib.llama_model_load_from_file(os.fsencode(args.model), p)
        if not self.model:
            fail(f"llama.cpp cannot load {args.model}")
        self.vocab_size = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        p = lib.llama_context_default_params()
        p.n_ctx = -(-length // CELLS) * CELLS
        p.n_batch, p.n_ubatch, p.n_seq_max = min(BATCH, p.n_ctx), min(MICRO_BATCH, p.n_ctx), 1
        p.n_threads = p.n_threads_batch = args.threads
        p.flash_attn_type = FLASH[args.flash]
        p.type_k = p.type_v = TYPES[args.cache]
        p.swa_full = False  # a layer with a sliding window keeps its window only
        p.no_perf = True
        self.context = lib.llama_init_from_model(self.model, p)
        if not self.context:
            fail("llama.cpp cannot make a context")
        self.n_batch = p.n_batch
        self.batch = lib.llama_batch_init(p.n_batch, 0, 1)
        self.rng = np.random.default_rng(1)
        self.saved = None

    def ids(self, n):
        return [int(i) for i in self.rng.integers(0, self.vocab_size, n)]

    def feed(self, ids, position, wanted):
        """One call: ids at positions from `position` on; logits of the last `wanted` of them."""
        b = self.batch
        b.n_tokens = len(ids)
        for i, token in enumerate(ids):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0] = token, position + i, 1, 0
            b.logits[i] = i >= len(ids) - wanted
        if lib.llama_decode(self.context, b):
            fail("llama_decode failed")

    def prompt(self, ids, position):
        for begin in range(0, len(ids), self.n_batch):
            part = ids[begin:begin + self.n_batch]
            self.feed(part, position + begin, 1 if begin + len(part) == len(ids) else 0)
        lib.llama_synchronize(self.context)

    def greedy(self, i):
        """The most probable token by row i of the last call."""
        logits = lib.llama_get_logits_ith(self.context, i)
        return int(np.ctypeslib.as_array(logits, (self.vocab_size,)).argmax())

    def go_on(self, ids, n, lookup):
        """Tokens per second of n tokens behind ids, with up to `lookup` guesses a pass; passes; guesses that held."""
        guess = LlamaPromptLookupDecoding(num_pred_tokens=lookup) if lookup else lambda _: []
        self.prompt(ids, 0)
        text, passes, held = ids + [self.greedy(-1)], 0, 0
        begin, end = time.perf_counter(), len(ids) + n
        while len(text) < end:
            most = min(end - len(text), MOST_GUESSES)
            guesses = [int(i) for i in guess(np.array(text, np.intc))][:most]
            position = len(text) - 1
            self.feed([text[-1]] + guesses, position, 1 + len(guesses))
            passes += 1
            for i in range(1 + len(guesses)):
                text.append(self.greedy(i))
                if i == len(guesses) or text[-1] != guesses[i]:
                    break
                held += 1
            lib.llama_memory_seq_rm(lib.llama_get_memory(self.context), 0, len(text) - 1, -1)
        seconds = time.perf_counter() - begin
        return {"continue": (len(text) - len(ids) - 1) / seconds, "passes": passes, "accepted": held}

    def fill(self, depth):
        """Fills the cache and saves its state."""
        self.prompt(self.ids(depth), 0)
        size = lib.llama_state_seq_get_size(self.context, 0)
        self.saved = (ctypes.c_uint8 * size)()
        lib.llama_state_seq_get_data(self.context, self.saved, size, 0)

    def reset(self):
        """The cache as it was before a repetition: empty, or filled to the depth."""
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        if self.saved and not lib.llama_state_seq_set_data(self.context, self.saved, len(self.saved), 0):
            fail("cannot restore the saved state")

    def prefill(self, n, depth):
        self.reset()
        ids = self.ids(n)
        begin = time.perf_counter()
        self.prompt(ids, depth)
        return n / (time.perf_counter() - begin)

    def decode(self, n, depth):
        self.reset()
        ids, b, call, context = self.ids(n), self.batch, lib.llama_decode, self.context
        b.n_tokens, b.n_seq_id[0], b.seq_id[0][0], b.logits[0] = 1, 1, 0, 1
        token, position = b.token, b.pos
        begin = time.perf_counter()
        for i, id in enumerate(ids):
            token[0], position[0] = id, depth + i
            if call(context, b):
                fail("llama_decode failed")
        lib.llama_synchronize(context)
        return n / (time.perf_counter() - begin)


def about():
    """Version and instruction sets of the library."""
    system = lib.llama_print_system_info().decode()
    sets = [name for name in ("AVX2", "AVX512", "AVX512_VNNI", "AVX512_BF16", "AMX_INT8", "NEON") if f"{name} = 1" in system]
    return {"version": llama_cpp.__version__, "sets": sets}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--decode", type=int, default=0, metavar="N", help="tokens of a repetition")
    p.add_argument("--prefill", type=int, default=0, metavar="N", help="tokens of a prompt")
    p.add_argument("--depth", type=int, default=0, help="tokens in the cache before")
    p.add_argument("--continue", dest="ids", metavar="ID,..", help="decode greedily behind these ids")
    p.add_argument("--lookup", type=int, default=0, metavar="N", help="--continue: guesses of a pass")
    p.add_argument("--repetitions", type=int, default=1)
    p.add_argument("--flash", choices=FLASH, default="auto", help="flash attention")
    p.add_argument("--cache", choices=TYPES, default="f16")
    p.add_argument("--about", action="store_true", help="the version alone")
    args = p.parse_args()
    lib.llama_log_set(only_errors, ctypes.c_void_p(0))
    lib.llama_backend_init()
    if args.about:
        return print(json.dumps(about()))
    if not args.model or not (args.decode or args.prefill):
        p.error("wanted MODEL and --decode or --prefill")
    if args.ids:
        ids = [int(i) for i in args.ids.split(",")]
        peer = Peer(args, len(ids) + args.decode + MOST_GUESSES + 1)
        return print(json.dumps(about() | peer.go_on(ids, args.decode, args.lookup)))
    peer = Peer(args, args.depth + max(args.decode, args.prefill, WARM_UP) + 1)
    if args.depth:
        peer.fill(args.depth)
    result = about()
    for name, n, measure in (("prefill", args.prefill, peer.prefill), ("decode", args.decode, peer.decode)):
        if n:
            measure(min(n, WARM_UP), args.depth)
            result[name] = statistics.median(measure(n, args.depth) for _ in range(args.repetitions))
    print(json.dumps(result))


if __name__ == "__main__":
    main()

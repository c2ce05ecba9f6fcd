"""The command line of training/train_builtin_model.py, and what can be found wrong with it before the work begins.

Needs the standard library alone; `python3 -m doctest training/training_arguments.py` runs the examples.
"""
import argparse
import math
import os

from stories import matching, stop

SHAPE = (("vocab", 2048), ("dim", 192), ("layers", 6), ("heads", 6), ("kv-heads", 2), ("hidden", 768))


def parse_arguments(description, words=None):
    """
    >>> import contextlib, sys
    >>> for wrong in ("--steps 0", "--minutes -1", "--report 0", "--heads 5 --minutes 1"):
    ...     with contextlib.redirect_stderr(sys.stdout), contextlib.suppress(SystemExit):  # doctest: +ELLIPSIS
    ...         parse_arguments("", ["--text", "t", "--out", "o", *wrong.split()])
    usage: ...error: --steps: at least 1
    usage: ...error: --minutes: more than 0
    usage: ...error: --report: at least 1
    usage: ...error: --heads: a multiple of --kv-heads
    """
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--text", required=True)
    p.add_argument("--told", help="a pattern of files")
    p.add_argument("--sampled", help="a pattern of files")
    p.add_argument("--taught", help="a pattern of files")
    p.add_argument("--teacher", default="SmolLM2-135M-Instruct (Apache-2.0)", help="that taught and told, for the description")
    p.add_argument("--out", required=True)
    p.add_argument("--check", help="a text to score in the end")
    p.add_argument("--steps", type=int, default=5000)
    p.add_argument("--minutes", type=float, help="instead of --steps")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rows", type=int, default=12, help="of 512 tokens, in a step")
    p.add_argument("--rate", type=float, default=1.0, help="times the usual learning rates")
    p.add_argument("--report", type=int, default=50, help="steps between lines of log.csv")
    p.add_argument("--type", choices=("bfloat16", "float32"), help="of products; without it the one that is faster here")
    p.add_argument("--no-compile", dest="compile", action="store_false")
    for name, value in SHAPE:
        p.add_argument("--" + name, type=int, default=value)
    args = p.parse_args(words)
    for name in ("steps", "threads", "rows", "report", *(name for name, _ in SHAPE)):
        if getattr(args, name.replace("-", "_")) < 1:
            p.error(f"--{name}: at least 1")
    if args.minutes is not None and not 0 < args.minutes < math.inf:
        p.error("--minutes: more than 0")
    if args.heads % args.kv_heads:
        p.error("--heads: a multiple of --kv-heads")
    return args


def check_inputs(args):
    for name in ("text", "told", "sampled", "taught"):
        pattern = getattr(args, name)
        if pattern and not matching(pattern):
            stop(4, f"--{name}: there is no file {pattern}")
        for path in filter(os.path.isdir, matching(pattern or "")):
            stop(4, f"--{name}: {path} is a folder")
    try:
        if args.check and not open(args.check, encoding="utf-8").read():
            stop(3, f"--check: {args.check} is empty")
    except OSError as error:
        stop(4, f"--check: cannot read {args.check}: {error.strerror}")
    except UnicodeDecodeError as error:
        stop(3, f"--check: {args.check} is not UTF-8: {error.reason} at byte {error.start}")


def make_out(folder):
    """Makes the folder and its model/. Where there is no run to go on with, nothing in it may be replaced.

    >>> import contextlib, sys, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     make_out(folder)
    ...     open(os.path.join(folder, "model", "config.json"), "w").close()
    ...     with contextlib.redirect_stderr(sys.stdout), contextlib.suppress(SystemExit):  # doctest: +ELLIPSIS
    ...         make_out(folder)
    ...     open(os.path.join(folder, "checkpoint.pt"), "w").close()
    ...     make_out(folder)
    doctest.py: --out: ...config.json is there, and no checkpoint.pt to go on from: give another folder
    """
    model = os.path.join(folder, "model")
    try:
        os.makedirs(model, exist_ok=True)
    except OSError as error:
        stop(4, f"--out: cannot make {model}: {error.strerror}")
    if os.path.exists(os.path.join(folder, "checkpoint.pt")):
        return
    for name in ("log.csv", "model/config.json", "model/generation_config.json", "model/model.safetensors"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            stop(2, f"--out: {path} is there, and no checkpoint.pt to go on from: give another folder")

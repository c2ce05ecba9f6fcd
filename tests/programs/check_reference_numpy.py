"""Holds scripts/reference_numpy.py against what transformers computed for every reference model:

    /usr/bin/python3 tests/programs/check_reference_numpy.py ../shared/data/reference-models \\
        ../shared/data/reference-models-2026

Families that it does not have are passed over. Tolerances are those of that folder's README for float64
against its float32: logits 9e-5, attention weights 4.8e-5, layers 8.5e-6 of the largest value. Prints a
line for each model; exit 1 where one is off, or where there is none. Both spellings of every config are read.
"""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from common import end_with  # noqa: E402
import reference_numpy  # noqa: E402
from reference_numpy import np  # noqa: E402
import tensor_files  # noqa: E402

BUDGETS = {"embed": 1e-6, "layer_out": 8.5e-6, "final_norm": 8.5e-6, "attn": 4.8e-5, "logits": 9e-5}


def their_name(name):
    """What the reference files call a stage of forward; None where they do not have it."""
    parts = name.split(".")
    if name in ("norm", "lm_head", "logits"):
        return {"norm": "final_norm"}.get(name, "logits")
    if name in ("embed_tokens", "embed_norm"):
        return "embed"
    if len(parts) == 2:
        return f"layer_out.{int(parts[1]):02d}"
    return f"attn.{int(parts[1]):02d}" if parts[-1] == "attn_weights" else None


def check(directory, config):
    """The largest error of each kind of stage over both prompts."""
    m, w = reference_numpy.open_model(directory, config)
    wanted, _ = tensor_files.read(os.path.join(directory, "reference.safetensors"))
    worst = {}
    for prompt in ("p0", "p1"):
        got = {}
        ids = wanted[prompt + ".input_ids"]
        reference_numpy.forward(m, w, ids, None, lambda name, values: got.update(
            {their_name(name): values}))  # what comes later wins: logits over lm_head
        got.pop(None, None)
        if len(got) != 2 * m.n_layers + 3:
            sys.exit(f"{directory}: {len(got)} stages")
        for name, values in got.items():
            kind, reference = name.split(".")[0], wanted[f"{prompt}.{name}"]
            scale = 1 if kind in ("attn", "logits") else np.abs(reference).max()
            worst[kind] = max(worst.get(kind, 0), np.abs(values - reference).max() / scale)
        ids, _ = reference_numpy.greedy(m, w, ids, 6)
        if ids != list(wanted[prompt + ".greedy_ids"][:6]):
            worst["greedy ids"] = np.inf
    return worst


def configs(directory):
    """The spellings that the model has, where it is of a family that reference_numpy has."""
    there = [name for name in ("config.json", "config.v4.json")
             if os.path.exists(os.path.join(directory, name))]
    if there:
        with open(os.path.join(directory, there[0])) as file:
            config = json.load(file)
        if config.get("model_type") not in reference_numpy.FAMILIES or "nanochat_dialect" in config:
            return []
    return there


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    good, checked = True, 0
    for name, directory in sorted((name, os.path.join(folder, name)) for folder in sys.argv[1:]
                                  for name in os.listdir(folder)):
        for config in configs(directory):
            worst = check(directory, config)
            fine = all(error <= BUDGETS.get(kind, 0) for kind, error in worst.items())
            good &= fine
            checked += 1
            print(f"{'ok' if fine else 'OFF':4}{name:18} {config:15}",
                  "  ".join(f"{kind} {error:.1e}" for kind, error in worst.items()))
    print(f"{checked} checked")
    return not (good and checked)


end_with(main)

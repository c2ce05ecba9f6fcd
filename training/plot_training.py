#!/usr/bin/python3
"""The loss curve of training/train_builtin_model.py as a picture: plot_training.py log.csv OUT.png"""
import csv
import math
import sys

from stories import packages, stop

with packages("apt install python3-matplotlib"):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt  # the backend is chosen first


def main():
    if len(sys.argv) != 3:
        stop(2, __doc__)
    try:
        with open(sys.argv[1], newline="") as file:
            rows = list(csv.DictReader(file))
        tokens = [float(row["tokens"]) / 1e6 for row in rows]
    except OSError as error:
        stop(4, f"cannot read {sys.argv[1]}: {error.strerror}")
    except (KeyError, TypeError, ValueError):
        stop(3, f"{sys.argv[1]} is no log.csv of train_builtin_model.py")
    if not rows:
        stop(3, f"{sys.argv[1]} has no rows yet")
    figure, left = plt.subplots(figsize=(8, 4.5), dpi=110)
    left.plot(tokens, [float(row["train_nats"]) / math.log(2) for row in rows], color="0.6",
              label="training, bits per token")
    left.set(xlabel="million tokens", ylabel="bits per token, training text")
    right = left.twinx()
    right.plot(tokens, [float(row["dev_bits_per_byte"]) for row in rows], color="tab:blue",
               label="held-back stories, bits per byte")
    right.set_ylabel("bits per byte, held-back stories")
    right.grid(True, alpha=0.3)
    lines = left.get_lines() + right.get_lines()
    left.legend(lines, [line.get_label() for line in lines], loc="upper right")
    left.set_title("training of the built-in model")
    figure.tight_layout()
    try:
        figure.savefig(sys.argv[2])
    except OSError as error:
        stop(4, f"cannot write {sys.argv[2]}: {error.strerror}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How much accuracy do flipped bits in the weights cost, and how much of it does a bounded activation save?

The experiment of Hoang, Hanif and Shafique, "FT-ClipAct: Resilience Analysis of Deep Neural
Networks and Improving their Fault Tolerance using Clipped Activation" (DATE 2020, arXiv
1912.00941), on a perceptron and Fashion-MNIST. It trains once with relu and selects the bound of
the clip from several candidates. Then it flips every bit of every weight with a small probability
and evaluates the same faulty weights with activation = "relu" and "clipped_relu".

    python3 bench/ftclipact.py --acan build/release/bin/acan --out bench/results/NAME

Writes NAME.json (every accuracy, medians, spread) and NAME.svg, prints the table. Only Python's standard
library is needed. Without Debian's dataset-fashion-mnist it ends with a message: generated data have no classes.
"""
import argparse
import json
import math
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
JOB = """[model]
layers = [784, 256, 128, 10]
activation = "{activation}"
{clip}loss = "cross_entropy"
[data]
train_inputs = "{data}/train-images-idx3-ubyte.gz"
train_labels = "{data}/train-labels-idx1-ubyte.gz"
test_inputs = "{data}/t10k-images-idx3-ubyte.gz"
test_labels = "{data}/t10k-labels-idx1-ubyte.gz"
[train]
batch = 128
epochs = {epochs}
optimizer = "momentum"
learning_rate = 0.1
momentum = 0.9
schedule = "cosine"
seed = 1
"""


def write_job(path, activation, epochs, bound=None):
    clip = f"clip_bound = {bound}\n" if bound is not None else ""
    path.write_text(JOB.format(activation=activation, clip=clip, data=DATA, epochs=epochs))
    return path


def run(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))} failed:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def flip(model, rate, seed):
    """The bytes of `model` (safetensors) with each bit of each value flipped with probability `rate`."""
    values = bytearray(model)
    begin = 8 + struct.unpack_from("<Q", model)[0]
    draw = random.Random(seed)
    at, flips = begin * 8, 0
    while True:  # the distance from one flip to the next is geometric
        at += int(math.log(1 - draw.random()) / math.log1p(-rate))
        if at >= len(values) * 8:
            return bytes(values), flips
        values[at // 8] ^= 1 << (at % 8)
        at, flips = at + 1, flips + 1


def accuracy(acan, job, model):
    receipt = run([acan, "eval", job, "--model", model, "--handlers", "cpu:1", "--json"])
    return receipt["test_accuracy"]


def picture(points, clean, bound, faults):
    width, height, left, top = 640, 360, 60, 40
    inner_w, inner_h = width - left - 20, height - top - 60
    rates = sorted({p["rate"] for p in points})
    low, high = math.log10(rates[0]), math.log10(rates[-1])
    x = lambda rate: left + inner_w * (math.log10(rate) - low) / (high - low)
    y = lambda value: top + inner_h * (1 - value)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
           'font-size="12"><rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="20" font-size="14">Test accuracy against flipped bits in the weights '
           f'(Fashion-MNIST, 784-256-128-10, {faults} faulty models a point)</text>']
    for tenth in range(0, 11, 2):
        out.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(tenth / 10)}" y2="{y(tenth / 10)}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{y(tenth / 10) + 4}" text-anchor="end">{tenth * 10} %</text>')
    for rate in rates:
        out.append(f'<text x="{x(rate)}" y="{height - 40}" text-anchor="middle">{rate:.0e}</text>')
    out.append(f'<text x="{left + inner_w / 2}" y="{height - 20}" text-anchor="middle">'
               'probability that a bit is flipped</text>')
    for i, (name, color) in enumerate((("relu", "#c0392b"), ("clipped_relu", "#2471a3"))):
        mine = sorted((p for p in points if p["activation"] == name), key=lambda p: p["rate"])
        band = [f'{x(p["rate"])},{y(p["max"])}' for p in mine] + [f'{x(p["rate"])},{y(p["min"])}' for p in reversed(mine)]
        line = " ".join(f'{x(p["rate"])},{y(p["median"])}' for p in mine)
        label = name if name == "relu" else f"clipped_relu, bound {bound:g}"
        out.append(f'<polygon points="{" ".join(band)}" fill="{color}" opacity="0.15"/>'
                   f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>'
                   f'<text x="{left + 12}" y="{y(0.16) + 16 * i}" fill="{color}">{label}: {clean[name]:.1%} without faults</text>')
    return "\n".join(out + ["</svg>\n"])


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--acan", default="build/release/bin/acan")
    flags.add_argument("--out", required=True)
    flags.add_argument("--epochs", type=int, default=2)
    flags.add_argument("--seeds", type=int, default=7)
    flags.add_argument("--rates", type=float, nargs="+", default=[1e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4])
    flags.add_argument("--bounds", type=float, nargs="+", default=[4, 8, 16])
    flags = flags.parse_args()
    if not DATA.is_dir():
        sys.exit(f"{DATA} is missing: install dataset-fashion-mnist")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        relu = write_job(folder / "relu.toml", "relu", flags.epochs)
        trained = run([flags.acan, "train", relu, "--out", folder / "out", "--json"])
        model = (folder / "out" / "model.safetensors").read_bytes()
        # Away from the run's job.json, which says that the weights are those of a relu.
        path = folder / "clean.safetensors"
        path.write_bytes(model)
        clean = {"relu": trained["test_accuracy"]}
        # The smallest bound that costs at most half a percent without faults.
        for bound in sorted(flags.bounds):
            clipped = write_job(folder / "clipped.toml", "clipped_relu", flags.epochs, float(bound))
            clean["clipped_relu"] = accuracy(flags.acan, clipped, path)
            if clean["clipped_relu"] >= clean["relu"] - 0.005:
                break
        points = []
        for rate in flags.rates:
            found = {"relu": [], "clipped_relu": []}
            counts = []
            for seed in range(flags.seeds):
                faulty, flips = flip(model, rate, seed + 1)
                counts.append(flips)
                (folder / "faulty.safetensors").write_bytes(faulty)
                for activation, job in (("relu", relu), ("clipped_relu", clipped)):
                    found[activation].append(accuracy(flags.acan, job, folder / "faulty.safetensors"))
            for activation, values in found.items():
                points.append({"rate": rate, "activation": activation, "flipped_bits": counts, "accuracies": values,
                               "median": statistics.median(values), "min": min(values), "max": max(values)})
                print(f"{rate:.0e}  {activation:13} median {points[-1]['median']:.4f}  "
                      f"{points[-1]['min']:.4f}..{points[-1]['max']:.4f}", flush=True)
    result = {"bench": "ftclipact", "layers": [784, 256, 128, 10], "epochs": flags.epochs, "clip_bound": bound,
              "weights_sha256": trained["weights_sha256"], "clean": clean, "seeds": flags.seeds, "points": points}
    out = pathlib.Path(flags.out)
    out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    out.with_suffix(".svg").write_text(picture(points, clean, bound, flags.seeds))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Is acan right, not only consistent? Trains the same job with acan and with PyTorch (float32, the same
initial weights, the same order of samples) and compares the loss of every step. Then loads acan's
model.safetensors into a torch.nn.Sequential and compares its test accuracy with acan's own.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch safetensors numpy
    /tmp/venv/bin/python bench/compare/pytorch_curve.py --acan build/release/bin/acan

Prints one JSON object: for each curve, the largest relative difference of a step's loss between
acan and PyTorch, and of both from the same training in float64. With relu, a sum that rounds to the
other side of zero changes a whole gradient, so two correct float32 programs can diverge by percents
(PyTorch diverges from itself with another number of threads). Those curves are only reported; the
smooth ones are judged. The exit code is 1 if one of them differs by more than 1e-3, or if the
accuracies differ. Needs the data set Fashion-MNIST (Debian: dataset-fashion-mnist).
"""
import argparse
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
LAYERS = [784, 256, 128, 10]
BATCH = 128
OPTIMIZERS = {
    "sgd": dict(optimizer="sgd", learning_rate=0.1, weight_decay=1e-4),
    "momentum": dict(optimizer="momentum", learning_rate=0.05, weight_decay=1e-4),
    "adamw": dict(optimizer="adamw", learning_rate=1e-3, weight_decay=0.01),
}


def read_idx(path):
    raw = gzip.open(path).read()
    dims = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(dims)]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dims).reshape(shape)


def run_acan(program, folder, job, epochs, activation):
    lines = ["[model]", f"layers = {LAYERS}", f'activation = "{activation}"', "[data]",
             'train_inputs = "x.npy"', 'train_labels = "y.npy"', f'test_inputs = "{DATA}/t10k-images-idx3-ubyte.gz"',
             f'test_labels = "{DATA}/t10k-labels-idx1-ubyte.gz"', "shuffle = false", "[train]", f"batch = {BATCH}", f"epochs = {epochs}"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in job.items()]
    path = folder / "job.toml"
    path.write_text("\n".join(lines) + "\n")
    out = folder / f"out-{epochs}"
    subprocess.run([program, "train", path, "--handlers", "2xcpu:1", "--out", out],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    losses = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return out, [line["loss"] for line in losses if "loss" in line]


def make_net(weights, activation):
    act = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "gelu": torch.nn.GELU, "sigmoid": torch.nn.Sigmoid}[activation]
    modules = []
    for i in range(len(LAYERS) - 1):
        linear = torch.nn.Linear(LAYERS[i], LAYERS[i + 1])
        linear.load_state_dict({"weight": weights[f"layers.{i}.weight"], "bias": weights[f"layers.{i}.bias"]})
        modules.append(linear)
        if i + 2 < len(LAYERS):
            modules.append(act())
    return torch.nn.Sequential(*modules)


def torch_losses(net, job, x, y):
    if job["optimizer"] == "adamw":
        optimizer = torch.optim.AdamW(net.parameters(), lr=job["learning_rate"], weight_decay=job["weight_decay"])
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr=job["learning_rate"], weight_decay=job["weight_decay"],
                                    momentum=0.9 if job["optimizer"] == "momentum" else 0.0)
    losses = []
    for first in range(0, len(x), BATCH):
        loss = torch.nn.functional.cross_entropy(net(x[first:first + BATCH]), y[first:first + BATCH])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def apart(losses, others):
    return max(abs(a - b) / abs(b) for a, b in zip(losses, others, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    images = read_idx(DATA / "train-images-idx3-ubyte.gz")[:arguments.steps * BATCH]
    labels = read_idx(DATA / "train-labels-idx1-ubyte.gz")[:arguments.steps * BATCH]
    test_x = torch.from_numpy(read_idx(DATA / "t10k-images-idx3-ubyte.gz").reshape(-1, 784).astype(np.float32) / 255)
    test_y = torch.from_numpy(read_idx(DATA / "t10k-labels-idx1-ubyte.gz").astype(np.int64))
    x = torch.from_numpy(images.reshape(-1, 784).astype(np.float32) / 255)
    y = torch.from_numpy(labels.astype(np.int64))
    result = {"torch": torch.__version__, "layers": LAYERS, "batch": BATCH, "steps": arguments.steps, "curves": []}
    good = True
    for name, job in OPTIMIZERS.items():
        for activation in ("relu", "gelu") if name == "adamw" else ("relu", "tanh"):
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                np.save(folder / "x.npy", images.reshape(-1, 784))
                np.save(folder / "y.npy", labels)
                start, _ = run_acan(arguments.acan, folder, job, 0, activation)
                end, ours = run_acan(arguments.acan, folder, job, 1, activation)
                weights = load_file(start / "model.safetensors")
                theirs = torch_losses(make_net(weights, activation), job, x, y)
                double = torch_losses(make_net(weights, activation).double(), job, x.double(), y)
                with torch.no_grad():
                    net = make_net(load_file(end / "model.safetensors"), activation)
                    accuracy = (net(test_x).argmax(1) == test_y).float().mean().item()
                receipt = json.loads((end / "receipt.json").read_text())
            worst, acan_off, torch_off = apart(ours, theirs), apart(ours, double), apart(theirs, double)
            same = abs(accuracy - receipt["test_accuracy"]) < 1e-6
            good = good and same and (worst <= 1e-3 or activation == "relu")
            result["curves"].append({"optimizer": name, "activation": activation, "acan_to_torch": worst,
                                     "acan_to_float64": acan_off, "torch_to_float64": torch_off, "last_loss": ours[-1], "test_accuracy": receipt["test_accuracy"],
                                     "test_accuracy_in_torch": accuracy})
    print(json.dumps(result, indent=2))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

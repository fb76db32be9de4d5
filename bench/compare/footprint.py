#!/usr/bin/env python3
"""How much memory `acan train` and all its processes hold, and how fast they start.

    bench/compare/footprint.py --acan build/release/bin/acan [--layers 784 4096 4096 10] [--rounds 5] [--json FILE]

Memory: the proportional set size (shared pages count once) of `acan train`, its broker and its
handlers together, sampled ten times a second during a job (by default that of `acan bench train`).
It is reported relative to the bytes that a training needs: parameters, optimizer state, and the
activations of one batch with their gradients. Start: the time from the command to the end of the
first step of a small job, which requires all of that step's tasks.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

from acan_run import summary, write_report

STATES = {"sgd": 0, "momentum": 1, "adamw": 2}
JOB = """[model]
layers = {layers}
loss = "mse"
[data]
generated = "regression"
samples = {samples}
[train]
batch = {batch}
epochs = {epochs}
optimizer = "{optimizer}"
learning_rate = 0.001
[snapshots]
every_steps = 0
"""


def family(pid):
    """The process and all its descendants."""
    found = [pid]
    for one in found:
        for children in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:  # it has ended meanwhile
                pass
    return found


def proportional_bytes(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:  # it has ended meanwhile
        pass
    return 0


def needed_bytes(layers, batch, optimizer):
    parameters = sum((inputs + 1) * outputs for inputs, outputs in zip(layers, layers[1:]))
    activations = batch * (sum(layers) + sum(layers[1:]))
    return 4 * (parameters * (1 + STATES[optimizer]) + activations)


def run(acan, handlers, watch, **job):
    """Calls `watch(process, metrics)` until the training ends."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = pathlib.Path(folder) / "job.toml", pathlib.Path(folder) / "out"
        path.write_text(JOB.format(**job))
        log = pathlib.Path(folder) / "log"  # not a pipe, which could fill up
        with log.open("w") as lines:
            process = subprocess.Popen([acan, "train", path, "--out", out, "--handlers", handlers],
                                       stdout=subprocess.DEVNULL, stderr=lines)
            while process.poll() is None:
                watch(process, out / "metrics.jsonl")
        if process.returncode != 0:
            sys.exit(f"acan failed: {log.read_text()}")


def peak_bytes(acan, handlers, **job):
    most = 0

    def watch(process, _):
        nonlocal most
        most = max(most, sum(proportional_bytes(pid) for pid in family(process.pid)))
        time.sleep(0.1)

    run(acan, handlers, watch, **job)
    return most


def start_s(acan, handlers):
    begin, first = time.perf_counter(), 0.0

    def watch(_, metrics):
        nonlocal first
        if not first and metrics.exists() and metrics.stat().st_size > 0:
            first = time.perf_counter()
        time.sleep(0.001)

    run(acan, handlers, watch, layers=[784, 512, 256, 10], batch=128, samples=1024, epochs=2, optimizer="momentum")
    if not first:
        sys.exit("the first step was not seen")
    return first - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--handlers", default="2xcpu:1", help="of the job whose memory is looked at")
    parser.add_argument("--start-handlers", default="4xcpu:1")
    parser.add_argument("--layers", type=int, nargs="+", default=[784, 4096, 4096, 10])
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--optimizer", choices=list(STATES), default="sgd")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the report here, in place of stdout")
    arguments = parser.parse_args()
    layers, batch = arguments.layers, arguments.batch
    needed = needed_bytes(layers, batch, arguments.optimizer)
    peaks, starts = [], []
    for _ in range(arguments.rounds):
        peaks.append(peak_bytes(arguments.acan, arguments.handlers, layers=layers, batch=batch, samples=8 * batch,
                                epochs=2, optimizer=arguments.optimizer))
        starts.append(start_s(arguments.acan, arguments.start_handlers))
    write_report(dict(layers=layers, batch=batch, optimizer=arguments.optimizer, handlers=arguments.handlers,
                      needed_bytes=needed, peak_bytes=summary(peaks), ratio=summary([peak / needed for peak in peaks]),
                      start_handlers=arguments.start_handlers, start_s=summary(starts)), arguments.json)


if __name__ == "__main__":
    main()

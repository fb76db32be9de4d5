#!/usr/bin/env python3
"""What do audits and the audit log cost? Trains the same job without and with them, by turns, on this machine,
and prints JSON: seconds of each run, medians, and the median of the ratios of neighbours (what else the machine
does changes slowly). The weights of all runs must be the same bits.

    python3 bench/audit_cost.py --acan build/release/bin/acan --runs 5 > bench/results/NAME.json
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

JOB = """[model]
layers = [784, 1024, 1024, 10]
loss = "mse"
[data]
generated = "regression"
samples = 20480
[train]
batch = 512
epochs = {epochs}
learning_rate = 0.05
[snapshots]
every_steps = 0
"""


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--acan", default="build/release/bin/acan")
    flags.add_argument("--runs", type=int, default=5)
    flags.add_argument("--epochs", type=int, default=2)
    flags.add_argument("--audits", type=float, nargs="+", default=[0.05])
    flags.add_argument("--handlers", default="2xcpu:1")
    flags = flags.parse_args()
    kinds = {"none": []}
    for share in flags.audits:
        kinds[f"audit {share:g}"] = ["--set", f"tasks.audit={share}"]
    kinds["audit log"] = ["--audit-log"]
    seconds = {name: [] for name in kinds}
    passed = {name: [] for name in kinds}
    hashes = set()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "job.toml").write_text(JOB.format(epochs=flags.epochs))
        for run in range(flags.runs):
            for kind, more in kinds.items():
                words = [flags.acan, "train", str(folder / "job.toml"), "--handlers", flags.handlers, "--json",
                         "--out", str(folder / "out"), *more]
                if kind == "audit log":
                    words.append(str(folder / f"log{run}.jsonl"))
                done = subprocess.run(words, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    sys.exit(done.stderr)
                receipt = json.loads(done.stdout.strip().splitlines()[-1])
                seconds[kind].append(receipt["seconds"])
                passed[kind].append(receipt["audits"]["passed"])
                hashes.add(receipt["weights_sha256"])
                print(f"{kind:12} {receipt['seconds']:.2f} s", file=sys.stderr, flush=True)
    if len(hashes) != 1:
        sys.exit(f"the runs gave different weights: {hashes}")
    print(json.dumps({
        "bench": "audit_cost", "handlers": flags.handlers, "tasks": receipt["tasks_done"], "steps": receipt["steps"],
        "weights_sha256": hashes.pop(), "seconds": seconds, "audits_passed": passed,
        "median_s": {kind: statistics.median(values) for kind, values in seconds.items()},
        "time_ratio": {kind: {"median": statistics.median(r), "min": min(r), "max": max(r)}
                       for kind, values in seconds.items()
                       for r in [[a / b for a, b in zip(values, seconds["none"])]]},
    }, indent=1))


if __name__ == "__main__":
    main()

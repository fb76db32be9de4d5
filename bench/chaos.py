#!/usr/bin/env python3
"""Runs acan chaos with one seed after the other. Every run must give the same weights without
help, and leave nothing behind.

    bench/chaos.py examples/fashion-mnist.toml --seeds 1-10 --json chaos.jsonl -- \\
        --set train.epochs=30 --handlers 2xcpu:1 --kill handlers,manager,broker --every 2s

What follows `--` goes to `acan chaos`; --set and --handlers also go to the undisturbed run, which
is done once. The exit code is 0 only if every seed gave the undisturbed run's weights and left no
process, no file in /dev/shm and nothing in the folder for temporary files."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time


def seed_range(text):
    first, _, last = text.partition("-")
    if not first.isdigit() or not (last or first).isdigit() or int(last or first) < int(first):
        raise argparse.ArgumentTypeError(f"{text}: must be like 3 or 1-10")
    return range(int(first), int(last or first) + 1)


def processes_of(program):
    """Ids of the processes that run this file."""
    found = set()
    for link in pathlib.Path("/proc").glob("[0-9]*/exe"):
        try:
            if os.path.samefile(link, program):
                found.add(int(link.parent.name))
        except OSError:  # it ended meanwhile, or belongs to another user
            pass
    return found


def names_in(folder):
    simulations = "acan-simulation-"  # unrelated folders
    return {path.name for path in pathlib.Path(folder).glob("*acan*") if not path.name.startswith(simulations)}


def what_is_there(program):
    return dict(processes=processes_of(program), shared_memory=names_in("/dev/shm"),
                temporary=names_in(tempfile.gettempdir()))


def shared_words(words):
    """The words that determine the weights, or which handlers compute them."""
    kept = []
    for at, word in enumerate(words):
        if word in ("--set", "--handlers", "--memory"):
            kept += words[at:at + 2]
    return kept


def run_seed(program, job, words, seed, receipt, out):
    before = what_is_there(program)
    begin = time.monotonic()
    done = subprocess.run([program, "chaos", job, *words, "--seed", str(seed), "--undisturbed", receipt,
                           "--out", out, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    after = what_is_there(program)
    left = {kind: sorted(after[kind] - before[kind]) for kind in after if after[kind] - before[kind]}
    lines = done.stdout.strip().splitlines()
    report = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"error": done.stderr[-2000:]}
    return dict(seed=seed, exit_code=done.returncode, left_behind=left, wall_s=round(time.monotonic() - begin, 1),
                **report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job")
    parser.add_argument("--program", default="build/release/bin/acan")
    parser.add_argument("--seeds", type=seed_range, default="1-10", metavar="FIRST-LAST")
    parser.add_argument("--undisturbed", metavar="RECEIPT", help="of the same job, in place of a first run")
    parser.add_argument("--json", required=True, help="gets a line for each seed")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    flags, words = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    failed = []
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder, open(flags.json, "a") as log:
        receipt = flags.undisturbed
        if not receipt:
            quiet = os.path.join(folder, "undisturbed")
            subprocess.run([flags.program, "train", flags.job, *shared_words(words), "--out", quiet],
                           check=True, stdout=subprocess.DEVNULL)
            receipt = os.path.join(quiet, "receipt.json")
        for seed in flags.seeds:
            result = run_seed(flags.program, flags.job, words, seed, receipt,
                              os.path.join(folder, f"seed-{seed}"))
            print(json.dumps(result), file=log, flush=True)
            good = result["exit_code"] == 0 and not result["left_behind"]
            print(f"seed {seed}: {'the same weights, nothing left' if good else 'FAILED'}, {result['wall_s']} s",
                  flush=True)
            if not good:
                failed.append(seed)
    sys.exit(f"failed: {failed}" if failed else 0)


if __name__ == "__main__":
    main()

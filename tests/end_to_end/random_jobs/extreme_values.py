#!/usr/bin/env python3
"""Gives every number of a job extreme values: is each refused with a message, or planned in bounded time and memory?

    python3 tests/end_to_end/random_jobs/extreme_values.py --acan build/release/bin/acan [--kinds gpt,vit]

For each kind of model, it draws a small job (drawn_job.py). For each numeric key of docs/jobs.md, it runs `acan plan`
with one extreme value after another and a limited address space. Each run must end within seconds, with exit code 0, or
with 2 and a message that names the key, another key that conflicts with it, a data file that does not fit, or the
parameter or value of the model that would be too large. The script prints a line for every other outcome, and a
summary. Exit code 1: there was such a line.
"""
import argparse
import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

from drawn_job import Job

VALUES = ["0", "-1", "1", "1024", "32768", "1048576", "2147483647", "2147483648", "4294967296", "9007199254740992",
          "9223372036854775807", "nan", "inf", "1e308", "1e-300", "-0.0"]
LISTS = [f"[{each}, {each}]" for each in VALUES] + [f"[{', '.join([each] * 64)}]" for each in VALUES[3:8]]
KINDS = ["mlp", "gpt", "llama", "bert", "vit", "resnet", "convnext"]
# Settings that a key also needs.
BESIDE = {"beta1": ["train.optimizer=adamw"], "beta2": ["train.optimizer=adamw"],
          "epsilon": ["train.optimizer=adamw"], "momentum": ["train.optimizer=momentum"],
          "step_every": ["train.schedule=step"], "step_factor": ["train.schedule=step", "train.step_every=1"],
          "final_fraction": ["train.schedule=cosine"], "clip_bound": ["model.activation=clipped_relu"],
          "norm_groups": ["model.norm=group"], "num_labels": ["model.task=classification"]}
# Messages about keys that do not belong together, and about data that does not fit.
SENTENCES = re.compile(r"does not use it; remove it|has no such key; it is for kind|has the shape|has shape|"
                       r"has \d+ tokens|the label of sample|needs \S+ at its smallest|rows for each sample|"
                       r"is too small for")
PLAN_LIMIT_S, MEMORY_LIMIT = 60, 3 << 30


def numeric_keys(kind):
    """(key, whether it may be a list) for the tables of docs/jobs.md."""
    document = pathlib.Path(__file__).resolve().parents[3] / "docs/jobs.md"
    for name, rest in re.findall(r"^\| `([a-z]+\.[a-z0-9_]+)` \| (.*)$", document.read_text(), re.MULTILINE):
        cells = [cell.strip() for cell in rest.split("|")]
        of_kinds = name.startswith("model.") and re.match(r"(all but|[a-z]+(, [a-z]+)*$)", cells[0])
        of_kinds = of_kinds and cells[0] not in ("word", "path", "string", "number", "integer")
        if of_kinds and ("mlp" in cells[0] if kind == "mlp" else kind not in cells[0] and "all" not in cells[0]):
            continue
        if name.startswith("model.") and not of_kinds and kind != "mlp":
            continue
        type_of = cells[1] if of_kinds else cells[0]
        if re.search("integer|number|size", type_of):
            yield name, "array" in type_of


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))


def problem(arguments, job, key, value):
    """What is wrong with how `acan plan` ended; None: nothing."""
    settings = [f"{key}={value}"] + BESIDE.get(key.split(".")[1], [])
    command = [arguments.acan, "plan", job, "--handlers", "cpu:1@4GiB"]
    for setting in settings:
        command += ["--set", setting]
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PLAN_LIMIT_S, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return f"did not end within {PLAN_LIMIT_S} s"
    said = " ".join(done.stderr.split())
    if done.returncode == 0 or (done.returncode == 2 and (key.split(".")[1] in said or SENTENCES.search(said))):
        return None
    return f"ended with {done.returncode} after {time.monotonic() - began:.1f} s: {said[:300]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--kinds", default=",".join(KINDS))
    arguments = parser.parse_args()
    counts = {"values": 0, "findings": 0}
    for kind in arguments.kinds.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "job.toml").write_text(Job(7, folder, [kind]).text())
            for key, is_list in numeric_keys(kind):
                for value in VALUES + LISTS * is_list:
                    counts["values"] += 1
                    found = problem(arguments, folder / "job.toml", key, value)
                    if found:
                        counts["findings"] += 1
                        print(f"{kind}: {key}={value} {found}", flush=True)
    print(json.dumps(counts))
    sys.exit(1 if counts["findings"] else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains random small jobs, each on several clusters, and checks that all of them give the same weights.

    python3 tests/end_to_end/random_jobs/random_jobs.py --acan build/release/bin/acan --count 100 [--seed 1]

A seed draws a job: the kind of its model, or a graph file with any operators (random_graphs.py), its sizes, which are
often awkward, its data, its optimizer and its other settings. First, one handler with much memory trains it. Then other
clusters do: with up to six handlers, with the least memory in which the job can be trained and with somewhat more, some
with one large handler among them, with other vector instructions, OpenCL if available, other task sizes and policies,
activations kept or recomputed, no shared memory, TCP, snapshots, audits. The losses of each step and of tests, and the
SHA-256 of the weights, must be the same. A job that the program refuses counts as refused if there is a message and the
exit code is 2; anything else is a finding, and so is a run that has not ended after some minutes. A model that diverges
ends with exit code 1 and is counted. The script prints a line for each finding, with the seed that repeats it, and a
JSON summary at the end. Exit code 1: there was a finding.
"""
import argparse
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile

from drawn_job import KINDS, Job
from job_folders import check_folder
from job_run import TIME_LIMIT_S, Run, words
from job_seeds import check_seeds

ISAS = ["avx512", "avx2", "portable"]
LEAST = re.compile(r"the largest task needs (\d+)(B|KiB|MiB|GiB) at its smallest")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
LEAST_HANDLER = 64 << 10  # bytes that a handler needs for the conformance battery


def smallest_memory(arguments, job, settings):
    """The memory in bytes that a handler needs to train the job, as refusals state it, and how many refusals there
    were."""
    least, refusals = LEAST_HANDLER, 0
    while True:
        plan = subprocess.run([arguments.acan, "plan", str(job.folder / "job.toml"), "--handlers",
                               f"cpu:1@{least}"] + words(settings), capture_output=True, text=True, timeout=TIME_LIMIT_S)
        if plan.returncode == 0:
            return least, refusals
        refusals += 1
        named = LEAST.search(plan.stderr)
        if not named or refusals > 9:
            raise RuntimeError(f"acan plan ended with {plan.returncode}: {plan.stderr}")
        # A CPU handler reserves up to a sixteenth of its memory for packing.
        least = max(least, int(named[1]) * UNITS[named[2]] * 16 // 15) + 64


def draw_cluster(draw, job, least, opencl):
    """Handlers that can train the job, and settings that do not change its weights."""
    memory = int(least * draw.choice([1, 1, 1.1, 1.5, 3, 10]))
    handlers = draw.choice([f"cpu:1@{memory}", f"2xcpu:1@{memory}", f"{draw.randint(3, 6)}xcpu:1@{memory}",
                            f"cpu:1@{memory},cpu:1@{memory * 3}", f"cpu:2@{memory},cpu:1@1GiB",
                            f"cpu:1,cpu:1,cpu:1@{memory}"])
    if opencl and draw.random() < 0.3:
        handlers = draw.choice(["opencl:0", f"opencl:0,{handlers}"])
    settings = []
    if draw.random() < 0.3:
        rows = max(min(job.train["block"], job.train["batch"]), draw.randint(1, 24))
        settings.append(f"tasks.batch_rows={rows}")
    if draw.random() < 0.3 and "," in handlers:
        settings.append(f"tasks.audit={draw.choice([0.2, 0.5, 1])}")
    for key, values in (("tasks.policy", ["fixed", "gss", "factoring", "paper"]), ("tasks.resident_steps", [1, 2]),
                        ("snapshots.every_steps", [0, 1]), ("tasks.pouch", [1, 7]), ("tasks.timeout_ms", [30000]),
                        ("train.stop_if_not_finite", ["false"])):
        if draw.random() < 0.2:
            settings.append(f"{key}={draw.choice(values)}")
    if "opencl" in handlers:
        settings.append("tasks.leave_out_slow=false")  # PoCL may be far slower
    return handlers, settings


def check(arguments, seed, counts, folder):
    job = Job(seed, folder, arguments.kinds.split(","))
    (folder / "job.toml").write_text(job.text())
    if job.has_weights:
        job.draw_weights(arguments)
    first = Run(arguments, job, "cpu:1@4GiB")
    counts[job.kind] += 1
    if first.code != 0:
        good = first.code == 2 and first.output.strip()
        diverged = first.code == 1 and "not finite" in first.output
        ended = "refused" if good else "diverged" if diverged else "findings"
        counts[ended] += 1
        print(f"seed {seed} {ended.replace('findings', 'FINDING')}: {first}", flush=True)
        return
    draw = random.Random(-seed - 1)
    recompute = [f"tasks.recompute={draw.choice(['auto', 'auto', 'never', 'always'])}"]
    try:
        least, refusals = smallest_memory(arguments, job, recompute)
    except RuntimeError as error:
        counts["findings"] += 1
        print(f"seed {seed} FINDING: {error}", flush=True)
        return
    if refusals > 1:
        counts["findings"] += 1
        print(f"seed {seed} FINDING: {refusals} refusals named too little memory before one of {least} B",
              flush=True)
    for _ in range(arguments.clusters):
        handlers, settings = draw_cluster(draw, job, least, arguments.opencl)
        settings += recompute
        isa = draw.choice(ISAS)
        # Portable code calls the C library for each fma and so is a hundred times slower.
        if isa not in arguments.isas or (isa == "portable" and first.seconds >= 0.7):
            isa = arguments.isas[0]
        environment = {"ACAN_CPU_ISA": isa}
        # Without shared memory, results stay with the handlers, which read them from each other.
        if draw.random() < 0.3:
            environment["ACAN_SHARED_MEMORY"] = "off"
        if draw.random() < 0.1:
            environment["ACAN_TRANSPORT"] = "tcp"
        other = Run(arguments, job, handlers, settings, environment)
        counts["trained"] += 1
        if not other.same_as(first):
            counts["findings"] += 1
            print(f"seed {seed} FINDING: {other}\n  where {first}", flush=True)
            continue
        for finding in check_folder(arguments, job, draw, first.tests, handlers):
            counts["findings"] += 1
            print(f"seed {seed} FINDING: {finding}", flush=True)


def usable_isas(acan):
    """Those of ISAS that this machine has, the best first."""
    return [isa for isa in ISAS
            if subprocess.run([acan, "devices", "--list"], env=dict(os.environ, ACAN_CPU_ISA=isa),
                              capture_output=True).returncode == 0]


def write_graphs(arguments):
    os.makedirs(arguments.graphs, exist_ok=True)
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        with tempfile.TemporaryDirectory() as name:
            shutil.move(Job(seed, pathlib.Path(name), ["graph"]).model["file"], f"{arguments.graphs}/{seed}.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=20, help="how many jobs")
    parser.add_argument("--clusters", type=int, default=3, help="how many other clusters train each job")
    parser.add_argument("--kinds", default=",".join(KINDS), help="draw from these kinds; a repeated one comes more often")
    parser.add_argument("--opencl", action="store_true", help="some of them with opencl:0")
    parser.add_argument("--keep", metavar="DIR", help="keep the jobs and their data here")
    parser.add_argument("--graphs", metavar="DIR", help="only write graph files here, for lowering_try_cuts")
    arguments = parser.parse_args()
    if arguments.graphs:
        return write_graphs(arguments)
    arguments.isas = usable_isas(arguments.acan)
    check_seeds(arguments, check)


if __name__ == "__main__":
    main()

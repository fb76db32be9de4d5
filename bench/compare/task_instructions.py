#!/usr/bin/env python3
"""How many instructions a tiny task takes in one program: the broker, a handler or the manager. That
program runs under `valgrind --tool=callgrind`, the other two without it. Instructions hardly depend
on other load, so that two programs can be compared on a busy machine.

    apt-get install valgrind
    python3 bench/compare/task_instructions.py --acan build/release/bin/acan [--before ACAN] [--json FILE]
    python3 bench/compare/task_instructions.py --acan ACAN --role broker --profile FILE   # see callgrind_annotate

The job is that of bench/compare/tiny_tasks.py: tiles of 64 x 64 and one sample. Start-up and end
count, too, less than a hundredth of the whole. The handler's job has precision = "fast", because
valgrind's arithmetic does not give the exact bits. With --before, the other two programs are those of
that one, and its own figures are printed beside those of --acan.
"""
import argparse
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from acan_run import write_report
from tiny_tasks import JOB, STEPS

ROLES = ("broker", "handler", "manager")
FEW_STEPS = 90


def job_text(precision):
    return JOB.replace(f"samples = {STEPS}", f"samples = {FEW_STEPS}").replace(
        "[train]", f'[train]\nprecision = "{precision}"')


def instructions_per_task(role, program, others, profile):
    """Runs `role` of `program` under callgrind and the other roles of `others`."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out, job, endpoint = folder / "callgrind.out", folder / "job.toml", f"ipc://{folder}/broker"
        job.write_text(job_text("fast" if role == "handler" else "exact"))
        words = dict(broker=["--listen", endpoint],
                     handler=["--connect", endpoint, "--device", "cpu:1"],
                     manager=[job, "--connect", endpoint, "--out", folder / "out", "--json"])

        def start(which):
            tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"] if which == role else []
            pipe = subprocess.PIPE if which == "manager" else subprocess.DEVNULL
            return subprocess.Popen([*tool, program if which == role else others, which, *words[which]],
                                    stdout=pipe, stderr=subprocess.DEVNULL, text=True)

        running = [start(which) for which in ROLES]
        receipt = running[-1].communicate()[0].splitlines()
        for process in reversed(running[:-1]):
            process.send_signal(signal.SIGTERM)
            process.wait()
        if running[-1].returncode != 0:
            sys.exit(f"the manager of {program} failed with exit code {running[-1].returncode}")
        counted = out.read_text()
        if profile:
            pathlib.Path(profile).write_text(counted)
        total = int(re.search(r"^totals: (\d+)", counted, re.MULTILINE).group(1))
        return round(total / json.loads(receipt[-1])["tasks_done"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--before", metavar="ACAN", help="the program to compare with")
    parser.add_argument("--role", choices=ROLES, action="append", help="may be repeated; default: all")
    parser.add_argument("--profile", metavar="FILE", help="keeps callgrind's output of the last role")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    report = dict(bench="task_instructions", steps=FEW_STEPS, roles={})
    for role in arguments.role or ROLES:
        others = arguments.before or arguments.acan
        figures = dict(now=instructions_per_task(role, arguments.acan, others, arguments.profile))
        if arguments.before:
            figures["before"] = instructions_per_task(role, arguments.before, others, None)
            figures["before / now"] = round(figures["before"] / figures["now"], 3)
        report["roles"][role] = figures
    write_report(report, arguments.json)


if __name__ == "__main__":
    main()

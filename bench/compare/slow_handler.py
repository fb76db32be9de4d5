#!/usr/bin/env python3
"""What a slow handler costs or brings: trains a job by one handler alone and by it and a throttled
one, alternately. Prints the ratio of the steps per second (with it over alone) for each speed of the
throttled handler, as JSON. All runs must train the same weights.

    python3 bench/compare/slow_handler.py --job examples/gpt.toml --set train.steps=100
    python3 bench/compare/slow_handler.py --acan build/a/bin/acan --other build/b/bin/acan   # both programs
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile

from acan_run import summary, write_report

SPEEDS = ["0.05", "1", "20"]  # GFLOP/s


@contextlib.contextmanager
def running(words, until=""):
    """A process that has written a line with `until`; it ends with the block."""
    process = subprocess.Popen(words, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
    try:
        if not any(until in line for line in process.stdout):
            raise SystemExit(f"{' '.join(words)} ended")
        yield
    finally:
        process.terminate()
        process.communicate()


def train(acan, arguments, throttle):
    """(steps per second, hash of the weights)"""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as processes:
        endpoint = f"ipc://{folder}/space"
        processes.enter_context(running([acan, "broker", "--listen", endpoint]))
        handler = [acan, "handler", "--connect", endpoint, "--device", "cpu:1", "--memory", arguments.memory]
        processes.enter_context(running(handler, "joined"))
        if throttle:
            processes.enter_context(running(handler + ["--throttle", throttle], "joined"))
        words = [acan, "manager", "--connect", endpoint, arguments.job, "--out", f"{folder}/out", "--json"]
        for setting in arguments.set:
            words += ["--set", setting]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        receipt = json.loads(done.stdout.splitlines()[-1])
        return receipt["steps"] / receipt["seconds"], receipt["weights_sha256"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--other", metavar="ACAN", help="another program to compare with")
    parser.add_argument("--job", default="examples/regression.toml")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--speeds", nargs="+", default=SPEEDS, metavar="GFLOPS")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    programs = {"acan": arguments.acan}
    if arguments.other:
        programs["other"] = arguments.other
    ratios = {name: {speed: [] for speed in arguments.speeds} for name in programs}
    hashes = set()
    for _ in range(arguments.rounds):
        for name, program in programs.items():
            alone, weights = train(os.path.abspath(program), arguments, None)
            hashes.add(weights)
            for speed in arguments.speeds:
                rate, weights = train(os.path.abspath(program), arguments, speed)
                hashes.add(weights)
                ratios[name][speed].append(rate / alone)
    if len(hashes) != 1:
        raise SystemExit(f"the weights differ: {sorted(hashes)}")
    write_report(dict(job=arguments.job, settings=arguments.set, weights_sha256=hashes.pop(),
                      with_over_alone={name: {speed: summary(values) for speed, values in by_speed.items()}
                                       for name, by_speed in ratios.items()}), arguments.json)


if __name__ == "__main__":
    main()

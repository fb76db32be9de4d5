#!/usr/bin/env python3
"""Two handler hosts of network namespaces train a wide model: the bytes that cross the links a step must stay well
below those of the weights and the optimizer's state, which stay with the handlers.

    link_bytes.py ACAN          the program; exit code 0: so it was, 1: not, 77: cannot be tried here
"""
import json
import os
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench" / "hosts" / "hosts.py"
WEIGHTS = 4 * (784 * 2048 + 2048 * 2048 + 2048 * 10)
# This allows for the job's minimum (the batch and the activations, while weights stay), copies of
# versions, snapshots
# and what the broker passes on. Moving the weights and the momentum of a single step would take
# twice WEIGHTS each way.
MOST_BYTES = 2 * WEIGHTS


def skip(why):
    print(f"SKIPPED link_bytes: {why}")
    sys.exit(77)


def main():
    if os.geteuid() != 0:
        skip("network namespaces need root")
    try:
        probe = subprocess.run(["ip", "netns", "add", f"acan-probe-{os.getpid()}"], capture_output=True, text=True)
    except FileNotFoundError:
        skip("there is no ip (package iproute2)")
    if probe.returncode != 0:
        skip(f"ip netns add: {probe.stderr}")
    subprocess.run(["ip", "netns", "del", f"acan-probe-{os.getpid()}"], check=True)
    words = [sys.executable, BENCH, "--acan", sys.argv[1], "--job", "wide", "--rates", "unlimited", "--rounds", "1",
             "--seconds", "8"]
    report = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    moved = report["rates"]["unlimited"]["bytes_a_step"]["acan"]["all_links"]
    print(f"link_bytes: {moved / 1e6:.1f} MB a step over all links, the weights are {WEIGHTS / 1e6:.1f} MB")
    if moved > MOST_BYTES:
        sys.exit(f"FAILED link_bytes: at most {MOST_BYTES / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

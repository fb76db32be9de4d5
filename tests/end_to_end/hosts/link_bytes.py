#!/usr/bin/env python3
"""Handlers on two hosts (network namespaces) train a wide model. The bytes that cross the links per step must stay well
below the size of the weights and the optimizer's state, which stay with the handlers.

    link_bytes.py ACAN          ACAN: the program. Exit code 0: passed, 1: failed, 77: not possible here
"""
import json
import os
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench" / "hosts" / "hosts.py"
WEIGHTS = 4 * (784 * 2048 + 2048 * 2048 + 2048 * 10)
# This allows for the job's minimum (the batch and the activations, while weights stay), copies of
# versions, snapshots and what the broker passes on. Moving the weights and the momentum of a single
# step would take twice WEIGHTS each way.
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

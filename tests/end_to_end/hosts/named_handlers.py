#!/usr/bin/env python3
"""Two handlers on hosts (network namespaces) behind rate-limited links train a wide model. The manager names a handler
for each task. Both must take part and send each other what they need, and the weights must equal those of one local
handler. The number of transferred bytes depends on how busy the machine is, so it is only printed.

    named_handlers.py ACAN      ACAN: the program. Exit code 0: passed, 1: failed, 77: not possible here
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from processes import Program, fail

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench" / "hosts"))
from network import Network  # noqa: E402

STEPS = 8
BATCH = 128
LAYERS = [256, 1024, 1024, 8]
JOB = f"""[model]
layers = {LAYERS}
activation = "relu"
loss = "mse"
[data]
generated = "regression"
samples = SAMPLES
[train]
batch = {BATCH}
learning_rate = 0.01
optimizer = "momentum"
epochs = 1
"""
RATE = "200mbit"
GFLOPS = "1"  # a step of 1 GFLOP takes one handler far longer than the transfers between two
WEIGHTS = 4 * sum(inputs * outputs for inputs, outputs in zip(LAYERS, LAYERS[1:]))


def skip(why):
    print(f"SKIPPED named_handlers: {why}")
    sys.exit(77)


def open_network():
    if os.geteuid() != 0:
        skip("network namespaces need root")
    network = Network(["broker", "manager", "h0", "h1"], RATE)
    try:
        return network.__enter__()
    except FileNotFoundError as error:
        skip(f"there is no {error.filename} (package iproute2)")
    except subprocess.CalledProcessError as error:
        skip(f"{' '.join(map(str, error.cmd))} fails")


class Hosts:
    """The processes of one training, on the hosts of a network."""

    def __init__(self, network, acan, folder):
        self.network, self.acan, self.folder = network, acan, folder
        self.processes = []

    def start(self, host, name, role, *words):
        secret = ["--keys", self.folder / "secrets" / f"{role}.key"]
        self.processes.append(Program(name, self.network.words(host, [self.acan, role, *words, *secret])))
        return self.processes[-1]

    def handler(self, host):
        self.start(host, host, "handler", "--connect", self.endpoint, "--device", "cpu:1", "--memory", "256MiB",
                   "--throttle", GFLOPS).await_line("joined")

    def train(self):
        subprocess.run([self.acan, "keygen", "--out", self.folder / "secrets"], check=True, capture_output=True)
        self.endpoint = f"tcp://{self.network.address('broker')}:5555"
        self.start("broker", "broker", "broker", "--listen", self.endpoint, "--shared-memory", "off")
        for host in ("h0", "h1"):
            self.handler(host)
        self.manager("first")  # both handlers have measured their links when it has ended
        return self.manager("job")

    def manager(self, job):
        out = self.folder / f"out-{job}"
        manager = self.start("manager", job, "manager", self.folder / f"{job}.toml", "--connect", self.endpoint,
                             "--out", out, "--json")
        manager.await_success()
        return json.loads((out / "receipt.json").read_text())

    def stop(self):
        for process in self.processes:
            process.kill()


def check(receipt, right):
    if receipt["weights_sha256"] != right:
        fail(f"{receipt['weights_sha256']}, one local handler: {right}")
    handlers = receipt["handlers"]
    if len(handlers) != 2 or any(handler["tasks"] < STEPS for handler in handlers):
        fail(f"not both took part in each step: {handlers}")
    fetched = sum(handler.get("fetched_bytes", 0) for handler in handlers)
    print(f"named_handlers: {fetched / 1e6:.1f} MB went from handler to handler in {STEPS} steps, "
          f"the weights are {WEIGHTS / 1e6:.1f} MB")
    if fetched == 0:
        fail("nothing went from handler to handler")


def main():
    acan = pathlib.Path(sys.argv[1]).resolve()
    network = open_network()
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for job, steps in (("first", 2), ("job", STEPS)):
                (folder / f"{job}.toml").write_text(JOB.replace("SAMPLES", str(steps * BATCH)))
            subprocess.run([acan, "train", folder / "job.toml", "--handlers", "cpu:1", "--out", folder / "local",
                            "--json"], check=True, capture_output=True)
            right = json.loads((folder / "local" / "receipt.json").read_text())["weights_sha256"]
            hosts = Hosts(network, acan, folder)
            try:
                receipt = hosts.train()
            finally:
                hosts.stop()
            check(receipt, right)
    finally:
        network.__exit__()


if __name__ == "__main__":
    main()

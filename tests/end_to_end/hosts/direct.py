#!/usr/bin/env python3
"""Two handlers that share no memory with their broker send each other what they need directly. The weights must equal
those of a run whose bytes all pass through the broker, and those of a run with shared memory. In one of the runs, a
handler is killed while others fetch from it.

    direct.py ACAN          ACAN: the program. Exit code 0: passed, 1: failed
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from processes import Program, fail

JOB = """[model]
layers = [512, 512, 512, 8]
activation = "relu"
loss = "mse"
[data]
generated = "regression"
samples = 4096
[train]
batch = 512
learning_rate = 0.01
optimizer = "momentum"
epochs = 6
"""


class Run:
    """The processes of one training, which writes to `folder`."""

    def __init__(self, acan, folder, keys, handler_words):
        self.acan, self.folder, self.keys, self.handler_words = acan, folder, keys, handler_words
        self.processes = {}
        folder.mkdir()

    def start(self, name, role, *words):
        secret = ["--keys", self.keys / f"{role}.key"] if self.keys else []
        self.processes[name] = Program(name, [self.acan, role, *words, *secret])
        return self.processes[name]

    def handler(self, name):
        self.start(name, "handler", "--connect", self.endpoint, "--device", "cpu:1", "--memory", "256MiB",
                   *self.handler_words).await_line("joined")

    def train(self, kill):
        broker = self.start("broker", "broker", "--listen", "tcp://127.0.0.1:*", "--shared-memory", "off")
        line = broker.await_line("tcp://127.0.0.1:")
        self.endpoint = "tcp://127.0.0.1:" + line.split("tcp://127.0.0.1:")[1].split()[0].rstrip(",.;")
        for name in ("one", "two"):
            self.handler(name)
        manager = self.start("manager", "manager", self.folder.parent / "job.toml", "--connect", self.endpoint,
                             "--out", self.folder / "out", "--json")
        if kill:
            manager.await_line("epoch 2/")
            self.processes["two"].kill()
            self.handler("three")
        manager.await_success()
        return json.loads((self.folder / "out" / "receipt.json").read_text())

    def stop(self):
        for process in self.processes.values():
            process.kill()


def main():
    acan = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "job.toml").write_text(JOB)
        subprocess.run([acan, "keygen", "--out", folder / "secrets"], check=True, capture_output=True)
        quiet = subprocess.run([acan, "train", folder / "job.toml", "--handlers", "2xcpu:1", "--out", folder / "quiet",
                                "--json"], capture_output=True, text=True)
        if quiet.returncode != 0:
            fail(f"the run on shared memory: {quiet.stderr[-2000:]}")
        right = json.loads((folder / "quiet" / "receipt.json").read_text())["weights_sha256"]
        for case, keys, words, kill in (("clear", None, [], False), ("encrypted", folder / "secrets", [], False),
                                        ("off", None, ["--direct", "off"], False), ("killed", None, [], True)):
            run = Run(acan, folder / case, keys, words)
            try:
                receipt = run.train(kill)
            finally:
                run.stop()
            fetched = sum(handler.get("fetched_bytes", 0) for handler in receipt["handlers"])
            print(f"direct: {case}: {fetched / 1e6:.1f} MB went from handler to handler")
            if receipt["weights_sha256"] != right:
                fail(f"{case}: {receipt['weights_sha256']}, on shared memory {right}")
            if (fetched > 0) != (case != "off"):
                fail(f"{case}: {fetched} bytes went from handler to handler")


if __name__ == "__main__":
    main()

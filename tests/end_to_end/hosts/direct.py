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
import time

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
PATIENCE_S = 100


def fail(why):
    sys.exit(f"FAILED direct: {why}")


class Run:
    """The processes of one training, whose logs are in `folder`."""

    def __init__(self, acan, folder, keys, handler_words):
        self.acan, self.folder, self.keys, self.handler_words = acan, folder, keys, handler_words
        self.processes = {}
        folder.mkdir()

    def start(self, name, role, *words):
        log = open(self.folder / f"{name}.log", "w")
        secret = ["--keys", self.keys / f"{role}.key"] if self.keys else []
        process = subprocess.Popen([self.acan, role, *words, *secret], stdout=log, stderr=log)
        self.processes[name] = process
        return process

    def text(self, name):
        return (self.folder / f"{name}.log").read_text()

    def await_text(self, name, text, times=1):
        end = time.monotonic() + PATIENCE_S
        while self.text(name).count(text) < times:
            if time.monotonic() > end or self.processes[name].poll() is not None:
                fail(f"{name} never said {text!r}: {self.text(name)[-2000:]}")
            time.sleep(0.01)

    def handler(self, name):
        self.start(name, "handler", "--connect", self.endpoint, "--device", "cpu:1", "--memory", "256MiB",
                   *self.handler_words)
        self.await_text(name, "joined")

    def train(self, kill):
        self.start("broker", "broker", "--listen", "tcp://127.0.0.1:*", "--shared-memory", "off")
        self.await_text("broker", "tcp://127.0.0.1:")
        self.endpoint = "tcp://127.0.0.1:" + self.text("broker").split("tcp://127.0.0.1:")[1].split()[0].rstrip(",.;")
        for name in ("one", "two"):
            self.handler(name)
        manager = self.start("manager", "manager", self.folder.parent / "job.toml", "--connect", self.endpoint,
                             "--out", self.folder / "out", "--json")
        if kill:
            self.await_text("manager", "epoch 2/")
            self.processes["two"].kill()
            self.handler("three")
        try:
            manager.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            fail(f"no end: {self.text('manager')[-2000:]}")
        if manager.returncode != 0:
            fail(f"the manager: {self.text('manager')[-2000:]}")
        return json.loads((self.folder / "out" / "receipt.json").read_text())

    def stop(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


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

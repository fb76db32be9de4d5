"""One training of a job by `acan train`, for random_jobs.py and others."""
import json
import os
import signal
import subprocess
import time

TIME_LIMIT_S = 240


def words(settings):
    return [word for setting in settings for word in ("--set", setting)]


class Run:
    """One training and its outcome."""

    def __init__(self, arguments, job, handlers, settings=(), environment=None):
        out = job.folder / "out"
        subprocess.run(["rm", "-rf", out], check=True)
        self.command = [arguments.acan, "train", str(job.folder / "job.toml"), "--handlers", handlers,
                        "--out", str(out)] + words(settings)
        self.settings = environment or {}
        began = time.monotonic()
        process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={**os.environ, **self.settings})
        try:
            self.output, _ = process.communicate(timeout=TIME_LIMIT_S)
            self.code = process.returncode
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            try:
                self.output, _ = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                self.output, _ = process.communicate()
            self.code = "no end"
        self.seconds = time.monotonic() - began
        self.hash, self.losses, self.tests = None, None, None
        if self.code == 0:
            receipt = json.loads((out / "receipt.json").read_text())
            self.hash = receipt["weights_sha256"]
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            self.losses = [line["loss"] for line in lines if "loss" in line]
            self.tests = [line["test_loss"] for line in lines if "test_loss" in line]

    def same_as(self, other):
        return self.code == 0 and self.hash == other.hash and self.losses == other.losses and \
            self.tests == other.tests

    def __str__(self):
        last = self.output.strip().splitlines()[-3:]
        return " ".join([f"{name}={value}" for name, value in self.settings.items()] + self.command) + \
            f"\n    ended with {self.code}, {self.hash}, {self.losses}: " + " | ".join(last)

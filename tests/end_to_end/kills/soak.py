#!/usr/bin/env python3
"""Trains one job after another on one cluster with keys, while it kills processes and hostile
clients attack. To be started manually (docs/reliability.md):

    tests/end_to_end/kills/soak.py --bin build/ci/bin --seconds 7200 --throttle 0.1 --json soak.json

The soak spares the broker and the first handler, so that it can watch their memory and
descriptors. With --broker-every, it also kills the broker. It kills all other processes
(SIGKILL) or stops them for some seconds (SIGSTOP), in an order that --seed determines. The exit
code is 0 only if every job ended with the weights of an undisturbed run, no process ended
unless the soak killed it, memory and descriptors stayed flat, and nothing was left behind."""
import argparse
import collections
import json
import math
import os
import pathlib
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

JOB = """[model]
layers = [97, 211, 53, 10]
activation = "tanh"
loss = "mse"
[data]
generated = "regression"
samples = 1600
[train]
batch = 37
epochs = 40
learning_rate = 0.05
optimizer = "momentum"
"""
JOB_SEEDS = 2  # number of jobs that run in turn, repeatedly
JOB_LIMIT_S = 900
STOPPED_S = (3.0, 3.0, 3.0, 15.0)  # one of these is drawn; the broker waits for 10 s
SAMPLE_S = 5.0
TAIL_BYTES = 4000
# Only lives of at least this length are judged; their first fifth is a warm-up.
JUDGED_S = 600
WARM = 0.2
GROWTH_MIB = 8
GROWTH = 1.2
GROWTH_DESCRIPTORS = 16


class Member:
    """A process of the cluster, which is started again after it was killed."""

    def __init__(self, soak, name, words, expected=(), again=None):
        self.soak, self.name, self.words, self.expected = soak, name, words, expected
        self.again = again or words  # the words of every start but the first
        self.log = soak.folder / f"{name}.log"
        self.out = soak.folder / f"{name}.out"
        self.continue_at = None
        self.samples = []
        self.lives = []  # (seconds, samples) of the lives that ended
        self.start(words)

    def start(self, words):
        self.out.write_bytes(b"")
        with open(self.log, "ab") as log, open(self.out, "ab") as out:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=log)
        self.pidfd = os.pidfd_open(self.process.pid)  # readable when the process has ended
        self.began = time.monotonic()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.end_life()
        self.start(self.again)

    def end_life(self):
        self.lives.append((time.monotonic() - self.began, self.samples))
        self.samples, self.continue_at = [], None
        os.close(self.pidfd)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.continue_at = time.monotonic() + self.soak.random.choice(STOPPED_S)

    def go_on(self, anyway=False):
        if self.continue_at and (anyway or time.monotonic() >= self.continue_at):
            self.process.send_signal(signal.SIGCONT)
            self.continue_at = None

    def sample(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        kib = {line.split(":")[0]: int(line.split()[1]) for line in status.splitlines()
               if line.startswith(("RssAnon", "RssShmem", "Threads"))}
        descriptors = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        self.samples.append(dict(anonymous_mib=kib["RssAnon"] / 1024,
                                 shared_mib=kib["RssShmem"] / 1024,
                                 threads=kib["Threads"], descriptors=descriptors))

    def tail(self):
        return self.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")


def flatness(samples):
    """For each figure, the median soon after the start and the median at the end."""
    warm = samples[int(len(samples) * WARM):]
    part = max(1, len(warm) // 4)
    return {name: dict(early=round(statistics.median(s[name] for s in warm[:part]), 2),
                       late=round(statistics.median(s[name] for s in warm[-part:]), 2),
                       most=round(max(s[name] for s in samples), 2)) for name in samples[0]}


def grew(figures):
    return [f"{name} {f['early']} -> {f['late']}" for name, f in figures.items()
            if f["late"] > (f["early"] + GROWTH_DESCRIPTORS if name in ("descriptors", "threads")
                            else f["early"] * GROWTH + GROWTH_MIB)]


class Soak:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.acan = str(arguments.bin / "acan")
        self.random = random.Random(arguments.seed)
        self.faults, self.findings, self.hashes = collections.Counter(), [], []
        self.space = f"ipc://{folder}/space"
        self.job = folder / "job.toml"
        self.job.write_text(JOB)

    def key(self, name):
        return str(self.folder / "keys" / f"{name}.key")

    def run(self, *words):
        return subprocess.run([self.acan, *map(str, words)], check=True, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True).stdout

    def find(self, what):
        self.findings.append(what)
        seconds = time.monotonic() - self.began
        print(f"FOUND after {seconds:.0f} s: {what}", file=sys.stderr, flush=True)

    def prepare(self):
        self.began = time.monotonic()
        keys = self.folder / "keys"
        self.run("keygen", "--out", keys)
        self.run("keygen", "--out", keys, "--add", "handler", "--name", "evil")
        self.run("keygen", "--out", keys, "--add", "observer", "--name", "watch")
        self.undisturbed = []
        for seed in range(JOB_SEEDS):
            out = self.run("train", self.job, "--set", f"train.seed={seed}", "--handlers",
                           "2xcpu:1", "--out", self.folder / f"undisturbed-{seed}", "--json")
            self.undisturbed.append(json.loads(out.splitlines()[-1])["weights_sha256"])

    def start(self):
        term = 128 + signal.SIGTERM
        self.broker = Member(self, "broker", [self.acan, "broker", "--listen", self.space,
                                              "--keys", self.key("broker")], (term,))
        handler = [self.acan, "handler", "--connect", self.space, "--device", "cpu:1",
                   "--memory", "16MiB", "--keys", self.key("handler")]
        if self.arguments.throttle:
            handler += ["--throttle", str(self.arguments.throttle)]
        self.handlers = [Member(self, f"handler-{i}", handler, (term,)) for i in range(3)]
        hostile = [str(self.arguments.bin / "acan_hostile"), "--connect", self.space]
        self.hostile = [
            Member(self, f"hostile-{i}", [*hostile, "--keys", self.key(key), *role, "--seed",
                                          str(self.arguments.seed * 100 + i)], (0,))
            for i, (key, role) in enumerate(
                [("evil", []), ("evil", []), ("watch", ["--observer"])])]
        self.next_job()

    def next_job(self):
        seed = len(self.hashes) % JOB_SEEDS
        words = [self.acan, "manager", "--connect", self.space, str(self.job), "--json",
                 "--keys", self.key("manager"), "--set", f"train.seed={seed}",
                 "--out", str(self.folder / f"out-{seed}")]
        self.manager = Member(self, "manager", words, (0,), words + ["--resume"])
        self.job_began = time.monotonic()

    def members(self):
        return [self.broker, *self.handlers, *self.hostile, self.manager]

    def end_job(self):
        """Handles the manager's exit. Returns False if it failed."""
        code = self.manager.process.returncode
        if code != 0:
            self.find(f"the manager ended with {code}: {self.manager.tail()}")
            return False
        weights = json.loads(self.manager.out.read_text().splitlines()[-1])["weights_sha256"]
        if weights != self.undisturbed[len(self.hashes) % JOB_SEEDS]:
            self.find(f"job {len(self.hashes)} ended with other weights: {weights}")
        self.hashes.append(weights)
        self.manager.end_life()
        self.next_job()
        return True

    def disturb(self):
        victims = [*self.handlers[1:], self.manager, *self.hostile]
        victim = self.random.choice(victims)
        kind = victim.name.split("-")[0]
        if self.random.random() < 0.15:
            victim.go_on(anyway=True)
            victim.stop()
            self.faults[f"{kind} stopped"] += 1
        elif victim.process.poll() is None:  # otherwise it has just ended by itself, which counts
            victim.kill()
            self.faults[f"{kind} killed"] += 1

    def watch(self):
        """Returns True while everything is all right."""
        for member in self.members():
            member.go_on()
            if member.process.poll() is None:
                continue
            if member is self.manager:
                if not self.end_job():
                    return False
                continue
            self.find(f"{member.name} ended with {member.process.returncode}: {member.tail()}")
            return False
        if time.monotonic() - self.job_began > JOB_LIMIT_S:
            self.find(f"job {len(self.hashes)} does not end: {self.manager.tail()}\n"
                      f"broker: {self.broker.tail()}")
            return False
        return True

    def wait(self, until):
        """Returns when a process has ended, when one must be resumed, or at the time `until`."""
        ends = select.poll()
        for member in self.members():
            ends.register(member.pidfd, select.POLLIN)
            until = min(until, member.continue_at or until)
        ends.poll(max(0, math.ceil((until - time.monotonic()) * 1000)))

    def train(self):
        """Causes faults for the requested time; the first job may end later."""
        end = time.monotonic() + self.arguments.seconds
        now = time.monotonic()
        next_fault, next_sample = now, now
        next_broker = now + (self.arguments.broker_every or float("inf"))
        while self.watch() and (time.monotonic() < end or not self.hashes):
            now = time.monotonic()
            if now >= end:
                next_fault = next_broker = float("inf")
            if now >= next_broker:
                self.broker.kill()
                self.faults["broker killed"] += 1
                next_broker = now + self.arguments.broker_every
            if now >= next_fault:
                self.disturb()
                next_fault = now + self.arguments.every * self.random.uniform(0.5, 1.5)
            if now >= next_sample:
                for member in (self.broker, self.handlers[0]):
                    member.sample()
                next_sample = now + SAMPLE_S
            self.wait(min(self.job_began + JOB_LIMIT_S, next_fault, next_sample, next_broker,
                          end if now < end else float("inf")))

    def finish(self):
        """Asks all processes to end, including the last job."""
        for member in self.members():
            member.go_on(anyway=True)
        self.manager.expected = (0, 128 + signal.SIGTERM)
        for group in ([self.manager], self.hostile, self.handlers, [self.broker]):
            for member in group:
                member.process.terminate()
            for member in group:
                try:
                    code = member.process.wait(60)
                except subprocess.TimeoutExpired:
                    self.find(f"{member.name} does not end: {member.tail()}")
                    member.process.kill()
                    member.process.wait()
                else:
                    # A process that has just started may not handle signals yet.
                    if code not in (*member.expected, -signal.SIGTERM):
                        self.find(f"{member.name} ended with {code}: {member.tail()}")
                member.end_life()

    def report(self):
        lives = {}
        for member in (self.broker, self.handlers[0]):
            lives[member.name] = []
            for seconds, samples in member.lives:
                if not samples:
                    continue
                figures = flatness(samples)
                lives[member.name].append(dict(seconds=round(seconds), **figures))
                for what in grew(figures) if seconds >= JUDGED_S else []:
                    self.find(f"{member.name} grew: {what}")
        return dict(seconds=round(time.monotonic() - self.began), seed=self.arguments.seed,
                    jobs=len(self.hashes), hashes=sorted(set(self.hashes)),
                    faults=dict(self.faults), lives=lives, findings=self.findings)


def shared_memory():
    others = ("acan-simulation-", "acan-fuzz-")  # tests that may run beside this one
    return {path.name for path in pathlib.Path("/dev/shm").glob("*acan*")
            if not path.name.startswith(others)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--bin", type=pathlib.Path, required=True, help="the folder of acan and acan_hostile")
    add("--seconds", type=float, default=7200)
    add("--every", type=float, default=2, help="seconds between two faults, on average")
    add("--broker-every", type=float, default=0,
        help="seconds between two losses of the broker; 0: it is spared")
    add("--throttle", type=float, default=0, help="GFLOP/s of each handler; 0: no limit")
    add("--seed", type=int, default=1, help="of the faults and the attacks")
    add("--json", type=pathlib.Path, help="where the report goes (default: to stdout)")
    arguments = parser.parse_args()
    arguments.bin = arguments.bin.resolve()

    def stop(signum, frame):
        raise SystemExit(128 + signum)
    signal.signal(signal.SIGTERM, stop)
    before = shared_memory()
    with tempfile.TemporaryDirectory(prefix="acan-soak-") as folder:
        soak = Soak(arguments, pathlib.Path(folder))
        soak.prepare()
        soak.start()
        try:
            soak.train()
            soak.finish()
        finally:
            for member in soak.members():
                if member.process.poll() is None:
                    member.process.kill()
                    member.process.wait()
        if shared_memory() - before:
            soak.find(f"left in /dev/shm: {sorted(shared_memory() - before)}")
        report = soak.report()
    text = json.dumps(report, indent=1)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    else:
        print(text)
    return 1 if report["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs the three experiments of the paper (arXiv 2511.08381) with real processes.

Every run has a broker, three handlers and a manager of the program `acan`. Experiment 1 only
trains. In experiment 2, each handler draws one of the speeds 1:5:10 every five seconds. Experiment
3 is experiment 2 with the manager and all handlers killed (SIGKILL) at a fixed interval and
restarted. Prints one JSON object, from which draw.py makes pictures.

  bench/paper/run.py --acan build/release/bin/acan --experiment 2 --size X --policy paper > out.json
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

HANDLERS = 3
SPEEDS = (1, 5, 10)
CHANGE_S = 5
PLANNED_CHANGES = 360
# GFLOP/s of speed 1, so slow that the handlers and not the machine determine a task's duration.
UNIT_GFLOPS = {"X": 0.00025, "X/16": 0.00004}
# X is the paper's capacity of 4096 parameters. Blocks of 16 allow tasks of a sixteenth of that.
SIZES = {"X": ["tasks.size_bytes=16384"], "X/16": ["train.block=16", "tasks.size_bytes=1024"]}
JOB = """[model]
layers = [1024, 1024, 1]
loss = "mse"
[data]
generated = "regression"
samples = {samples}
[train]
batch = 1
epochs = 2
learning_rate = 0.001
seed = 1
"""


def plan_speeds(seed):
    """For each handler, a speed for every five seconds of the wall clock, for half an hour."""
    draw = random.Random(seed)
    return [[draw.choice(SPEEDS) for _ in range(PLANNED_CHANGES)] for _ in range(HANDLERS)]


def power_at(plan, unix_s):
    index = int(unix_s // CHANGE_S) % PLANNED_CHANGES
    return sum(speeds[index] for speeds in plan)


class Cluster:
    """The processes of one run, which all end with this object."""

    def __init__(self, acan, folder, job, throttles, settings):
        self.acan, self.folder, self.throttles = acan, folder, throttles
        self.endpoint = "ipc://" + os.path.join(folder, "space")
        self.out = os.path.join(folder, "out")
        self.manager_words = ["manager", "--connect", self.endpoint, job, "--out", self.out, "--json"]
        for setting in settings:
            self.manager_words += ["--set", setting]
        self.log = open(os.path.join(folder, "log"), "ab")
        self.broker = self.start(["broker", "--listen", self.endpoint], stdout=subprocess.DEVNULL)
        self.handlers, self.manager = [], None

    def start(self, words, **more):
        return subprocess.Popen([self.acan] + words, stderr=self.log, stdin=subprocess.DEVNULL, **more)

    def start_workers(self, resume):
        for throttle in self.throttles:
            words = ["handler", "--connect", self.endpoint, "--device", "cpu:1", "--memory", "256KiB"]
            words += ["--throttle", throttle] if throttle else []
            self.handlers.append(self.start(words, stdout=subprocess.DEVNULL))
        self.manager = self.start(self.manager_words + (["--resume"] if resume else []),
                                  stdout=subprocess.PIPE, text=True)

    def kill_workers(self):
        workers = self.handlers + [self.manager]
        for process in workers:
            process.kill()
        for process in workers:
            process.wait()
        self.manager.stdout.close()
        self.handlers, self.manager = [], None

    def close(self):
        for process in self.handlers + ([self.manager] if self.manager else []) + [self.broker]:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.handlers + ([self.manager] if self.manager else []) + [self.broker]:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.log.close()


def lines_of(path):
    """The JSON objects of a file; the last line may be torn by a kill."""
    found = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    found.append(json.loads(line))
                except json.JSONDecodeError:
                    continue
    return found


def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    rank = [0.0] * len(values)
    i = 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and values[order[j + 1]] == values[order[i]]:
            j += 1
        for k in range(i, j + 1):
            rank[order[k]] = (i + j) / 2
        i = j + 1
    return rank


def spearman(a, b):
    """Pearson's correlation of the ranks; None if one of them does not vary."""
    if len(a) < 3:
        return None
    ra, rb = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    cov = sum((x - mean) * (y - mean) for x, y in zip(ra, rb))
    va = sum((x - mean) ** 2 for x in ra)
    vb = sum((y - mean) ** 2 for y in rb)
    return cov / (va * vb) ** 0.5 if va > 0 and vb > 0 else None


def run(args, folder):
    plan = plan_speeds(args.seed)
    unit = UNIT_GFLOPS[args.size] * args.faster
    throttles = [None] * HANDLERS
    if args.experiment > 1:
        throttles = [",".join(f"{s * unit:.9g}" for s in speeds) + f"@{CHANGE_S}s" for speeds in plan]
    job = os.path.join(folder, "job.toml")
    with open(job, "w", encoding="utf-8") as file:
        file.write(JOB.format(samples=args.samples))
    settings = SIZES[args.size] + [f"tasks.policy={args.policy}"]
    if args.policy in ("paper", "fixed"):
        settings.append("tasks.pouch=100")
    cluster = Cluster(args.acan, folder, job, throttles, settings)
    begin_s, kills = time.time(), 0
    try:
        cluster.start_workers(resume=False)
        next_kill_s = begin_s + args.kill_every if args.experiment == 3 else float("inf")
        while cluster.manager.poll() is None:
            if time.time() > begin_s + args.most_s:
                raise SystemExit(f"not done after {args.most_s} s; see {folder}/log")
            try:
                cluster.manager.wait(min(1.0, max(0.0, next_kill_s - time.time())))
            except subprocess.TimeoutExpired:
                pass
            if cluster.manager.poll() is None and time.time() >= next_kill_s:
                cluster.kill_workers()
                kills += 1
                next_kill_s = time.time() + args.kill_every
                cluster.start_workers(resume=True)
        if cluster.manager.returncode != 0:
            raise SystemExit(f"the manager ended with {cluster.manager.returncode}; see {folder}/log")
        receipt = json.loads(cluster.manager.stdout.read().strip().splitlines()[-1])
    finally:
        cluster.close()
    return summary(args, plan, begin_s, kills, receipt, lines_of(os.path.join(cluster.out, "metrics.jsonl")),
                   lines_of(os.path.join(cluster.out, "tuning.jsonl")))


def summary(args, plan, begin_s, kills, receipt, metrics, tuning):
    seconds = time.time() - begin_s
    # The power that determines a time-out is that of the pouches from which it was learned, in the
    # seconds before. Both series are sampled once a second.
    series, next_s = [], begin_s
    for line in tuning:
        if line["unix_s"] >= next_s:
            at_s = line["unix_s"] - begin_s
            power = power_at(plan, line["unix_s"] - 1) if args.experiment > 1 else None
            series.append([round(at_s, 3), round(line["timeout_ms"], 3), power, line["pouch"],
                           round(line["gflops"] * 1e3, 4)])
            next_s = line["unix_s"] + 0.5
    lives, last = [], None
    for line in tuning:
        if last is None or line["tasks_done"] < last["tasks_done"]:
            lives.append(None)
        lives[-1] = last = line
    result = {"experiment": args.experiment, "size": args.size, "policy": args.policy,
              "samples": args.samples, "seconds": round(seconds, 1), "kills": kills,
              "pouches": sum(life["pouches"] for life in lives if life),
              "tasks": receipt["tasks_done"], "reissued": sum(life["reissued"] for life in lives if life),
              "weights_sha256": receipt["weights_sha256"],
              "loss": [m["loss"] for m in metrics if "loss" in m], "series": series}
    if args.experiment > 1:
        result["spearman_timeout_power"] = spearman([s[1] for s in series], [s[2] for s in series])
        result["unit_gflops"] = UNIT_GFLOPS[args.size] * args.faster
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", required=True, help="the program")
    parser.add_argument("--experiment", type=int, choices=(1, 2, 3), required=True)
    parser.add_argument("--size", choices=sorted(SIZES), default="X")
    parser.add_argument("--policy", default="paper")
    parser.add_argument("--samples", type=int, help="default: 100 in experiment 1, else 20")
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds, in experiment 3")
    parser.add_argument("--faster", type=float, default=1.0, help="than the usual unit of speed")
    parser.add_argument("--most-s", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=1, help="of the plan of speeds")
    args = parser.parse_args()
    args.samples = args.samples or (100 if args.experiment == 1 else 20)
    with tempfile.TemporaryDirectory(prefix="acan-paper-") as folder:
        try:
            print(json.dumps(run(args, folder)))
        except SystemExit:
            with open(os.path.join(folder, "log"), encoding="utf-8", errors="replace") as log:
                sys.stderr.write("".join(log.readlines()[-20:]))
            raise


if __name__ == "__main__":
    main()

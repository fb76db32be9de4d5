"""Measures acan's speed from outside, by the times at which lines appear in metrics.jsonl. acan
writes a line as each step ends."""
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time


ACAN, EAGER = "acan", "torch eager"
# For jobs that are compared with loops that do not evaluate. acan always evaluates the last version.
NO_EVALUATION = "evaluate_every = 1000000000"


def steps_ended(metrics):
    """The number of lines of steps in the file; those of evaluations do not count."""
    return metrics.read_bytes().count(b'"loss":') if metrics.exists() else 0


def steps_per_second(program, job, words, warm_steps):
    """`job`: the text of a job file whose paths are absolute; `words`: further words of `acan train`.

    The last step is not counted, because in it acan also brings the weights and the optimizer's
    state from the devices to the run's folder, which a peer's loop does not do. The time of
    evaluations counts, so jobs should have none before their end.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, out = pathlib.Path(folder) / "job.toml", pathlib.Path(folder) / "out"
        path.write_text(job)
        process = subprocess.Popen([program, "train", path, "--out", out, *words],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        metrics, seen = out / "metrics.jsonl", [(0, 0.0)]  # steps ended, and when this was seen
        while process.poll() is None:
            now = time.perf_counter()
            steps = steps_ended(metrics)
            if steps > seen[-1][0]:
                seen.append((steps, now))
            time.sleep(0.002)
        if process.returncode != 0:
            sys.exit(f"acan failed: {process.stderr.read()}")
    counted = [each for each in seen[:-1] if each[0] >= warm_steps]
    if len(counted) < 2:
        sys.exit("the job has too few steps to be timed")
    (first, begin), (last, end) = counted[0], counted[-1]
    return (last - first) / (end - begin)


def summary(values):
    return dict(median=statistics.median(values), least=min(values), most=max(values), rounds=len(values))


def take_turns(everybody, rounds, program, steps_per_s):
    """Each of `everybody` (acan first) runs once a round with `steps_per_s`; the order rotates."""
    import torch
    rates, loads = {who: [] for who in everybody}, []
    for round_number in range(rounds):
        loads.append(os.getloadavg()[0])
        first = round_number % len(everybody)
        for who in everybody[first:] + everybody[:first]:
            rates[who].append(steps_per_s(who))
    ratios = {f"{ACAN} / {peer}": summary([a / b for a, b in zip(rates[ACAN], rates[peer])])
              for peer in everybody[1:]}
    step_ms = {who: summary([1e3 / rate for rate in values]) for who, values in rates.items()}
    versions = dict(torch=torch.__version__,
                    acan=subprocess.check_output([program, "--version"], text=True).strip())
    return dict(machine=platform.processor() or platform.machine(), versions=versions,
                load_before_rounds=loads, step_ms=step_ms, ratios=ratios)


def write_report(report, path):
    """Writes the report as JSON; to stdout if there is no path."""
    text = json.dumps(report, indent=1)
    if path:
        pathlib.Path(path).write_text(text + "\n")
    else:
        print(text)

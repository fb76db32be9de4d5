#!/usr/bin/env python3
"""How many tiny tasks two workers finish a second: acan, Ray and Dask, side by side. A task is one 64 x 64 tile of
weights times one sample, so nothing is measured but what a task costs to hand out, feed and collect.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install ray "dask[distributed]" numpy
    /tmp/venv/bin/python bench/compare/tiny_tasks.py --acan build/release/bin/acan [--rounds 5] [--json FILE]

acan trains layers 1024-1024 with batch 1, cut into tasks of one tile (all its kinds of task count: each also has its
inputs delivered and its results stored). Ray and Dask get the tile and the sample by reference, as their
documentation advises for data that many tasks share, return 256 bytes, and are asked for many tasks at once.
"""
import argparse
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from acan_run import summary, write_report

TASKS = 10000
STEPS = 400
JOB = f"""[model]
layers = [1024, 1024]
loss = "mse"
[data]
generated = "regression"
samples = {STEPS}
[train]
batch = 1
epochs = 1
learning_rate = 0.01
[tasks]
size_bytes = 16384
[snapshots]
every_steps = 0
"""


def acan_rate(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "job.toml"
        path.write_text(JOB)
        done = subprocess.run([program, "train", path, "--handlers", "2xcpu:1", "--out", f"{folder}/out", "--json"],
                              check=True, capture_output=True, text=True)
        receipt = json.loads(done.stdout.splitlines()[-1])
        return receipt["tasks_done"] / receipt["seconds"]


def multiply(tile, sample):
    return sample @ tile


def arrays():
    import numpy
    generator = numpy.random.default_rng(1)
    return generator.random((64, 64), numpy.float32), generator.random((1, 64), numpy.float32)


def ray_rate():
    import ray
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        task = ray.remote(multiply)
        tile, sample = (ray.put(array) for array in arrays())
        ray.get([task.remote(tile, sample) for _ in range(200)])
        begin = time.perf_counter()
        ray.get([task.remote(tile, sample) for _ in range(TASKS)])
        return TASKS / (time.perf_counter() - begin)
    finally:
        ray.shutdown()


def dask_rate():
    from dask.distributed import Client, LocalCluster
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster, Client(cluster) as client:
        tile, sample = (client.scatter(array, broadcast=True) for array in arrays())
        client.gather([client.submit(multiply, tile, sample, pure=False) for _ in range(200)])
        begin = time.perf_counter()
        client.gather([client.submit(multiply, tile, sample, pure=False) for _ in range(TASKS)])
        return TASKS / (time.perf_counter() - begin)


PEERS = {"ray": ray_rate, "dask": dask_rate}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the report here, in place of stdout")
    parser.add_argument("--peer", choices=list(PEERS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        print(json.dumps(PEERS[arguments.peer]()))
        return
    rates = {"acan": [], **{peer: [] for peer in PEERS}}
    for _ in range(arguments.rounds):
        rates["acan"].append(acan_rate(arguments.acan))
        for peer in PEERS:
            words = [sys.executable, __file__, "--peer", peer]
            rates[peer].append(json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1]))
    report = dict(tasks_per_s={who: summary(values) for who, values in rates.items()},
                  versions={name: importlib.metadata.version(name) for name in ("ray", "distributed")})
    write_report(report, arguments.json)


if __name__ == "__main__":
    main()

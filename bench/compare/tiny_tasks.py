#!/usr/bin/env python3
"""How many tiny tasks per second two workers finish: acan, Ray, Dask and StarPU, side by side. A
task is one 64 x 64 tile of weights times one sample, so this measures only the cost of handing out,
feeding and collecting a task.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install ray "dask[distributed]" numpy
    apt-get install libstarpu-dev
    /tmp/venv/bin/python bench/compare/tiny_tasks.py --acan build/release/bin/acan [--rounds 5] [--json FILE]

acan trains layers 1024-1024 with batch 1, cut into tasks of one tile. All kinds of its tasks count,
since each has its inputs delivered and its results stored. Ray and Dask get the tile and the sample
by reference, as their documentation advises for data that many tasks share, return 256 bytes, and
get many tasks at once. So does StarPU (programs/starpu_tiny.cpp, built here), whose workers are threads of
one process: no data leave that process, and no worker may die. Peers that are not installed are
left out and named on stderr.
"""
import argparse
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

from acan_run import summary, write_report

TASKS = 10000
STARPU_TASKS = 100000  # 10,000 would finish in a twentieth of a second, too short to time
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


def package_config(*words):
    """What pkg-config says about StarPU, or nothing."""
    try:
        return subprocess.run(["pkg-config", *words, "starpu-1.3"], capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:  # pkg-config is not installed either
        return ""


def build_starpu(folder):
    source = pathlib.Path(__file__).parent / "programs" / "starpu_tiny.cpp"
    program = pathlib.Path(folder) / "starpu_tiny"
    subprocess.run(["g++", "-O3", "-march=native", "-std=c++20", source, "-o", program,
                    *shlex.split(package_config("--cflags", "--libs"))], check=True)
    return program


def starpu_rate(program):
    # StarPU stores its knowledge of the machine in the program's folder and not in a home folder.
    environment = dict(os.environ, STARPU_HOME=str(program.parent))
    done = subprocess.run([program, str(STARPU_TASKS)], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout)["tasks_per_s"]


# For each peer, its Python package and the function that measures it, in a separate process.
PEERS = {"ray": ("ray", ray_rate), "dask": ("distributed", dask_rate)}


def peer_rate(peer):
    words = [sys.executable, __file__, "--peer", peer]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def left_out(peer, what):
    print(f"tiny_tasks: {peer} is left out: {what} is not installed", file=sys.stderr)


def find_programs(acan, folder, versions):
    """By name, the functions that measure the installed peers."""
    programs = {"acan": lambda: acan_rate(acan)}
    for peer, (package, _) in PEERS.items():
        if importlib.util.find_spec(package):
            programs[peer] = lambda peer=peer: peer_rate(peer)
            versions[package] = importlib.metadata.version(package)
        else:
            left_out(peer, f"the Python package {package}")
    version = package_config("--modversion")
    if version:
        program = build_starpu(folder)
        programs["starpu"], versions["starpu"] = lambda: starpu_rate(program), version
    else:
        left_out("starpu", "Debian's libstarpu-dev (starpu-1.3 for pkg-config)")
    return programs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the report here, in place of stdout")
    parser.add_argument("--peer", choices=list(PEERS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        print(json.dumps(PEERS[arguments.peer][1]()))
        return
    versions = {}
    with tempfile.TemporaryDirectory() as folder:
        programs = find_programs(arguments.acan, folder, versions)
        rates = {who: [] for who in programs}
        for _ in range(arguments.rounds):
            for who, measure in programs.items():
                rates[who].append(measure())
    write_report(dict(tasks_per_s={who: summary(values) for who, values in rates.items()}, versions=versions), arguments.json)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares training with acan with the alternatives on the same machine, side by side: one process
of PyTorch (eager float32; bfloat16 by autocast), PyTorch's DistributedDataParallel over gloo, and,
with --onednn, a loop written by hand with oneDNN (programs/onednn_loop.cpp, which says how it is built).

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy
    /tmp/venv/bin/python bench/compare/training.py --acan build/release/bin/acan [--rounds 5] [--json FILE]

In each round, every program trains the same job once, one after the other. The ratio is acan's
samples per second over the peer's in the same round. All use --threads cores: acan as that many
handlers of one thread, PyTorch as one process with that many threads (torch.set_num_threads), DDP
as that many processes of one thread that share the batch. The peers are written as in PyTorch's
tutorials, but take their batches by index from tensors in memory, which is faster than a DataLoader
of small samples. The first steps of each run are not counted.
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

from acan_run import NO_EVALUATION, steps_per_second, summary, write_report

JOBS = {
    "wide, batch 512": dict(layers=[784, 4096, 4096, 10], batch=512, steps=24),
    "wide, batch 128": dict(layers=[784, 4096, 4096, 10], batch=128, steps=60),
    "first job": dict(layers=[784, 512, 256, 10], batch=128, steps=900),
}
WARM_STEPS = 5
RATE = 0.01
ONEDNN = "onednn loop"
PEERS = ["torch eager fp32", "torch bf16 autocast", "torch ddp gloo", ONEDNN]


# ---- the peers, each in a process of its own ----------------------------------------------------------------

def make_batches(job, rank, world):
    import torch
    torch.manual_seed(1)
    rows = job["batch"] * 8
    inputs = torch.rand(rows, job["layers"][0])
    targets = torch.rand(rows, job["layers"][-1])
    share = job["batch"] // world
    while True:
        order = torch.randperm(rows)
        for first in range(0, rows, job["batch"]):
            mine = order[first + rank * share:first + (rank + 1) * share]
            yield inputs[mine], targets[mine]


def make_net(layers):
    import torch
    parts = []
    for inputs, outputs in zip(layers, layers[1:]):
        parts += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def train_torch(job, peer, threads, rank=0, world=1):
    """Samples per second, of all processes together."""
    import torch
    torch.set_num_threads(threads // world)
    net = make_net(job["layers"])
    if world > 1:
        net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    loss_of = torch.nn.MSELoss()
    batches = make_batches(job, rank, world)
    begin = 0.0
    for step in range(WARM_STEPS + job["steps"]):
        if step == WARM_STEPS:
            begin = time.perf_counter()
        inputs, targets = next(batches)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=peer == "torch bf16 autocast"):
            loss = loss_of(net(inputs), targets)
        loss.backward()
        optimizer.step()
    return job["steps"] * job["batch"] / (time.perf_counter() - begin)


def ddp_process(rank, world, job, threads, results, folder):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    rate = train_torch(job, "torch ddp gloo", threads, rank, world)
    if rank == 0:
        results.put(rate)
    dist.destroy_process_group()


def peer_main(peer, job, threads):
    if peer == "torch ddp gloo":
        import torch.multiprocessing as mp
        results = mp.get_context("spawn").SimpleQueue()
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(ddp_process, args=(threads, job, threads, results, folder), nprocs=threads)
        rate = results.get()
    else:
        rate = train_torch(job, peer, threads)
    print(json.dumps({"samples_per_s": rate}))


# ---- acan ----------------------------------------------------------------------------------------------------

def acan_rate(program, job, threads, precision):
    text = f"""[model]
layers = {job["layers"]}
activation = "relu"
loss = "mse"
[data]
generated = "regression"
samples = {job["batch"] * 8}
[train]
batch = {job["batch"]}
epochs = {-(-(WARM_STEPS + job["steps"]) // 8)}
learning_rate = {RATE}
{NO_EVALUATION}
precision = "{precision}"
[snapshots]
every_steps = 0
"""
    return job["batch"] * steps_per_second(program, text, ["--handlers", f"{threads}xcpu:1"], WARM_STEPS)


# ---- rounds ----------------------------------------------------------------------------------------------------

def run_peer(name, job, threads, onednn):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    environment["OMP_NUM_THREADS"] = str(threads if "ddp" not in name else 1)
    words = [sys.executable, __file__, "--peer", name, "--job", json.dumps(job), "--threads", str(threads)]
    if name == ONEDNN:
        words = [onednn, *map(str, [job["batch"], job["steps"], WARM_STEPS, RATE, *job["layers"]])]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout)["samples_per_s"]


def measure(arguments):
    versions = dict(python=platform.python_version(),
                    acan=subprocess.check_output([arguments.acan, "--version"], text=True).strip())
    if arguments.peers != [ONEDNN]:
        import torch
        versions["torch"] = torch.__version__
    report = dict(threads=arguments.threads, machine=platform.processor() or platform.machine(),
                  versions=versions, jobs={})
    try:
        for name in arguments.jobs or JOBS:
            report["jobs"][name] = measure_job(name, arguments)
    finally:  # so that a failing peer does not lose earlier results
        write_report(report, arguments.json)


def measure_job(name, arguments):
    rates = {}
    for _ in range(arguments.rounds):
        for peer in arguments.peers:
            rates.setdefault(peer, []).append(run_peer(peer, JOBS[name], arguments.threads, arguments.onednn))
        for precision in ("exact", "fast"):
            rates.setdefault(f"acan {precision}", []).append(
                acan_rate(arguments.acan, JOBS[name], arguments.threads, precision))
    ratios = {f"{own} / {peer}": summary([a / b for a, b in zip(rates[own], rates[peer])])
              for own in ("acan exact", "acan fast") for peer in arguments.peers}
    for which, ratio in ratios.items():
        print(f"{name:18} {which:36} {ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f})", file=sys.stderr)
    return dict(JOBS[name], samples_per_s={who: summary(values) for who, values in rates.items()}, ratios=ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", action="append", choices=list(JOBS))
    parser.add_argument("--peers", nargs="+", choices=PEERS,
                        help="bf16 takes minutes a run on a CPU without units for it")
    parser.add_argument("--onednn", metavar="PROGRAM", help="the built onednn_loop.cpp")
    parser.add_argument("--json", help="write the report here, in place of stdout")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer_main(arguments.peer, arguments.job, arguments.threads)
        return
    if arguments.peers is None:
        arguments.peers = [peer for peer in PEERS if peer != ONEDNN or arguments.onednn]
    if ONEDNN in arguments.peers and not arguments.onednn:
        parser.error(f"--peers {ONEDNN!r} needs --onednn PROGRAM, the built onednn_loop.cpp")
    measure(arguments)


if __name__ == "__main__":
    main()

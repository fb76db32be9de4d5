#!/usr/bin/env python3
"""Trains complete models of images with acan and with PyTorch alternately: which one is faster?

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch torchvision
    /tmp/venv/bin/python bench/compare/images.py --model vit [--acan build/release/bin/acan]
    /tmp/venv/bin/python bench/compare/images.py --model resnet --rounds 5 --json FILE
    /tmp/venv/bin/python bench/compare/images.py --model vit --handlers cuda:0@16GiB --steps 60

The images are random, of the size of Fashion-MNIST's (28 x 28 pixels, one channel, ten classes);
the models are torchvision's. `vit` has patches of 4 x 4, 6 layers of 128 features, and AdamW;
`resnet` has three stages of three basic blocks with 16, 32 and 64 channels, batch norm, and
momentum.

acan uses as many handlers of one thread as --threads says, PyTorch eager one process with as many
threads. With --handlers, acan uses these instead of the threads. If a GPU is among them, PyTorch
trains on the GPU, in float32. The order rotates from round to round. The ratio is acan's steps per
second over PyTorch's in the same round. The first steps and acan's last one are not counted.
PyTorch's batches are in its device's memory before the clock starts.
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

from acan_run import ACAN, EAGER, steps_per_second, take_turns, write_report
from nets import make_resnet, make_vit

SIDE, CLASSES, SEED, WARM_STEPS = 28, 10, 1, 3
VIT = dict(patch_size=4, num_layers=6, num_heads=4, hidden_dim=128, mlp_dim=512)
RESNET = dict(widths=[16, 32, 64], blocks=[3, 3, 3])
MODELS = {
    "vit": f"""kind = "vit"
{"".join(f"{key} = {value}" + chr(10) for key, value in VIT.items())}""",
    "resnet": f"""kind = "resnet"
stem = "small"
{"".join(f"{key} = {value}" + chr(10) for key, value in RESNET.items())}""",
}
RULES = {
    "vit": "optimizer = \"adamw\"\nlearning_rate = 1e-3",
    "resnet": "optimizer = \"momentum\"\nmomentum = 0.9\nlearning_rate = 0.01",
}


# ---- acan ----------------------------------------------------------------------------------------

def write_idx(path, shape, values):
    """Writes an IDX file of bytes."""
    head = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)
    path.write_bytes(head + values)


def job_text(arguments, folder, steps):
    return f"""[model]
{MODELS[arguments.model]}image_size = {SIDE}
channels = 1
num_classes = {CLASSES}
[data]
train_inputs = "{folder}/images"
train_labels = "{folder}/labels"
[train]
batch = {arguments.batch}
steps = {steps}
{RULES[arguments.model]}
seed = {SEED}
[snapshots]
every_steps = 0
"""


def handlers_of(arguments):
    return arguments.handlers or f"{arguments.threads}xcpu:1"


def torch_device(arguments):
    return "cuda" if "cuda" in handlers_of(arguments) else "cpu"


def acan_steps_per_second(arguments):
    samples = 8 * arguments.batch
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_idx(folder / "images", [samples, SIDE, SIDE], os.urandom(samples * SIDE * SIDE))
        write_idx(folder / "labels", [samples], bytes(i % CLASSES for i in range(samples)))
        job = job_text(arguments, folder, WARM_STEPS + arguments.steps)
        return steps_per_second(arguments.acan, job, ["--handlers", handlers_of(arguments)],
                                WARM_STEPS)


# ---- PyTorch -------------------------------------------------------------------------------------

def torch_steps_per_second(arguments):
    import torch
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(SEED)
    device = torch_device(arguments)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    torch.backends.cudnn.allow_tf32 = False  # else convolutions are not in float32
    if arguments.model == "vit":
        net = make_vit(SIDE, VIT["patch_size"], VIT["num_layers"], VIT["num_heads"], VIT["hidden_dim"],
                       VIT["mlp_dim"], 1, CLASSES).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    else:
        net = make_resnet(RESNET["widths"], RESNET["blocks"], 1, CLASSES).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    batches = [(torch.rand(arguments.batch, 1, SIDE, SIDE).to(device),
                torch.randint(CLASSES, (arguments.batch,)).to(device)) for _ in range(8)]
    begin = 0.0
    for step in range(WARM_STEPS + arguments.steps):
        if step == WARM_STEPS:
            wait()
            begin = time.perf_counter()
        images, labels = batches[step % len(batches)]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()
    wait()
    return arguments.steps / (time.perf_counter() - begin)


def run_peer(who, arguments):
    """Steps per second of one run, in a separate process."""
    if who == ACAN:
        return acan_steps_per_second(arguments)
    words = [sys.executable, __file__, "--peer", "--model", arguments.model, "--batch",
             str(arguments.batch), "--steps", str(arguments.steps), "--threads",
             str(arguments.threads), "--handlers", handlers_of(arguments)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout)["steps_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--model", choices=list(MODELS), required=True)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--handlers", help="acan's devices; default: --threads times cpu:1")
    parser.add_argument("--json", help="write the report here, in place of stdout")
    arguments = parser.parse_args()
    if arguments.peer:
        print(json.dumps(dict(steps_per_s=torch_steps_per_second(arguments))))
        return
    report = dict(model=arguments.model, batch=arguments.batch, steps=arguments.steps,
                  threads=arguments.threads, handlers=handlers_of(arguments))
    report.update(take_turns([ACAN, EAGER], arguments.rounds, arguments.acan,
                             lambda who: run_peer(who, arguments)))
    write_report(report, arguments.json)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains a GPT with acan and with PyTorch: are the losses equal, and which one is faster?

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch safetensors
    /tmp/venv/bin/python bench/compare/gpt.py --check [--acan build/release/bin/acan] [--steps 200]
    /tmp/venv/bin/python bench/compare/gpt.py --check --clip 0.5 --steps 20
    /tmp/venv/bin/python bench/compare/gpt.py --gradients
    /tmp/venv/bin/python bench/compare/gpt.py --speed [--recipe 4x256/128/16] [--rounds 5]
    /tmp/venv/bin/python bench/compare/gpt.py --speed --recipe 12x768/1024/8 --handlers cuda:0@16GiB

The model is nanoGPT's, without dropout, with AdamW on a generated text of 65 characters. A recipe
is LAYERSxWIDTH/TOKENS/BATCH.

--check trains from the weights of acan's version 0 on the same windows of the text, in the same
order, with acan, PyTorch in float32 and PyTorch in float64. It prints the relative differences of
the losses at each step as JSON. The exit code is 1 if acan differs from PyTorch's float32 by more
than 5e-6 at any step, or if it is not as near to float64 as PyTorch is: if its root mean square
over the steps is more than twice PyTorch's. Over few steps, chance decides which of the two is
nearer. With --clip, all clip the norm of the gradients, by torch.nn.utils.clip_grad_norm_ and by
train.clip_norm. The norms are then compared like the losses; they may differ by 5e-5.

--gradients compares the gradient of every parameter at version 0 with PyTorch's in float64, to find
where losses begin to differ. The gradients are derived from one step of sgd with such a large rate
that the rounding of the new weights does not hide them.

--speed trains alternately with acan, with as many handlers of one thread as --threads says, and
with PyTorch eager in one process with as many threads, once with the default AdamW and once with
fused=True. The order rotates from round to round. The ratio is acan's steps per second over
PyTorch's in the same round. The first steps and acan's last one are not counted. PyTorch's batches
are in memory before the clock starts.

With --handlers, acan uses these instead of the threads. If a GPU is among them, PyTorch trains on
the first GPU, with TF32 off (the default), and its batches are in the GPU's memory.
"""
import argparse
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from acan_run import ACAN, EAGER, steps_per_second, take_turns, write_report
from nets import make_gpt, torch_state

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/manager/data"))
from draws import window_offset  # noqa: E402  Python's own Philox, checked against the paper's

RECIPES = {
    "4x128/64/12": dict(layers=4, heads=4, width=128, tokens=64, batch=12),
    "4x256/128/16": dict(layers=4, heads=4, width=256, tokens=128, batch=16),
    "6x384/256/16": dict(layers=6, heads=6, width=384, tokens=256, batch=16),
    "12x768/1024/8": dict(layers=12, heads=12, width=768, tokens=1024, batch=8),
}
CHARACTERS = "".join(sorted("\n !$&',-.3:;?" + "".join(
    chr(ord(first) + i) for first in "Aa" for i in range(26))))
SEED = 1
ADAMW, SGD = dict(optimizer="adamw", learning_rate=1e-3), dict(optimizer="sgd", learning_rate=4096)
WARM_STEPS = 10
AS_NEAR = 2.0  # times PyTorch's own distance to float64
CLOSE = dict(loss=5e-6, grad_norm=5e-5)  # the largest relative difference of a step from PyTorch's
FUSED = "torch eager, fused AdamW"


# ---- the text and the job ------------------------------------------------------------------------

def make_text(length):
    """Each character has eight successors, with the first ones more frequent, so a model can
    learn."""
    draw = random.Random(SEED)
    successors = {each: draw.sample(CHARACTERS, 8) for each in CHARACTERS}
    text = list(CHARACTERS)  # includes every character, so that the vocabulary is CHARACTERS
    while len(text) < length:
        text.append(successors[text[-1]][min(draw.randrange(8), draw.randrange(8))])
    return "".join(text)


def text_length(recipe, steps):
    """About six tenths of the steps are an epoch, which ends with a smaller batch. So a run has two
    epochs, whose windows have different offsets."""
    windows = math.ceil(steps * recipe["batch"] * 0.6) + 1
    return (windows + 1) * recipe["tokens"]


def job_text(recipe, text_path, steps, rule, clip):
    return f"""[model]
kind = "gpt"
n_layer = {recipe["layers"]}
n_head = {recipe["heads"]}
n_embd = {recipe["width"]}
block_size = {recipe["tokens"]}
vocab_size = {len(CHARACTERS)}
dropout = 0
[data]
train_text = "{text_path}"
tokenizer = "characters"
shuffle = false
[train]
batch = {recipe["batch"]}
steps = {steps}
optimizer = "{rule["optimizer"]}"
learning_rate = {rule["learning_rate"]}
clip_norm = {clip}
seed = {SEED}
[snapshots]
every_steps = 0
"""


def batches(text, recipe, steps):
    """(tokens, labels) of each step, both [samples, tokens], with windows as docs/jobs.md defines
    them."""
    import torch
    numbers = {each: i for i, each in enumerate(CHARACTERS)}
    stream = torch.tensor([numbers[each] for each in text])
    length, batch = recipe["tokens"], recipe["batch"]
    windows = (len(stream) - length) // length
    epoch, done = 0, 0
    while True:
        offset = window_offset(SEED, epoch, length)
        tokens = stream[offset:offset + windows * length].view(windows, length)
        labels = stream[offset + 1:offset + 1 + windows * length].view(windows, length)
        for first in range(0, windows, batch):
            if done == steps:
                return
            yield tokens[first:first + batch], labels[first:first + batch]
            done += 1
        epoch += 1


# ---- the training in PyTorch --------------------------------------------------------------------

def make_optimizer(net, fused=None):
    import torch
    return torch.optim.AdamW(net.parameters(), lr=ADAMW["learning_rate"], weight_decay=0.01,
                             fused=fused)


def train_step(net, optimizer, clip, tokens, labels):
    """The loss, and the norm of all gradients if they are clipped."""
    import torch
    optimizer.zero_grad()
    loss = net(tokens, labels)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), clip) if clip > 0 else None
    optimizer.step()
    return loss, norm


# ---- the check -----------------------------------------------------------------------------------

def handlers_of(arguments):
    return arguments.handlers or f"{arguments.threads}xcpu:1"


def torch_device(arguments):
    return "cuda" if "cuda" in handlers_of(arguments) else "cpu"


def run_acan(arguments, folder, steps, rule):
    """The weights after `steps` steps, and the lines of the steps."""
    path, out = folder / f"job-{steps}.toml", folder / f"out-{steps}"
    recipe = RECIPES[arguments.recipe]
    path.write_text(job_text(recipe, folder / "text.txt", steps, rule,
                             arguments.clip))
    done = subprocess.run([arguments.acan, "train", path, "--out", out,
                           "--handlers", handlers_of(arguments)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"acan failed: {done.stderr}")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return torch_state(out / "model.safetensors"), [line for line in lines if "loss" in line]


def run_acan_twice(arguments, text, steps, rule):
    """The weights of version 0, those after `steps` steps, and the lines of the steps."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "text.txt").write_text(text)
        start, _ = run_acan(arguments, folder, 0, rule)
        return start, *run_acan(arguments, folder, steps, rule)


def torch_net(start, recipe, kind):
    net = make_gpt(recipe, len(CHARACTERS))
    net.load_state_dict(start, strict=True)
    return net.to(kind)


def torch_steps(start, text, arguments, kind):
    """The same as acan's lines of the steps: losses, and norms if gradients are clipped."""
    recipe = RECIPES[arguments.recipe]
    net = torch_net(start, recipe, kind)
    optimizer = make_optimizer(net)
    steps = []
    for batch in batches(text, recipe, arguments.steps):
        loss, norm = train_step(net, optimizer, arguments.clip, *batch)
        steps.append(dict(loss=loss.item()) | ({} if norm is None else dict(grad_norm=norm.item())))
    return steps


def apart(losses, others):
    return [abs(a - b) / abs(b) for a, b in zip(losses, others, strict=True)]


def root_mean_square(values):
    return math.sqrt(sum(value * value for value in values) / len(values))


def check(arguments):
    import torch
    torch.set_num_threads(arguments.threads)
    text = make_text(text_length(RECIPES[arguments.recipe], arguments.steps))
    start, _, ours = run_acan_twice(arguments, text, arguments.steps, ADAMW)
    theirs = torch_steps(start, text, arguments, torch.float32)
    double = torch_steps(start, text, arguments, torch.float64)
    report = dict(torch=torch.__version__, recipe=arguments.recipe, steps=arguments.steps,
                  clip=arguments.clip, losses=compared("loss", ours, theirs, double))
    if arguments.clip > 0:
        report["norms"] = compared("grad_norm", ours, theirs, double)
    good = all(report[what]["good"] for what in ("losses", "norms") if what in report)
    write_report(dict(report, good=good), arguments.json)
    return 0 if good else 1


def compared(key, ours, theirs, double):
    """The values of `key` at each step, how far they are apart, and whether that is good enough."""
    ours, theirs, double = ([step[key] for step in steps] for steps in (ours, theirs, double))
    differences = dict(acan_to_torch=apart(ours, theirs), acan_to_float64=apart(ours, double),
                       torch_to_float64=apart(theirs, double))
    mean = {which: root_mean_square(values) for which, values in differences.items()}
    good = (max(differences["acan_to_torch"]) <= CLOSE[key] and
            mean["acan_to_float64"] <= AS_NEAR * mean["torch_to_float64"])
    return dict(good=good, worst={which: max(values) for which, values in differences.items()},
                root_mean_square=mean, acan=ours, torch=theirs, float64=double,
                differences=differences)


def gradients_of(net, batch):
    net(*batch).backward()
    return {name: each.grad.double() for name, each in net.named_parameters()}


def gradients(arguments):
    """For each parameter, the largest difference of an element of its gradient to float64, relative
    to its largest element; the worst parameter first."""
    import torch
    torch.set_num_threads(arguments.threads)
    recipe = RECIPES[arguments.recipe]
    text = make_text(text_length(recipe, 1))
    start, end, _ = run_acan_twice(arguments, text, 1, SGD)
    batch = next(batches(text, recipe, 1))
    wanted = gradients_of(torch_net(start, recipe, torch.float64), batch)
    ours = {name: (start[name].double() - end[name].double()) / SGD["learning_rate"]
            for name in wanted}
    theirs = gradients_of(torch_net(start, recipe, torch.float32), batch)
    apart_of = {name: {who: ((found[name] - value).abs().max() / value.abs().max()).item()
                       for who, found in ((ACAN, ours), ("torch", theirs))}
                for name, value in wanted.items()}
    worst_first = sorted(apart_of.items(), key=lambda each: -each[1][ACAN])
    write_report(dict(torch=torch.__version__, recipe=arguments.recipe,
                      to_float64=dict(worst_first)), arguments.json)
    return 0


# ---- speed ---------------------------------------------------------------------------------------

def torch_steps_per_second(arguments):
    import torch
    recipe, steps, device = RECIPES[arguments.recipe], arguments.steps, torch_device(arguments)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(SEED)
    net = make_gpt(recipe, len(CHARACTERS)).to(device)
    optimizer = make_optimizer(net, arguments.peer == FUSED or None)
    text = make_text(text_length(recipe, WARM_STEPS + steps))
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    drawn = [[each.to(device) for each in batch]
             for batch in batches(text, recipe, WARM_STEPS + steps)]
    begin = 0.0
    for step, batch in enumerate(drawn):
        if step == WARM_STEPS:
            wait()
            begin = time.perf_counter()
        train_step(net, optimizer, arguments.clip, *batch)
    wait()
    return steps / (time.perf_counter() - begin)


def run_peer(who, arguments):
    """Steps per second of one run, in a separate process."""
    recipe, steps = RECIPES[arguments.recipe], arguments.steps
    if who == ACAN:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "text.txt"
            path.write_text(make_text(text_length(recipe, WARM_STEPS + steps)))
            job = job_text(recipe, path, WARM_STEPS + steps, ADAMW, arguments.clip)
            words = ["--handlers", handlers_of(arguments)]
            return steps_per_second(arguments.acan, job, words, WARM_STEPS)
    words = [sys.executable, __file__, "--peer", who, "--recipe", arguments.recipe,
             "--steps", str(steps), "--threads", str(arguments.threads),
             "--clip", str(arguments.clip), "--handlers", handlers_of(arguments)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout)["steps_per_s"]


def speed(arguments):
    report = dict(recipe=arguments.recipe, **RECIPES[arguments.recipe], steps=arguments.steps,
                  threads=arguments.threads, handlers=handlers_of(arguments))
    report.update(take_turns([ACAN, EAGER, FUSED], arguments.rounds, arguments.acan,
                             lambda who: run_peer(who, arguments)))
    write_report(report, arguments.json)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--gradients", action="store_true")
    what.add_argument("--speed", action="store_true")
    what.add_argument("--peer", choices=[EAGER, FUSED], help=argparse.SUPPRESS)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--recipe", choices=list(RECIPES), default=next(iter(RECIPES)))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--handlers", help="acan's devices; default: --threads times cpu:1")
    parser.add_argument("--clip", type=float, default=0, metavar="NORM",
                        help="the most that the norm of all gradients may be; 0: any")
    parser.add_argument("--json", help="write the report here, in place of stdout")
    arguments = parser.parse_args()
    for chosen, action in ((arguments.check, check), (arguments.gradients, gradients),
                           (arguments.speed, speed)):
        if chosen:
            return action(arguments)
    print(json.dumps({"steps_per_s": torch_steps_per_second(arguments)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

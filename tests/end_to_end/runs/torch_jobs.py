#!/usr/bin/env python3
"""Trains the jobs that random_jobs.py draws in acan and in PyTorch, and compares: are the numbers right?

    python3 tests/end_to_end/runs/torch_jobs.py --acan build/release/bin/acan --count 100 [--seed 1]

PyTorch takes the model from `acan graph`, the weights from acan's version 0, and the same samples in the
same order; it drops out what docs/numerics.md says. It trains in float64 and in float32. acan's loss of
each step, and that of testing, may differ from float64's by 5e-6 relative, that of a step also by four times
as much as PyTorch's float32 does. The change of each parameter may differ by 1e-4 of its norm, or by ten
times as much as that of float32. What is further apart is a finding, unless float64 itself
moves a parameter as far when the initial weights move by a rounding of float32: a relu or a maximum may fall
to the other side. It prints a line for each job and each finding, and a JSON summary at the end. Exit code 1:
there was a finding.
"""
import argparse
import json
import math
import pathlib
import re
import subprocess
import sys

import numpy
import torch
from safetensors.torch import load_file

from job_seeds import check_seeds
from random_jobs import KINDS, Job, Run
from torch_graph import Net, matrix_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "manager/data"))
from draws import epoch_order, view, window_offset  # noqa: E402

LOSS_APART, LOSS_RATIO = 5e-6, 4
CHANGE_APART, CHANGE_RATIO = 1e-4, 10
ROUNDING, ROUNDED_STARTS = 6e-8, 16


# ---- the samples ---------------------------------------------------------------------------------

class Samples:
    """The training samples of a job, as the model's inputs."""

    def __init__(self, job, graph):
        self.job, self.data, self.seed = job, job.data, job.train["seed"]
        self.wanted = {each["name"]: each for each in graph["inputs"]}
        self.arrays = {}
        self.stream = self.read_stream()
        if self.stream is not None:
            self.length = self.wanted["tokens"]["rows"]
            self.count = (len(self.stream) - self.length) // self.length
            return
        keys = {"x": "train_inputs", "images": "train_inputs", "labels": "train_labels",
                "targets": "train_targets", "tokens": "train_tokens", "lengths": "train_lengths",
                "token_type_ids": "train_token_types"}
        for name in self.wanted:
            if keys[name] in self.data:
                self.arrays[name] = numpy.load(self.data[keys[name]])
        self.count = len(next(iter(self.arrays.values())))

    def read_stream(self):
        if "text" in self.data or "train_text" in self.data:
            path = pathlib.Path(self.data.get("text") or self.data["train_text"])
            if self.data.get("tokenizer") == "bytes":
                stream = numpy.frombuffer(path.read_bytes(), dtype=numpy.uint8)
            else:
                text = path.read_text()
                numbers = {each: i for i, each in enumerate(sorted(set(text)))}
                stream = numpy.array([numbers[each] for each in text])
            kept = 1 - self.data.get("test_fraction", 0.1) if "text" in self.data else 1
            return stream[:math.floor(len(stream) * kept)].astype(numpy.int64)
        if "tokens_type" in self.data:
            return numpy.fromfile(self.data["train_tokens"], dtype="<u2").astype(numpy.int64)
        return None

    def batches(self, steps):
        """The inputs of each step."""
        done, epoch = 0, 0
        while True:
            order = range(self.count)
            if self.data.get("shuffle", True):
                order = epoch_order(self.seed, epoch, self.count)
            for first in range(0, self.count, self.job.train["batch"]):
                if done == steps:
                    return
                yield self.inputs(order[first:first + self.job.train["batch"]], epoch)
                done += 1
            epoch += 1

    def inputs(self, samples, epoch):
        if self.stream is not None:
            offset = 0 if epoch is None else window_offset(self.seed, epoch, self.length)
            places = numpy.array(samples)[:, None] * self.length + offset + numpy.arange(self.length)
            return {"tokens": torch.from_numpy(self.stream[places]),
                    "labels": torch.from_numpy(self.stream[places + 1])}
        return {name: self.input(name, each, samples, epoch) for name, each in self.wanted.items()}

    def input(self, name, wanted, samples, epoch):
        if name not in self.arrays:
            rest = wanted["bound"] if name == "lengths" else 0
            return torch.full((len(samples), wanted["rows"]), rest, dtype=torch.int64)
        values = self.arrays[name][samples]
        if name == "images":
            return torch.from_numpy(self.images(values, samples, epoch))
        if values.dtype.kind == "f":
            return torch.from_numpy(values).reshape(len(samples), wanted["rows"], -1)
        return torch.from_numpy(values.astype(numpy.int64)).reshape(len(samples), -1)

    def images(self, pixels, samples, epoch):
        pixels = pixels.reshape(*pixels.shape[:3], -1)  # HWC
        padding, flip = self.data.get("crop_padding", 0), self.data.get("flip", False)
        if epoch is not None and (padding or flip):
            for i, sample in enumerate(samples):
                top, left, flipped = view(self.seed, epoch, sample, padding)
                height, width = pixels.shape[1:3]
                wide = numpy.pad(pixels[i], ((padding, padding), (padding, padding), (0, 0)))
                seen = wide[padding + top:, padding + left:][:height, :width]
                pixels[i] = seen[:, ::-1] if flip and flipped else seen
        values = pixels.astype(numpy.float32) / numpy.float32(255)
        if "mean" in self.data:
            values = values - numpy.array(self.data["mean"], dtype=numpy.float32)
        if "std" in self.data:
            values = values / numpy.array(self.data["std"], dtype=numpy.float32)
        return values.reshape(len(values), -1, values.shape[3])


# ---- the training --------------------------------------------------------------------------------

def rate_at(train, step, steps):
    """docs/jobs.md: train.schedule and train.warmup_steps."""
    warmup, rate = train.get("warmup_steps", 0), train["learning_rate"]
    if step < warmup:
        return rate * (step + 1) / warmup
    after = step - warmup
    if train.get("schedule") == "step":
        return rate * train.get("step_factor", 0.1) ** (after // train["step_every"])
    if train.get("schedule") == "cosine":
        share = (1 + math.cos(math.pi * after / (steps - warmup))) / 2
        final = train.get("final_fraction", 0)
        return rate * (final + (1 - final) * share)
    return rate


def make_optimizer(train, net, trained):
    kind = train.get("optimizer", "sgd")
    decay = train.get("weight_decay", 0.01 if kind == "adamw" else 0)
    matrices = train.get("decay", "everything") == "matrices"
    groups = [{"params": [net.state[name]],
               "weight_decay": 0 if matrices and net.roles[name] not in ("matrix", "embedding") else decay}
              for name in trained]
    if kind == "adamw":
        return torch.optim.AdamW(groups, betas=(train.get("beta1", 0.9), train.get("beta2", 0.999)),
                                 eps=train.get("epsilon", 1e-8))
    return torch.optim.SGD(groups, lr=0.1, momentum=train.get("momentum", 0.9) if kind == "momentum" else 0)


def is_trained(parameter, train):
    patterns = [".*".join(map(re.escape, each.split("*"))) for each in train.get("freeze", [])]
    return parameter["role"] != "statistic" and \
        not any(re.fullmatch(each, parameter["name"], re.DOTALL) for each in patterns)


def train_in_torch(graph, tensors, job, number):
    """The losses, and the parameters at the end."""
    net, train = Net(graph, tensors, number), job.train
    trained = [each["name"] for each in graph["parameters"] if is_trained(each, train)]
    for name in trained:
        net.state[name].requires_grad_()
    optimizer = make_optimizer(train, net, trained) if trained else None
    losses = []
    for step, inputs in enumerate(Samples(job, graph).batches(train["steps"])):
        loss = net.loss(inputs, (train["seed"], step))
        losses.append(loss.item())
        if optimizer:
            for group in optimizer.param_groups:
                group["lr"] = rate_at(train, step, train["steps"])
            optimizer.zero_grad()
            loss.backward()
            if train.get("clip_norm", 0):
                torch.nn.utils.clip_grad_norm_([net.state[name] for name in trained], train["clip_norm"])
            optimizer.step()
        net.state.update(net.new_statistics)
    return losses, {name: each.detach().double() for name, each in net.state.items()}


# ---- the comparison ------------------------------------------------------------------------------

def apart_of_losses(found, wanted):
    return max((abs(a - b) / max(abs(b), 1e-30) for a, b in zip(found, wanted, strict=True)), default=0)


def test_loss(graph, tensors, samples):
    """In float64, of all samples, with the weights of a file."""
    inputs = samples.inputs(range(samples.count), None)
    with torch.no_grad():
        return Net(graph, tensors, torch.float64).loss(inputs).item()


def moved_by_rounding(graph, start, job, wanted):
    """How far each parameter's change moves in float64, at most, when each initial weight moves by a rounding
    of float32."""
    most = {name: 0.0 for name in wanted}
    for draw in range(ROUNDED_STARTS):
        noise = torch.Generator().manual_seed(draw)
        rounded = {name: each.double() * (1 + ROUNDING * (2 * torch.rand(each.shape, generator=noise,
                                                                         dtype=torch.float64) - 1))
                   if each.is_floating_point() else each for name, each in start.items()}
        _, found = train_in_torch(graph, rounded, job, torch.float64)
        for each in graph["parameters"]:
            name = each["name"]
            begins = (matrix_of(each, weights[name]).double() for weights in (rounded, start))
            moved = (found[name] - next(begins)) - (wanted[name] - next(begins))
            most[name] = max(most[name], moved.norm().item())
    return most


def compare(graph, start, end, losses, job):
    """Findings, and how far from float64 the losses of acan and of PyTorch's float32 are."""
    wanted_losses, wanted = train_in_torch(graph, start, job, torch.float64)
    their_losses, theirs = train_in_torch(graph, start, job, torch.float32)
    ours_apart, theirs_apart = (apart_of_losses(each, wanted_losses) for each in (losses, their_losses))
    findings = []
    if ours_apart > max(LOSS_APART, LOSS_RATIO * theirs_apart):
        findings.append(f"losses {losses}, in float64 {wanted_losses}, in float32 {their_losses}")
    first = {each["name"]: matrix_of(each, start[each["name"]]).double() for each in graph["parameters"]}
    most = max((wanted[name] - first[name]).norm().item() for name in first)
    rounding = None
    for each in graph["parameters"]:
        name = each["name"]
        ours = matrix_of(each, end[name]).double()
        # What changes hardly, as a bias of keys, changes by rounding errors in any program.
        change = max((wanted[name] - first[name]).norm().item(), 1e-5 * most,
                     1e-7 * first[name].norm().item(), 1e-30)
        apart, theirs_by = ((each - wanted[name]).norm().item() / change for each in (ours, theirs[name]))
        if apart <= max(CHANGE_APART, CHANGE_RATIO * theirs_by):
            continue
        rounding = rounding or moved_by_rounding(graph, start, job, wanted)
        moved = rounding[name] / change
        if apart > moved:
            findings.append(f"the change of {name} differs by {apart:.1e}, that of float32 by {theirs_by:.1e}, "
                            f"and rounding the initial weights moves it by {moved:.1e}")
    return findings, ours_apart, theirs_apart


def graph_of(arguments, folder):
    done = subprocess.run([arguments.acan, "graph", folder / "job.toml"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"acan graph ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def check(arguments, seed, counts, folder):
    job = Job(seed, folder, arguments.kinds.split(","))
    (folder / "job.toml").write_text(job.text())
    if job.has_weights:
        job.draw_weights(arguments)
    parts = []
    for settings in (["train.steps=0"], []):
        run = Run(arguments, job, "cpu:1@4GiB", settings)
        if run.code != 0:
            counts["ended otherwise"] += 1
            print(f"seed {seed} ended otherwise: {run}", flush=True)
            return
        parts.append(load_file(folder / "out/model.safetensors"))
    graph = graph_of(arguments, folder)
    findings, ours, theirs = compare(graph, *parts, run.losses, job)
    if run.tests:
        tested = test_loss(graph, parts[1], Samples(job, graph))
        if abs(run.tests[-1] - tested) > LOSS_APART * abs(tested):
            findings.append(f"the test loss is {run.tests[-1]}, in float64 {tested}")
    counts[job.kind] += 1
    counts["findings"] += bool(findings)
    print(f"seed {seed} {job.kind}: losses differ by {ours:.1e}, those of float32 by {theirs:.1e}", flush=True)
    for each in findings:
        print(f"seed {seed} FINDING: {each}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=20, help="how many jobs")
    parser.add_argument("--kinds", default=",".join(KINDS), help="draw from these kinds")
    parser.add_argument("--keep", metavar="DIR", help="keep the jobs and their data here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    check_seeds(arguments, check)


if __name__ == "__main__":
    main()

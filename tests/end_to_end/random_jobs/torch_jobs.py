#!/usr/bin/env python3
"""Trains the jobs that random_jobs.py draws both in acan and in PyTorch, and checks that the numbers are right.

    python3 tests/end_to_end/random_jobs/torch_jobs.py --acan build/release/bin/acan --count 100 [--seed 1]

PyTorch takes the model from `acan graph`, the weights from acan's version 0, and the same samples in the same order; it
drops out the elements that docs/numerics.md says. It trains in float64 and in float32. acan's loss of each step, and
the loss in testing, may differ from float64's by 5e-6 relative; the loss of a step may also differ by four times as
much as that of PyTorch's float32. The change of each parameter may differ by 1e-4 of its norm, or by ten times as much
as float32's. A larger difference is a finding, unless float64 itself moves a parameter as far when the initial weights
change by a float32 rounding: the result of a relu or a maximum may then switch. The script prints a line for each job
and each finding, and a JSON summary at the end. Exit code 1: there was a finding.
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

from drawn_job import KINDS, Job
from job_files import character_tokens, load_array
from job_folders import generated, predicts_tokens
from job_run import Run
from job_seeds import check_seeds
from torch_graph import IGNORED, Net, matrix_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "manager/data"))
from draws import epoch_order, view, window_offset  # noqa: E402

LOSS_APART, LOSS_RATIO = 5e-6, 4
CHANGE_APART, CHANGE_RATIO = 1e-4, 10
ROUNDING, ROUNDED_STARTS = 6e-8, 16


# ---- the samples ---------------------------------------------------------------------------------

class Samples:
    """The training samples of a job, as the model's inputs. `test`: those for testing, which are the same in their
    files, except for the end of `data.text`."""

    def __init__(self, job, graph, test=False):
        self.job, self.data, self.seed, self.test = job, job.data, job.train["seed"], test
        self.wanted = {each["name"]: each for each in graph["inputs"]}
        self.ignored = next((node.get("attributes", {}).get("ignored_label", IGNORED) for node in graph["nodes"]
                             if node["operator"] == "cross_entropy"), IGNORED)
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
                self.arrays[name] = load_array(self.data[keys[name]])
        self.count = len(next(iter(self.arrays.values())))

    def read_stream(self):
        if "text" in self.data or "train_text" in self.data:
            path = pathlib.Path(self.data.get("text") or self.data["train_text"])
            if self.data.get("tokenizer") == "bytes":
                return self.part(numpy.frombuffer(path.read_bytes(), dtype=numpy.uint8)).astype(numpy.int64)
            text = path.read_text()
            if self.data.get("tokenizer", "characters") != "characters":
                return numpy.array(character_tokens(self.part(text), self.job.pieces), dtype=numpy.int64)
            numbers = {each: i for i, each in enumerate(sorted(set(text)))}
            return self.part(numpy.array([numbers[each] for each in text], dtype=numpy.int64))
        if "tokens_type" in self.data:
            kind = {"uint16": "<u2", "uint32": "<u4"}[self.data["tokens_type"]]
            return numpy.fromfile(self.data["train_tokens"], dtype=kind).astype(numpy.int64)
        if "train_tokens" in self.data and "train_labels" not in self.data:
            return load_array(self.data["train_tokens"]).astype(numpy.int64)
        return None

    def part(self, whole):
        """The part of a text that is for training or for testing."""
        if "text" not in self.data:
            return whole
        kept = math.floor(len(whole) * (1 - self.data["test_fraction"]))
        return whole[kept:] if self.test else whole[:kept]

    def steps(self):
        if "epochs" in self.job.train:
            return self.job.train["epochs"] * -(-self.count // self.job.train["batch"])
        return self.job.train["steps"]

    def batches(self):
        """The inputs of each step."""
        done, epoch, steps = 0, 0, self.steps()
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
        if name in ("x", "targets"):
            if values.dtype == numpy.uint8:
                values = values.astype(numpy.float32) / numpy.float32(255)
            return torch.from_numpy(values).reshape(len(samples), wanted["rows"], -1)
        if name == "labels" and "ignore_label" in self.data:
            values = numpy.where(values == self.data["ignore_label"], self.ignored, values)
        return torch.from_numpy(values.astype(numpy.int64)).reshape(len(samples), -1)

    def images(self, pixels, samples, epoch):
        if pixels.ndim == 3:
            pixels = pixels[..., None]
        elif self.data["layout"] == "CHW":
            pixels = pixels.transpose(0, 2, 3, 1).copy()
        padding, flip = self.data.get("crop_padding", 0), self.data.get("flip", False)
        if epoch is not None and (padding or flip):
            for i, sample in enumerate(samples):
                top, left, flipped = view(self.seed, epoch, sample, padding)
                height, width = pixels.shape[1:3]
                wide = numpy.pad(pixels[i], ((padding, padding), (padding, padding), (0, 0)))
                seen = wide[padding + top:, padding + left:][:height, :width]
                pixels[i] = seen[:, ::-1] if flip and flipped else seen
        values = pixels
        if pixels.dtype == numpy.uint8:
            values = pixels.astype(numpy.float32) / numpy.float32(255)
        if "mean" in self.data:
            values = values - numpy.array(self.data["mean"], dtype=numpy.float32)
        if "std" in self.data:
            values = values / numpy.array(self.data["std"], dtype=numpy.float32)
        return values.reshape(len(values), -1, values.shape[3])


# ---- the training --------------------------------------------------------------------------------

def rate_at(train, step, steps):
    """Follows docs/jobs.md: train.schedule and train.warmup_steps."""
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
    """Returns the losses, and the parameters at the end."""
    net, train = Net(graph, tensors, number), job.train
    trained = [each["name"] for each in graph["parameters"] if is_trained(each, train)]
    for name in trained:
        net.state[name].requires_grad_()
    optimizer = make_optimizer(train, net, trained) if trained else None
    losses, samples = [], Samples(job, graph)
    for step, inputs in enumerate(samples.batches()):
        loss = net.loss(inputs, (train["seed"], step))
        losses.append(loss.item())
        if optimizer:
            for group in optimizer.param_groups:
                group["lr"] = rate_at(train, step, samples.steps())
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
    """The float64 loss of all samples, with the weights of a file."""
    inputs = samples.inputs(range(samples.count), None)
    with torch.no_grad():
        return Net(graph, tensors, torch.float64).loss(inputs).item()


def moved_by_rounding(graph, start, job, wanted_losses, wanted):
    """How far the losses and each parameter's change move in float64, at most, when each initial weight changes by
    a float32 rounding."""
    most, most_of_losses = {name: 0.0 for name in wanted}, 0.0
    for draw in range(ROUNDED_STARTS):
        noise = torch.Generator().manual_seed(draw)
        rounded = {name: each.double() * (1 + ROUNDING * (2 * torch.rand(each.shape, generator=noise,
                                                                         dtype=torch.float64) - 1))
                   if each.is_floating_point() else each for name, each in start.items()}
        losses, found = train_in_torch(graph, rounded, job, torch.float64)
        most_of_losses = max(most_of_losses, apart_of_losses(losses, wanted_losses))
        for each in graph["parameters"]:
            name = each["name"]
            begins = (matrix_of(each, weights[name]).double() for weights in (rounded, start))
            moved = (found[name] - next(begins)) - (wanted[name] - next(begins))
            most[name] = max(most[name], moved.norm().item())
    return most_of_losses, most


def has_queries_of_one_key(graph, start, job):
    """Whether all queries of an attention on which the loss depends see a single key each: there is one position, or
    only the first position of a causal attention is read. The weight of that key is always 1, so PyTorch's gradient of
    the queries is exactly 0."""
    attentions = [node for node in graph["nodes"] if node["operator"] == "attention"]
    inputs = next(Samples(job, graph).batches(), None)
    if not attentions or inputs is None:
        return False
    net = Net(graph, start, torch.float64)
    for value in net.state.values():
        value.requires_grad_()
    values = net.values(inputs, (job.train["seed"], 0))
    for node in attentions:
        result, queries = values[node["name"]], values[node["inputs"][0]]
        if not queries.requires_grad:
            continue  # they come from the data
        of_result, of_queries = torch.autograd.grad(values[graph["loss"]], (result, queries), retain_graph=True,
                                                    allow_unused=True)
        if of_result is not None and of_result.any() and not of_queries.any():
            return True
    return False


def has_gradients_of_rounding(graph, start, job):
    """Whether a gradient that is 0 in theory is a rounding error in acan, so that parameters on which the loss does
    not depend change by noise: that of a single feature in front of a norm, or of queries and keys if each query sees
    a single key. There acan subtracts two numbers that are equal except for rounding."""
    if has_queries_of_one_key(graph, start, job):
        return True
    widths = {each["name"]: each["columns"] for each in graph["parameters"]}
    for node in graph["nodes"]:
        width = widths.get(node["inputs"][1]) if len(node["inputs"]) > 1 else None
        if node["operator"] in ("layer_norm", "rms_norm") and width == 1:
            return True
    return False


def compare(graph, start, end, losses, job):
    """Returns findings, and how far the losses of acan and of PyTorch's float32 are from float64's."""
    wanted_losses, wanted = train_in_torch(graph, start, job, torch.float64)
    their_losses, theirs = train_in_torch(graph, start, job, torch.float32)
    ours_apart, theirs_apart = (apart_of_losses(each, wanted_losses) for each in (losses, their_losses))
    findings, rounding = [], None
    if ours_apart > max(LOSS_APART, LOSS_RATIO * theirs_apart):
        rounding = moved_by_rounding(graph, start, job, wanted_losses, wanted)
        if ours_apart > rounding[0]:
            findings.append(f"losses {losses}, in float64 {wanted_losses}, in float32 {their_losses}, and rounding the "
                            f"initial weights moves them by {rounding[0]:.1e}")
    if has_gradients_of_rounding(graph, start, job):
        return findings, ours_apart, theirs_apart
    first = {each["name"]: matrix_of(each, start[each["name"]]).double() for each in graph["parameters"]}
    most = max((wanted[name] - first[name]).norm().item() for name in first)
    for each in graph["parameters"]:
        name = each["name"]
        ours = matrix_of(each, end[name]).double()
        # Parameters that hardly change, such as the bias of the keys, change only by rounding
        # errors.
        change = max((wanted[name] - first[name]).norm().item(), 1e-5 * most,
                     1e-7 * first[name].norm().item(), 1e-30)
        apart, theirs_by = ((each - wanted[name]).norm().item() / change for each in (ours, theirs[name]))
        if apart <= max(CHANGE_APART, CHANGE_RATIO * theirs_by):
            continue
        rounding = rounding or moved_by_rounding(graph, start, job, wanted_losses, wanted)
        moved = rounding[1][name] / change
        if apart > moved:
            findings.append(f"the change of {name} differs by {apart:.1e}, that of float32 by {theirs_by:.1e}, "
                            f"and rounding the initial weights moves it by {moved:.1e}")
    return findings, ours_apart, theirs_apart


def graph_of(arguments, folder):
    done = subprocess.run([arguments.acan, "graph", folder / "job.toml"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"acan graph ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


# ---- the folder ----------------------------------------------------------------------------------

def generates_other(arguments, graph, tensors, job):
    """Returns findings: acan generate's most likely tokens must be float64's, or hardly less likely."""
    net, length = Net(graph, tensors, torch.float64), graph["inputs"][0]["rows"]
    prompt = list(job.random.choices(range(graph["inputs"][0]["bound"]), k=job.random.randint(1, length + 3)))
    done = generated(arguments, job, prompt, 6, "cpu:1")
    if done.returncode != 0:
        return [f"acan generate after {prompt} ended with {done.returncode}: {done.stderr}"]
    if (job.folder / "out/vocabulary.json").exists():
        return []  # the job prints a text
    tokens = list(prompt)
    for token in map(int, done.stdout.split()):
        seen = tokens[-length:]
        padded = torch.tensor([seen + [0] * (length - len(seen))])
        with torch.no_grad():
            logits = net.output({"tokens": padded, "labels": padded})[0, len(seen) - 1]
        if logits.max() - logits[token] > 1e-5 * logits.abs().max():
            return [f"acan generate after {tokens} chose {token} with {logits[token]}, and {int(logits.argmax())} has "
                    f"{logits.max()}"]
        tokens.append(token)
    return []


def loads_otherwise(arguments, graph, tensors, job, trained):
    """Returns findings: transformers must compute the logits of the folder's model, and what it saves must be the
    same model."""
    import transformers
    out, again = job.folder / "out", job.folder / "again"
    config = json.loads((out / "config.json").read_text())
    module = getattr(transformers, config["architectures"][0]).from_pretrained(out)
    module.save_pretrained(again)
    samples = Samples(job, graph)
    inputs = samples.inputs(range(min(samples.count, 3)), None)
    words = {"input_ids": inputs["tokens"]}
    if "lengths" in inputs:
        words["attention_mask"] = (torch.arange(inputs["tokens"].shape[1]) < inputs["lengths"]).long()
    if "token_type_ids" in inputs:
        words["token_type_ids"] = inputs["token_type_ids"]
    with torch.no_grad():
        wanted = Net(graph, tensors, torch.float64).output(inputs)
        found = module.double().eval()(**words).logits.reshape(wanted.shape)
    findings = []
    counted = words.get("attention_mask")
    if counted is not None and wanted.shape[1] > 1:
        wanted, found = wanted[counted.bool()], found[counted.bool()]
    if (found - wanted).norm() > 1e-5 * wanted.norm():
        findings.append(f"transformers' logits differ by {(found - wanted).norm() / wanted.norm():.1e}")
    job.model["initial_weights"] = str(again / "model.safetensors")
    (job.folder / "job.toml").write_text(job.text())
    read = Run(arguments, job, "cpu:1@4GiB", ["train.steps=0"])
    if read.hash != trained.hash:
        findings.append(f"what transformers saved is read as {read.hash} and not {trained.hash}: {read}")
    return findings


def check(arguments, seed, counts, folder):
    job = Job(seed, folder, arguments.kinds.split(","))
    if "generated" in job.data or (job.data.get("tokenizer", "").endswith(".model") and job.pieces is None):
        counts["not of files that PyTorch can read"] += 1
        return
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
        tested = test_loss(graph, parts[1], Samples(job, graph, test=True))
        if abs(run.tests[-1] - tested) > LOSS_APART * abs(tested):
            findings.append(f"the test loss is {run.tests[-1]}, in float64 {tested}")
    if predicts_tokens(job) and job.kind != "graph":
        findings += generates_other(arguments, graph, parts[1], job)
    if job.output.get("config"):
        findings += loads_otherwise(arguments, graph, parts[1], job, run)
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
    # With oneDNN, PyTorch 2.15 corrupts its memory in some convolutions of few pixels.
    torch.backends.mkldnn.enabled = False
    check_seeds(arguments, check)


if __name__ == "__main__":
    main()

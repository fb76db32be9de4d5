#!/usr/bin/env python3
"""Compares the gradients of networks with relu at version 0, as acan and PyTorch compute them in
float32, with PyTorch's in float64.

    /tmp/venv/bin/python bench/compare/gradients.py [--acan build/release/bin/acan] [--json FILE]

The models are the first job's perceptron, on 128 images of Fashion-MNIST, and accuracy.py's ResNet,
on four. acan's gradients are derived from one step of sgd with such a large rate that the rounding
of the new weights does not hide them. For each parameter, the report has the largest difference of
an element to float64, relative to the parameter's largest gradient; the worst comes first.

In any program, a sum before a relu that rounds to the other side of zero changes a whole gradient.
This is likelier the more relus there are, hence four images and five seeds. The exit code is 1 if
acan's worst parameter in the median seed is above 1e-5.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

from accuracy import CLASSES, RESNET, SIDE, run_acan, write_shuffled
from acan_run import write_report
from nets import make_resnet

ALLOWED = 1e-5
RATE = 4096
BATCH = dict(mlp=128, resnet=4)
SEEDS = [1, 2, 3, 4, 5]
LAYERS = [SIDE * SIDE, 512, 256, CLASSES]
MODELS = {
    "mlp": f"layers = {LAYERS}\n",
    "resnet": f"""kind = "resnet"
widths = {RESNET["widths"]}
blocks = {RESNET["blocks"]}
stem = "small"
image_size = {SIDE}
channels = 1
num_classes = {CLASSES}
""",
}


def job_text(kind, seed, steps, folder):
    return f"""[model]
{MODELS[kind]}
[data]
shuffle = false
train_inputs = "{folder}/images.idx"
train_labels = "{folder}/labels.idx"
[train]
batch = {BATCH[kind]}
seed = {seed}
steps = {steps}
optimizer = "sgd"
learning_rate = {RATE}
[snapshots]
every_steps = 0
"""


def make_net(kind):
    from torch import nn
    if kind == "resnet":
        return make_resnet(RESNET["widths"], RESNET["blocks"], 1, CLASSES)

    class Perceptron(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(*sizes) for sizes in zip(LAYERS, LAYERS[1:]))

        def forward(self, x):
            x = x.flatten(1)
            for layer in self.layers[:-1]:
                x = nn.functional.relu(layer(x))
            return self.layers[-1](x)

    return Perceptron()


def torch_gradients(kind, start, images, labels, number):
    import torch
    net = make_net(kind)
    net.load_state_dict(start, strict=True)
    net.to(number).train()
    torch.nn.functional.cross_entropy(net(images.to(number)), labels).backward()
    return {name: each.grad.double() for name, each in net.named_parameters()}


def compare(arguments, kind, seed, folder):
    import torch
    images, labels = write_shuffled(arguments, seed, folder)
    images, labels = images[:BATCH[kind]], labels[:BATCH[kind]]
    start, end = (run_acan(arguments, job_text(kind, seed, steps, folder), folder,
                           f"{kind}-{steps}")[1] for steps in (0, 1))
    wanted = torch_gradients(kind, start, images, labels, torch.float64)
    theirs = torch_gradients(kind, start, images, labels, torch.float32)
    apart = {}
    for name, value in wanted.items():
        ours = (start[name].double() - end[name].double()) / RATE
        apart[name] = {who: ((found - value).abs().max() / value.abs().max()).item()
                       for who, found in (("acan", ours), ("torch", theirs[name]))}
    return dict(sorted(apart.items(), key=lambda each: -each[1]["acan"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--images", type=pathlib.Path,
                        default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--handlers", default="2xcpu:1")
    parser.add_argument("--json", help="write the report here, in place of stdout")
    arguments = parser.parse_args()
    import torch
    torch.set_num_threads(1)
    report, worst = {}, {}
    for kind in MODELS:
        report[kind] = []
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                report[kind].append(compare(arguments, kind, seed, pathlib.Path(folder)))
        worst[kind] = {who: [max(each[who] for each in found.values()) for found in report[kind]]
                       for who in ("acan", "torch")}
    good = all(statistics.median(found["acan"]) <= ALLOWED for found in worst.values())
    write_report(dict(torch=torch.__version__, worst_of_seeds=worst, good=good, to_float64=report),
                 arguments.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

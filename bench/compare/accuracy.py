#!/usr/bin/env python3
"""Do models train as well in acan as in PyTorch?

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch torchvision safetensors
    /tmp/venv/bin/python bench/compare/accuracy.py gpt --text out/bible.txt [--seeds 1,2,3]
    /tmp/venv/bin/python bench/compare/accuracy.py resnet [--steps 250] [--images FOLDER]
    /tmp/venv/bin/python bench/compare/accuracy.py vit [--acan build/release/bin/acan]

gpt is nanoGPT's recipe for CPUs. PyTorch trains as nanoGPT does, with its own initial weights and
windows at random places of the text. acan draws both in its own way (docs/numerics.md). Both are
tested with all windows of the text's last tenth. The exit code is 1 if acan's mean loss over the
seeds exceeds PyTorch's by more than 0.02.

resnet and vit train on Fashion-MNIST (Debian's dataset-fashion-mnist) from the weights of acan's
version 0, on the same batches in the same order, so only rounding differs. The exit code is 1 if
acan's mean accuracy is more than 0.5 points lower than PyTorch's.

Each of acan's models is also loaded into PyTorch's class and tested there. The report has every
run and the means, as JSON.
"""
import argparse
import gzip
import json
import math
import pathlib
import platform
import random
import struct
import subprocess
import sys
import tempfile

from acan_run import NO_EVALUATION, write_report
from nets import make_gpt, make_resnet, make_vit, torch_state

ALLOWED = dict(gpt=0.02, resnet=0.5, vit=0.5)  # loss; points of accuracy
FINAL_FRACTION = 0.1
GPT = dict(layers=4, heads=4, width=128, tokens=64, batch=12, learning_rate=1e-3, warmup=100,
           clip=1.0, decay=0.1, betas=(0.9, 0.99))
RESNET = dict(widths=[16, 32, 64], blocks=[3, 3, 3], batch=128, learning_rate=0.1, warmup=20,
              momentum=0.9, decay=5e-4)
VIT = dict(patch=4, layers=6, heads=4, width=128, mlp=512, batch=128, learning_rate=1e-3,
           warmup=50, decay=0.05)
SIDE, CLASSES = 28, 10


def rate_at(step, steps, recipe):
    """The learning rate, as train.schedule = "cosine" defines it."""
    if step < recipe["warmup"]:
        return recipe["learning_rate"] * (step + 1) / recipe["warmup"]
    progress = (step - recipe["warmup"]) / (steps - recipe["warmup"])
    share = (1 + math.cos(math.pi * progress)) / 2
    return recipe["learning_rate"] * (FINAL_FRACTION + (1 - FINAL_FRACTION) * share)


# ---- acan ----------------------------------------------------------------------------------------

def common_text(recipe, seed, steps):
    return f"""[train]
seed = {seed}
steps = {steps}
batch = {recipe["batch"]}
learning_rate = {recipe["learning_rate"]}
weight_decay = {recipe["decay"]}
schedule = "cosine"
warmup_steps = {recipe["warmup"]}
final_fraction = {FINAL_FRACTION}
{NO_EVALUATION}
"""


def run_acan(arguments, job, folder, name):
    """Returns the receipt, and the model with the names and layout of PyTorch's classes."""
    path, out = folder / f"{name}.toml", folder / name
    path.write_text(job)
    done = subprocess.run([arguments.acan, "train", path, "--out", out, "--handlers",
                           arguments.handlers], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode != 0:
        sys.exit(f"acan failed: {done.stderr}")
    return json.loads((out / "receipt.json").read_text()), torch_state(out / "model.safetensors")


# ---- the GPT -------------------------------------------------------------------------------------

def gpt_job(arguments, seed):
    return f"""[model]
kind = "gpt"
n_layer = {GPT["layers"]}
n_head = {GPT["heads"]}
n_embd = {GPT["width"]}
block_size = {GPT["tokens"]}
vocab_size = 64
bias = false
[data]
text = "{arguments.text.resolve()}"
{common_text(GPT, seed, arguments.steps)}optimizer = "adamw"
beta2 = {GPT["betas"][1]}
clip_norm = {GPT["clip"]}
decay = "matrices"
"""


def token_streams(path):
    """The tokens for training and for testing, split as acan splits data.text."""
    import torch
    text = path.read_text()
    numbers = {each: i for i, each in enumerate(sorted(set(text)))}
    train = math.floor(len(text) * (1 - 0.1))
    stream = torch.tensor([numbers[each] for each in text])
    return stream[:train], stream[train:]


def test_gpt(net, stream):
    """The mean loss over all windows."""
    import torch
    length = GPT["tokens"]
    windows = (len(stream) - length) // length
    tokens = stream[:windows * length].view(windows, length)
    labels = stream[1:1 + windows * length].view(windows, length)
    with torch.no_grad():
        sums = [net(tokens[i:i + 64], labels[i:i + 64]).item() * len(tokens[i:i + 64])
                for i in range(0, windows, 64)]
    return sum(sums) / windows


def train_gpt(net, stream, steps):
    import torch
    matrices = [each for each in net.parameters() if each.dim() > 1]
    others = [each for each in net.parameters() if each.dim() == 1]
    optimizer = torch.optim.AdamW([dict(params=matrices, weight_decay=GPT["decay"]),
                                   dict(params=others, weight_decay=0.0)], betas=GPT["betas"])
    length = GPT["tokens"]
    for step in range(steps):
        places = torch.randint(len(stream) - length, (GPT["batch"],))
        tokens = torch.stack([stream[i:i + length] for i in places])
        labels = torch.stack([stream[i + 1:i + 1 + length] for i in places])
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, steps, GPT)
        optimizer.zero_grad()
        net(tokens, labels).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), GPT["clip"])
        optimizer.step()


def compare_gpt(arguments, seed, folder):
    import torch
    receipt, ours = run_acan(arguments, gpt_job(arguments, seed), folder, f"gpt-{seed}")
    train, test = token_streams(arguments.text)
    net = make_gpt(GPT, 64, bias=False)
    net.load_state_dict(ours, strict=True)
    in_torch = test_gpt(net, test)
    torch.manual_seed(seed)
    net = make_gpt(GPT, 64, bias=False)
    train_gpt(net, train, arguments.steps)
    return dict(seed=seed, acan=receipt["test_loss"], acan_model_in_torch=in_torch,
                torch=test_gpt(net, test), weights_sha256=receipt["weights_sha256"])


# ---- images --------------------------------------------------------------------------------------

def read_idx(path):
    """The bytes of a packed IDX file after its header, and their shape."""
    packed = gzip.decompress(path.read_bytes())
    dimensions = packed[3]
    shape = struct.unpack_from(f">{dimensions}I", packed, 4)
    return packed[4 + 4 * dimensions:], shape


def write_idx(path, values, shape):
    header = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    path.write_bytes(header + values)


def write_shuffled(arguments, seed, folder):
    """Writes the training samples in a different order for each seed."""
    images, shape = read_idx(arguments.images / "train-images-idx3-ubyte.gz")
    labels, _ = read_idx(arguments.images / "train-labels-idx1-ubyte.gz")
    order = list(range(shape[0]))
    random.Random(seed).shuffle(order)
    size = SIDE * SIDE
    images = b"".join(images[i * size:(i + 1) * size] for i in order)
    labels = bytes(labels[i] for i in order)
    write_idx(folder / "images.idx", images, shape)
    write_idx(folder / "labels.idx", labels, shape[:1])
    return tensors(images, labels)


def tensors(images, labels):
    import torch
    pixels = torch.frombuffer(bytearray(images), dtype=torch.uint8)
    return (pixels.view(-1, 1, SIDE, SIDE).float() / 255,
            torch.frombuffer(bytearray(labels), dtype=torch.uint8).long())


def image_job(arguments, seed, steps, folder):
    if arguments.model == "resnet":
        recipe = RESNET
        model = f"""kind = "resnet"
widths = {RESNET["widths"]}
blocks = {RESNET["blocks"]}
stem = "small"
"""
        rule = f'optimizer = "momentum"\nmomentum = {RESNET["momentum"]}\n'
    else:
        recipe = VIT
        model = f"""kind = "vit"
patch_size = {VIT["patch"]}
num_layers = {VIT["layers"]}
num_heads = {VIT["heads"]}
hidden_dim = {VIT["width"]}
mlp_dim = {VIT["mlp"]}
"""
        rule = 'optimizer = "adamw"\n'
    test = ""
    if steps > 0:
        test = f"""test_inputs = "{arguments.images.resolve()}/t10k-images-idx3-ubyte.gz"
test_labels = "{arguments.images.resolve()}/t10k-labels-idx1-ubyte.gz"
"""
    return f"""[model]
{model}image_size = {SIDE}
channels = 1
num_classes = {CLASSES}
[data]
shuffle = false
train_inputs = "{folder}/images.idx"
train_labels = "{folder}/labels.idx"
{test}{common_text(recipe, seed, steps)}{rule}"""


def make_net(kind):
    if kind == "resnet":
        return make_resnet(RESNET["widths"], RESNET["blocks"], 1, CLASSES)
    return make_vit(SIDE, VIT["patch"], VIT["layers"], VIT["heads"], VIT["width"], VIT["mlp"], 1,
                    CLASSES)


def net_of(kind, state):
    net = make_net(kind)
    net.load_state_dict(state, strict=True)
    return net


def train_images(kind, net, images, labels, steps):
    import torch
    if kind == "resnet":
        recipe = RESNET
        optimizer = torch.optim.SGD(net.parameters(), momentum=RESNET["momentum"],
                                    weight_decay=RESNET["decay"])
    else:
        recipe = VIT
        optimizer = torch.optim.AdamW(net.parameters(), weight_decay=VIT["decay"])
    batch = recipe["batch"]
    if steps * batch > len(images):
        sys.exit(f"{steps} steps are more than an epoch")
    net.train()
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate_at(step, steps, recipe)
        optimizer.zero_grad()
        part = slice(step * batch, (step + 1) * batch)
        torch.nn.functional.cross_entropy(net(images[part]), labels[part]).backward()
        optimizer.step()


def accuracy(net, images, labels):
    """The accuracy in percent."""
    import torch
    net.eval()
    with torch.no_grad():
        right = sum((net(images[i:i + 500]).argmax(1) == labels[i:i + 500]).sum().item()
                    for i in range(0, len(images), 500))
    return 100 * right / len(images)


def compare_images(arguments, seed, folder):
    images, labels = write_shuffled(arguments, seed, folder)
    test = tensors(*(read_idx(arguments.images / f"t10k-{name}-ubyte.gz")[0]
                     for name in ("images-idx3", "labels-idx1")))
    _, start = run_acan(arguments, image_job(arguments, seed, 0, folder), folder, f"start-{seed}")
    receipt, ours = run_acan(arguments, image_job(arguments, seed, arguments.steps, folder), folder,
                             f"end-{seed}")
    net = net_of(arguments.model, start)
    train_images(arguments.model, net, images, labels, arguments.steps)
    return dict(seed=seed, acan=100 * receipt["test_accuracy"],
                acan_model_in_torch=accuracy(net_of(arguments.model, ours), *test),
                torch=accuracy(net, *test), weights_sha256=receipt["weights_sha256"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["gpt", "resnet", "vit"])
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--text", type=pathlib.Path, help="the text that gpt trains on")
    parser.add_argument("--images", type=pathlib.Path,
                        default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, help="default: 2000; of images 250")
    parser.add_argument("--handlers", default="2xcpu:1")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--json", help="write the report here, in place of stdout")
    arguments = parser.parse_args()
    if arguments.model == "gpt" and not arguments.text:
        parser.error("--text is missing: gpt trains on a text")
    if arguments.steps is None:
        arguments.steps = 2000 if arguments.model == "gpt" else 250
    import torch
    torch.set_num_threads(arguments.threads)
    compare = compare_gpt if arguments.model == "gpt" else compare_images
    recipe = dict(gpt=GPT, resnet=RESNET, vit=VIT)[arguments.model]
    runs = []
    for seed in map(int, arguments.seeds.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(compare(arguments, seed, pathlib.Path(folder)))
        print(runs[-1], file=sys.stderr, flush=True)
    means = {who: sum(run[who] for run in runs) / len(runs)
             for who in ("acan", "acan_model_in_torch", "torch")}
    worse = means["acan"] - means["torch"]
    if arguments.model != "gpt":
        worse = -worse
    write_report(dict(model=arguments.model, torch=torch.__version__, recipe=recipe,
                      steps=arguments.steps, unit="loss" if arguments.model == "gpt" else "%",
                      machine=platform.processor() or platform.machine(), runs=runs, means=means,
                      good=worse <= ALLOWED[arguments.model]), arguments.json)
    return 0 if worse <= ALLOWED[arguments.model] else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""acan's kernels against PyTorch's, float32 on one core, and prints JSON: for each kernel the median over the rounds
of acan's time over PyTorch's in the same round (below 1: acan is faster), with both times in ns an element.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy
    cmake --build build/release --target kernel_times
    /tmp/venv/bin/python bench/compare/kernels.py --times build/release/bin/kernel_times [--rounds 7] [--json FILE]

In each round kernel_times and a process of PyTorch run one after the other, in alternating order; each takes the
fastest of --runs runs of every kernel. PyTorch's results go to tensors that are there where it takes them (out=), and
backward passes are its own backward operators. Elements: rows x columns; of a table's gradient, the table's.
"""
import argparse
import json
import subprocess
import sys
import time

from acan_run import summary, write_report

WORDS = 32000
EDGE, GROUPS, WINDOW = 16, 32, 7


def torch_cases(rows, cols):
    import torch
    import torch.nn.functional as F
    aten = torch.ops.aten
    torch.manual_seed(1)
    make = lambda *shape: torch.rand(*shape) * 4 - 2
    x, y, z, out = make(rows, cols), make(rows, cols), make(rows, cols), make(rows, cols)
    scale, bias, table = make(cols), make(cols), make(WORDS, cols)
    index, labels = torch.randint(WORDS, (rows,)), torch.randint(cols, (rows,))
    heads = x.view(rows, cols // 64, 64)
    angles = torch.rand(rows, 1, 32)
    cosine, sine = torch.cat((angles.cos(), angles.cos()), -1), torch.cat((angles.sin(), angles.sin()), -1)
    _, mean, inverse = aten.native_layer_norm(x, [cols], scale, bias, 1e-5)
    with_gradient = x.clone().requires_grad_()

    def swiglu_backward():
        silu = F.silu(x)
        return aten.silu_backward(z * y, x), z * silu

    def rms_norm_backward():
        h = x * inverse
        g = y * scale
        return (g - h * (g * h).mean(1, keepdim=True)) * inverse, (y * h).sum(0)

    def cross_entropy():
        with_gradient.grad = None
        F.cross_entropy(with_gradient, labels).backward()

    # Images of EDGE x EDGE pixels; channels are the last dimension in memory, as in acan.
    samples, pixels = rows // EDGE ** 2, EDGE ** 2
    image = lambda of: of[:samples * pixels].view(samples, EDGE, EDGE, cols).permute(0, 3, 1, 2)
    images, d_images, image_out = image(x), image(y), image(out)
    pooled = make(samples, cols)
    taps = make(cols, 1, WINDOW, WINDOW)
    group_sizes = (samples, cols, pixels, GROUPS)
    _, group_mean, group_inverse = aten.native_group_norm(images, scale, bias, *group_sizes, 1e-5)
    padding = [WINDOW // 2, WINDOW // 2]

    return {
        "identity": lambda: out.copy_(x),
        "identity backward": lambda: out.copy_(x),
        "relu": lambda: torch.clamp_min(x, 0, out=out),
        "relu backward": lambda: aten.threshold_backward(y, x, 0),
        "clipped_relu": lambda: aten.hardtanh(x, 0, 6, out=out),
        "clipped_relu backward": lambda: aten.hardtanh_backward(y, x, 0, 6),
        "tanh": lambda: torch.tanh(x, out=out),
        "tanh backward": lambda: aten.tanh_backward(y, x),
        "sigmoid": lambda: torch.sigmoid(x, out=out),
        "sigmoid backward": lambda: aten.sigmoid_backward(y, x),
        "gelu": lambda: torch._C._nn.gelu(x, out=out),
        "gelu backward": lambda: aten.gelu_backward(y, x),
        "gelu_tanh": lambda: torch._C._nn.gelu(x, approximate="tanh", out=out),
        "gelu_tanh backward": lambda: aten.gelu_backward(y, x, approximate="tanh"),
        "silu": lambda: torch._C._nn.silu(x, out=out),
        "silu backward": lambda: aten.silu_backward(y, x),
        "multiply": lambda: torch.mul(x, y, out=out),
        "swiglu": lambda: torch.mul(F.silu(x), y, out=out),
        "swiglu backward": swiglu_backward,
        "dropout": lambda: F.dropout(x, 0.1, True),
        "layer norm": lambda: aten.native_layer_norm(x, [cols], scale, bias, 1e-5),
        "layer norm backward": lambda: aten.native_layer_norm_backward(y, x, [cols], mean, inverse, scale, bias,
                                                                       [True, True, True]),
        "rms norm": lambda: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) * scale,
        "rms norm backward": rms_norm_backward,
        "column sums": lambda: y.sum(0),
        "squares": lambda: torch.linalg.vector_norm(x, dim=1),
        "rotary": lambda: heads * cosine + torch.cat((-heads[..., 32:], heads[..., :32]), -1) * sine,
        "embedding": lambda: F.embedding(index, table),
        "embedding backward": lambda: aten.embedding_dense_backward(x, index, WORDS, -1, False),
        "group norm": lambda: aten.native_group_norm(images, scale, bias, *group_sizes, 1e-5),
        "group norm backward": lambda: aten.native_group_norm_backward(
            d_images, images, group_mean, group_inverse, scale, *group_sizes, [True, True, True]),
        "global average": lambda: images.mean((2, 3)),
        "global maximum": lambda: images.amax((2, 3)),
        "global average backward": lambda: image_out.copy_((pooled / pixels)[:, :, None, None].expand_as(images)),
        "depthwise": lambda: F.conv2d(images, taps, padding=padding, groups=cols),
        "depthwise backward": lambda: aten.convolution_backward(
            d_images, images, taps, None, [1, 1], padding, [1, 1], False, [0, 0], cols, [True, True, False]),
        "bias residual": lambda: torch.add(x + bias, y, out=out),
        "cross entropy": cross_entropy,
        "softmax cross entropy": cross_entropy,
    }


def torch_times(rows, cols, runs, part):
    import torch
    torch.set_num_threads(1)
    times = {}
    for name, run in torch_cases(rows, cols).items():
        if part not in name:
            continue
        run()
        times[name] = float("inf")
        for _ in range(runs):
            begin = time.perf_counter()
            run()
            times[name] = min(times[name], time.perf_counter() - begin)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", default="build/release/bin/kernel_times")
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--columns", type=int, default=768)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--part", default="", help="only kernels whose names contain it")
    parser.add_argument("--json")
    parser.add_argument("--torch", action="store_true", help="prints the times of PyTorch alone")
    arguments = parser.parse_args()
    size = [str(arguments.rows), str(arguments.columns)]
    if arguments.torch:
        print(json.dumps(torch_times(arguments.rows, arguments.columns, arguments.runs, arguments.part)))
        return
    commands = {"acan": [arguments.times, *size, str(arguments.runs), arguments.part],
                "torch": [sys.executable, __file__, "--torch", "--rows", size[0], "--columns", size[1], "--runs",
                          str(arguments.runs), "--part", arguments.part]}
    rounds = {"acan": [], "torch": []}
    for number in range(arguments.rounds):
        for which in ["acan", "torch"] if number % 2 == 0 else ["torch", "acan"]:
            rounds[which].append(json.loads(subprocess.run(commands[which], check=True, capture_output=True).stdout))
    report = dict(rows=arguments.rows, columns=arguments.columns, kernels={})
    for name in rounds["torch"][0]:
        elements = arguments.columns * (WORDS if name == "embedding backward" else arguments.rows)
        per_element = {which: summary([1e9 * each[name] / elements for each in times])["median"]
                       for which, times in rounds.items()}
        ratio = summary([a[name] / t[name] for a, t in zip(rounds["acan"], rounds["torch"])])
        report["kernels"][name] = dict(ratio=ratio, ns_per_element=per_element)
    write_report(report, arguments.json)


if __name__ == "__main__":
    main()

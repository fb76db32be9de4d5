#!/usr/bin/env python3
"""Compares acan's kernels with PyTorch's, float32 on one core, run alternately. Prints JSON: for
each kernel the ratio of acan's time to PyTorch's in the same round (below 1: acan is faster), and
both times in microseconds.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy
    cmake --build build/release --target kernel_times
    taskset -c 0 /tmp/venv/bin/python bench/compare/kernels.py [--isa avx2] [--json FILE]

In each round both run one kernel one after the other; they alternate in who begins. Each takes the
processor time of the fastest of --runs runs. --isa avx2 also limits PyTorch and its libraries to
AVX2. PyTorch's results go to existing tensors where it supports that (out=). For the others, malloc
keeps the memory, so that no page is fresh. Backward passes are PyTorch's own backward operators.
Images are channels last, as in acan.
"""
import argparse
import os
import platform
import subprocess
import sys
import time

from acan_run import summary, write_report

WORDS = 32000
EDGE, GROUPS, WINDOW = 16, 32, 7
IMAGES, SIDE, CHANNELS = 8, 32, 64
KEPT_MEMORY = dict(MALLOC_MMAP_THRESHOLD_=str(1 << 30), MALLOC_TRIM_THRESHOLD_=str(1 << 40))


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
    transposed = make(cols, rows)
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
        "add": lambda: torch.add(x, y, out=out),
        "multiply": lambda: torch.mul(x, y, out=out),
        "scale": lambda: torch.mul(x, 0.5, out=out),
        "fill": lambda: out.fill_(0.5),
        "transpose": lambda: transposed.copy_(x.t()),
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
        "bias residual": lambda: torch.add(x + bias, y, out=out),
        "cross entropy": cross_entropy,
        "softmax cross entropy": cross_entropy,
    }


def image_cases(rows, cols):
    """Images have EDGE x EDGE pixels; channels are the last dimension in memory."""
    import torch
    import torch.nn.functional as F
    aten = torch.ops.aten
    samples, pixels = rows // EDGE ** 2, EDGE ** 2

    def make(edge, number=samples, channels=cols):
        return (torch.rand(number, edge, edge, channels) * 4 - 2).permute(0, 3, 1, 2)

    images, d_images, image_out, d_halved = make(EDGE), make(EDGE), make(EDGE), make(EDGE // 2)
    pooled, scale, bias = torch.rand(samples, cols), torch.rand(cols), torch.rand(cols)
    taps = torch.rand(cols, 1, WINDOW, WINDOW)
    group_sizes = (samples, cols, pixels, GROUPS)
    _, group_mean, group_inverse = aten.native_group_norm(images, scale, bias, *group_sizes, 1e-5)
    padding = [WINDOW // 2, WINDOW // 2]
    mean, variance = torch.zeros(cols), torch.ones(cols)
    _, batch_mean, batch_inverse = aten.native_batch_norm(images, scale, bias, mean, variance, True, 0.1, 1e-5)
    _, indices = aten.max_pool2d_with_indices(images, [3, 3], [2, 2], [1, 1])
    pictures, d_pictures = make(SIDE, IMAGES, CHANNELS), make(SIDE, IMAGES, CHANNELS)
    weight = torch.rand(CHANNELS, CHANNELS, 3, 3).contiguous(memory_format=torch.channels_last)
    unfolded = F.unfold(pictures, 3, padding=1)
    depthwise, full = [[1, 1], padding, [1, 1], False, [0, 0], cols], [[1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    return {
        "group norm": lambda: aten.native_group_norm(images, scale, bias, *group_sizes, 1e-5),
        "group norm backward": lambda: aten.native_group_norm_backward(
            d_images, images, group_mean, group_inverse, scale, *group_sizes, [True, True, True]),
        "batch norm": lambda: aten.native_batch_norm(images, scale, bias, mean, variance, True, 0.1, 1e-5),
        "batch norm backward": lambda: aten.native_batch_norm_backward(
            d_images, images, scale, mean, variance, batch_mean, batch_inverse, True, 1e-5, [True, True, True]),
        "global average": lambda: images.mean((2, 3)),
        "global maximum": lambda: images.amax((2, 3)),
        "global average backward": lambda: image_out.copy_((pooled / pixels)[:, :, None, None].expand_as(images)),
        "maximum pooling": lambda: aten.max_pool2d_with_indices(images, [3, 3], [2, 2], [1, 1]),
        "maximum pooling backward": lambda: aten.max_pool2d_with_indices_backward(
            d_halved, images, [3, 3], [2, 2], [1, 1], [1, 1], False, indices),
        "average pooling": lambda: aten.avg_pool2d(images, [2, 2], [2, 2]),
        "average pooling backward": lambda: aten.avg_pool2d_backward(
            d_halved, images, [2, 2], [2, 2], [0, 0], False, True, None),
        "depthwise": lambda: F.conv2d(images, taps, padding=padding, groups=cols),
        "depthwise backward": lambda: aten.convolution_backward(d_images, images, taps, None, *depthwise,
                                                                [True, True, False]),
        "unfold": lambda: F.unfold(pictures, 3, padding=1),
        "fold": lambda: F.fold(unfolded, (SIDE, SIDE), 3, padding=1),
        "convolution": lambda: F.conv2d(pictures, weight, padding=1),
        "convolution backward": lambda: aten.convolution_backward(d_pictures, pictures, weight, None, *full,
                                                                  [True, True, False]),
    }


def optimizer_cases(rows, cols):
    import torch
    w, g, m, v = (torch.rand(rows, cols) for _ in range(4))
    step = torch.ones(())
    rates = dict(lr=1e-6, weight_decay=0.01, maximize=False, grad_scale=None, found_inf=None)
    sgd = dict(nesterov=False, dampening=0.0, is_first_step=False, **rates)
    return {
        "sgd": lambda: torch._fused_sgd_([w], [g], [], momentum=0.0, **sgd),
        "momentum": lambda: torch._fused_sgd_([w], [g], [m], momentum=0.9, **sgd),
        "adamw": lambda: torch._fused_adamw_([w], [g], [m], [v], [], [step], beta1=0.9, beta2=0.999, eps=1e-8,
                                             amsgrad=False, **rates),
    }


class Torch:
    def __init__(self, rows, cols, runs):
        import torch
        torch.set_num_threads(1)
        self.cases = {**torch_cases(rows, cols), **optimizer_cases(rows, cols), **image_cases(rows, cols)}
        self.runs = runs

    def seconds(self, name):
        run, best = self.cases[name], float("inf")
        run()
        for _ in range(self.runs):
            begin = time.process_time()
            run()
            best = min(best, time.process_time() - begin)
        return best


class Acan:
    def __init__(self, program, isa, rows, cols, runs):
        words = [program, isa, *map(str, (rows, cols, runs))]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("kernel_times failed")
        return float(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(name, peers, rounds):
    times = {who: [] for who in peers}
    for number in range(rounds):
        for who in peers if number % 2 == 0 else reversed(peers):
            times[who].append(peers[who].seconds(name))
    ratio = summary([a / b for a, b in zip(times["acan"], times["torch"])])
    print(f"{name:26} {ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f})", file=sys.stderr)
    return dict(ratio=ratio, microseconds={who: 1e6 * summary(values)["median"] for who, values in times.items()})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", default="build/release/bin/kernel_times")
    parser.add_argument("--isa", default="avx512", choices=["avx512", "avx2", "portable"])
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--columns", type=int, default=768)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--part", default="", help="only kernels whose names contain it")
    parser.add_argument("--json", help="write the report here, in place of stdout")
    arguments = parser.parse_args()
    wanted = dict(KEPT_MEMORY)
    if arguments.isa != "avx512":
        wanted.update(ATEN_CPU_CAPABILITY="avx2", MKL_ENABLE_INSTRUCTIONS="AVX2", ONEDNN_MAX_CPU_ISA="AVX2")
    if any(os.environ.get(key) != value for key, value in wanted.items()):  # they are read at the start
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    import torch
    size = (arguments.rows, arguments.columns, arguments.runs)
    peers = dict(acan=Acan(arguments.times, arguments.isa, *size), torch=Torch(*size))
    names = [name for name in peers["torch"].cases if arguments.part in name]
    report = dict(isa=arguments.isa, machine=platform.processor() or platform.machine(),
                  versions=dict(python=platform.python_version(), torch=torch.__version__), rows=arguments.rows,
                  columns=arguments.columns, rounds=arguments.rounds,
                  kernels={name: measure(name, peers, arguments.rounds) for name in names})
    peers["acan"].close()
    write_report(report, arguments.json)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares exact attention with PyTorch's scaled_dot_product_attention in float32 on one thread.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy
    cmake --build --preset release --target attention_loop
    /tmp/venv/bin/python bench/compare/attention.py [--isa avx2] [--rounds 21] [--json FILE]

In each round both compute one forward and one backward pass of each shape, one after the other;
they alternate in who begins. The ratio is PyTorch's processor time over acan's in the same round.
--isa avx2 also limits PyTorch and its libraries to AVX2. PyTorch gets each head's rows
contiguously, which is its fastest layout; acan has the heads side by side in a row, as the layers
before and after attention need them. PyTorch's backward pass is autograd's, without the sum of a
loss.
"""
import argparse
import os
import platform
import subprocess
import sys
import time

from acan_run import summary, write_report

# sequences, positions, heads, width
SHAPES = {
    "256 positions, width 64": (4, 256, 12, 64),
    "64 positions, width 32": (32, 64, 12, 32),
    "1024 positions, width 64": (1, 1024, 12, 64),
    "256 positions, width 128": (4, 256, 6, 128),
}
WARM_ROUNDS = 2


class Torch:
    def __init__(self, shape, causal):
        import torch
        torch.set_num_threads(1)
        torch.manual_seed(1)
        sequences, positions, heads, width = shape
        self.attend = torch.nn.functional.scaled_dot_product_attention
        self.causal = causal
        size = (sequences, heads, positions, width)
        self.operands = [(3.4 * torch.rand(size) - 1.7).requires_grad_() for _ in range(3)]
        self.gradient = torch.rand(size)

    def round(self):
        for each in self.operands:
            each.grad = None
        begin = time.process_time()
        out = self.attend(*self.operands, is_causal=self.causal)
        middle = time.process_time()
        out.backward(self.gradient)
        return middle - begin, time.process_time() - middle


class Acan:
    def __init__(self, program, isa, shape, causal):
        words = [program, isa, *map(str, shape), str(int(causal))]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("attention_loop failed")
        return tuple(map(float, line.split()))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure_shape(name, shape, causal, arguments):
    torch, acan = Torch(shape, causal), Acan(arguments.program, arguments.isa, shape, causal)
    times = {"torch": [], "acan": []}
    for number in range(WARM_ROUNDS + arguments.rounds):
        order = [("torch", torch), ("acan", acan)]
        for who, peer in order if number % 2 == 0 else reversed(order):
            seconds = peer.round()
            if number >= WARM_ROUNDS:
                times[who].append(seconds)
    acan.close()
    report = dict(shape=dict(zip(("sequences", "positions", "heads", "width"), shape)), causal=causal)
    for index, which in enumerate(("forward", "backward")):
        ratios = summary([a[index] / b[index] for a, b in zip(times["torch"], times["acan"])])
        report[which] = dict(ratio=ratios, seconds={who: summary([each[index] for each in values])
                                                    for who, values in times.items()})
        print(f"{name:26} {'causal' if causal else 'full':6} {which:8} {ratios['median']:.2f}"
              f" ({ratios['least']:.2f} to {ratios['most']:.2f})", file=sys.stderr)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/attention_loop")
    parser.add_argument("--isa", default="avx512", choices=["avx512", "avx2", "portable"])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--shapes", action="append", choices=list(SHAPES))
    parser.add_argument("--json", help="write the report here, in place of stdout")
    arguments = parser.parse_args()
    if arguments.isa != "avx512":  # read when torch is imported
        os.environ.update(ATEN_CPU_CAPABILITY="avx2", MKL_ENABLE_INSTRUCTIONS="AVX2", ONEDNN_MAX_CPU_ISA="AVX2")
    import torch
    report = dict(isa=arguments.isa, machine=platform.processor() or platform.machine(),
                  versions=dict(python=platform.python_version(), torch=torch.__version__), shapes=[])
    for name in arguments.shapes or SHAPES:
        for causal in (True, False):
            report["shapes"].append(dict(name=name, **measure_shape(name, SHAPES[name], causal, arguments)))
    write_report(report, arguments.json)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares exact attention on a GPU with PyTorch's scaled_dot_product_attention in float32.

    build/release/bin/gpu_bench --out gpu_bench.json
    python3 bench/compare/gpu_attention.py gpu_bench.json [--rounds 5] [--json FILE]

gpu_bench has timed kAttention and kAttentionGradient for one causal sequence, with heads side by
side in a row. Here PyTorch computes the same passes on the first GPU, with TF32 off (the default).
It gets each head's rows contiguously, which is its fastest layout. Its backward pass is autograd's,
without the sum of a loss. The ratio is PyTorch's median time over acan's. The programs do not take
turns, so run this soon after gpu_bench, on a GPU that does nothing else.
"""
import argparse
import json
import pathlib
import sys
import time

import torch
from acan_run import summary, write_report

WIDTH = 64  # of a head, as in bench/devices/kernel_probes.cpp
LEAST_SECONDS = 0.02  # of one timing, as in gpu_bench
PASSES = dict(kAttention="forward", kAttentionGradient="backward")


def acan_us(kernels):
    """{(positions, heads): {pass: microseconds}}"""
    found = {}
    for each in kernels:
        if each["kernel"] in PASSES:
            times = found.setdefault((each["rows"], each["cols"] // WIDTH), {})
            times[PASSES[each["kernel"]]] = each["us"]
    return found


def microseconds(call, rounds):
    def of_one(calls):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / calls

    of_one(1)
    calls = max(1, int(LEAST_SECONDS / of_one(1)))
    return summary([1e6 * of_one(calls) for _ in range(rounds)])


def compare(positions, heads, ours, rounds):
    attend = torch.nn.functional.scaled_dot_product_attention
    q, k, v, d_out = (torch.rand(1, heads, positions, WIDTH, device="cuda") for _ in range(4))
    operands = [each.requires_grad_() for each in (q, k, v)]
    out = attend(*operands, is_causal=True)
    calls = dict(forward=lambda: attend(*operands, is_causal=True),
                 backward=lambda: torch.autograd.grad(out, operands, d_out, retain_graph=True))
    theirs = {which: microseconds(calls[which], rounds) for which in ours}
    return {which: dict(ratio=theirs[which]["median"] / us, acan_us=us, torch_us=theirs[which])
            for which, us in ours.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("measured", type=pathlib.Path, help="the report of gpu_bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the report here, in place of stdout")
    arguments = parser.parse_args()
    found = acan_us(json.loads(arguments.measured.read_text())["kernels"])
    if not found:
        sys.exit(f"{arguments.measured} has no attention, as with --quick or if time ran out")
    shapes = [dict(positions=shape[0], heads=shape[1], width=WIDTH, causal=True,
                   **compare(*shape, ours, arguments.rounds)) for shape, ours in found.items()]
    write_report(dict(device=torch.cuda.get_device_name(), torch=torch.__version__, shapes=shapes),
                 arguments.json)


if __name__ == "__main__":
    main()

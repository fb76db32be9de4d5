#!/usr/bin/env python3
"""Reads the code that nvcc and ptxas generate from the CUDA backend's kernels.

    cuda_code_test.py COMPILE_COMMANDS PTXAS FOLDER

For each kernel and each architecture of the build:

- Every floating-point operation rounds to nearest: add, sub, mul and fma are `.rn` (ptxas may fuse others, so the bits
  would depend on it), div and sqrt too, and none is `.ftz`, `.approx` or `.full`.
- No registers are spilled, except by the kernels in SPILLS, which spill no more than listed there.
- Attention's tiles load their operands into shared memory on each architecture, with or without asynchronous copies.
- A block of the launch fits: its registers, and as many blocks per multiprocessor as the kernel requests, with their
  shared memory.

`SelfTest` compiles a kernel with flags that break the first rule, and shows that each rule finds a planted error.
FOLDER is for intermediate files.
Exit code 1 if something is wrong. Needs no GPU.
"""
import concurrent.futures
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

# Known bytes of spill stores, by kernel and architecture (0: every architecture). docs/decisions.md
# says where they occur: in "Attention in CUDA has kernels of its own" for attention, and in "Exact
# products in CUDA have a source of their own" for products.
# Another release of nvcc may spill elsewhere, so the test compares them for this release only.
SPILLS_OF = "release 13."
SPILLS = {("AttentionKernel<8, 1>", 0): 132,
          ("AttentionKernel<4, 1>", 0): 32,
          ("AttentionKernel<4, 2>", 0): 280,
          ("AttentionKeyGradientKernel<8, 1>", 0): 108,
          ("AttentionKeyGradientKernel<4, 1>", 0): 24,
          ("AttentionKeyGradientKernel<4, 2>", 0): 152,
          ("AttentionQueryGradientKernel<8, 1>", 0): 64,
          ("AttentionQueryGradientKernel<8, 1>", 75): 156,
          ("AttentionQueryGradientKernel<4, 1>", 0): 4,
          ("AttentionQueryGradientKernel<4, 1>", 75): 20,
          ("AttentionQueryGradientKernel<4, 2>", 0): 104,
          ("AttentionQueryGradientKernel<4, 2>", 75): 368,
          ("GemmKernel<false, false, false> of 128", 0): 72,
          ("GemmKernel<true, false, true> of 128", 0): 44,
          ("GemmKernel<true, false, false> of 128", 120): 16,
          ("GemmKernel<true, true, true> of 128", 120): 16,
          ("RingKernel<false, false, false> of 128", 0): 180,
          ("RingKernel<false, false, false> of 128", 100): 196,
          ("RingKernel<true, true, true> of 128", 120): 20,
          ("RingKernel<true, false, true> of 128", 0): 8,
          ("RingKernel<true, false, true> of 128", 120): 88,
          ("RingKernel<true, false, false> of 128", 0): 8,
          ("RingKernel<true, false, false> of 128", 120): 108}

# Kernels without launch bounds are launched by launch.cu; see MostThreads in kernel_args.h, and
# shared_columns.h.
LAUNCH_THREADS = re.compile(r"constexpr int (k\w+Threads) = (\d+);")
SHARED_BY_A_BLOCK = re.compile(r"bool (?:Is(Row)OfABlock|HasShared(Column)s)\(.*?return true;", re.DOTALL)
REGISTERS = 64 * 1024  # per multiprocessor, on every architecture from sm_50 on
REGISTER_STEP = 8
STATIC_SHARED_BYTES = 48 * 1024
SHARED_BYTES = {75: 64 * 1024, 80: 164 * 1024, 86: 100 * 1024, 89: 100 * 1024, 90: 228 * 1024}
LEAST_SHARED_BYTES = 64 * 1024  # for an architecture that is not listed

FLOAT = re.compile(r"^\s*(?:@!?%\w+\s+)?((?:add|sub|mul|fma|mad|div|sqrt|rcp|rsqrt|ex2|lg2|sin|cos|"
                   r"tanh)[a-z0-9.]*\.f(?:16|32|64)\w*)", re.MULTILINE)
ENTRY = re.compile(r"^(?:\.visible )?\.entry (\w+)\(", re.MULTILINE)


def wrong_operations(ptx):
    """The float operations that do not round to nearest, without duplicates."""
    return sorted({op for op in FLOAT.findall(ptx)
                   if ".rn" not in op or any(part in op for part in (".ftz", ".approx", ".full"))})


def short_name(mangled, source):
    """A name that does not depend on the folder in which nvcc ran."""
    if launched := re.search(r"\d+Run_(k[A-Za-z0-9]+?)ENS", mangled):
        return launched.group(1)
    if attention := re.search(r"(Attention\w*?Kernel)ILi(\d)E(?:Li(\d)E)?", mangled):
        words = ", ".join(number for number in attention.groups()[1:] if number)
        return f"{attention.group(1)}<{words}>"
    flags = re.findall(r"Lb([01])E", mangled)
    kernel = re.search(r"GemmKernel|RingKernel", mangled)
    if kernel and len(flags) == 3:
        words = ", ".join("true" if flag == "1" else "false" for flag in flags)
        return f"{kernel.group()}<{words}> of {source.stem.split('_')[-1]}"
    return mangled


def most_threads_of(header):
    """The maximum number of threads per block, by name of a kernel of launch.cu; "" for all others."""
    threads = {name: int(number) for name, number in LAUNCH_THREADS.findall(header)}
    most = {"": threads["kElementThreads"]}
    for match in SHARED_BY_A_BLOCK.finditer(header):
        for name in re.findall(r"case Kernel::(\w+):", match.group()):
            most[name] = threads[f"kMax{match.group(1) or match.group(2)}Threads"]
    return most


def entries_of(ptx):
    """The name and the text of each kernel entry."""
    starts = [(match.start(), match.group(1)) for match in ENTRY.finditer(ptx)]
    for (begin, name), (end, _) in zip(starts, starts[1:] + [(len(ptx), "")]):
        yield name, ptx[begin:end]


def without_operands(ptx):
    """Entries of attention's tiles that do not load operands into shared memory: four values at a time, by
    asynchronous copies or, on architectures without them, by the threads."""
    return [name for name, text in entries_of(ptx)
            if re.search(r"Attention(?:\w+Gradient)?Kernel", name)
            and "cp.async" not in text and not re.search(r"ld\.(?:global\.)?v4", text)]


def bounds_of(ptx, most_threads):
    """By entry: the threads per block, and the number of blocks per multiprocessor that it requests."""
    bounds = {}
    for name, text in entries_of(ptx):
        head = text[:text.index("{")]
        threads = re.search(r"\.maxntid (\d+)(?:, (\d+))?(?:, (\d+))?", head)
        blocks = re.search(r"\.minnctapersm (\d+)", head)
        launched = re.search(r"\d+Run_(k[A-Za-z0-9]+?)ENS", name)
        most = most_threads.get(launched.group(1) if launched else "", most_threads[""])
        bounds[name] = (math.prod(int(n) for n in threads.groups() if n) if threads else most,
                        int(blocks.group(1)) if blocks else 1)
    return bounds


USED = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)\w*'.*?(\d+) bytes spill stores.*?"
                  r"Used (\d+) registers([^\n]*)", re.DOTALL)


def resources_of(log):
    """By entry, from `ptxas -v`: the architecture, bytes of spill stores, registers, shared bytes."""
    found = {}
    for name, architecture, spilled, registers, rest in USED.findall(log):
        shared = re.search(r"(\d+) bytes smem", rest)
        found[name] = (int(architecture), int(spilled), int(registers),
                       int(shared.group(1)) if shared else 0)
    return found


def wrong_resources(name, bounds, resources, knows_spills=True):
    threads, blocks = bounds
    architecture, spilled, registers, shared = resources
    wrong = []
    may_spill = SPILLS.get((name, architecture), SPILLS.get((name, 0), 0))
    if knows_spills and spilled > may_spill:
        wrong.append(f"spills {spilled} bytes, at most {may_spill}")
    taken = -(-registers // REGISTER_STEP) * REGISTER_STEP * threads * blocks
    if taken > REGISTERS:
        wrong.append(f"{blocks} blocks of {threads} threads take {taken} of {REGISTERS} registers")
    if shared > STATIC_SHARED_BYTES:
        wrong.append(f"a block takes {shared} of {STATIC_SHARED_BYTES} bytes of shared memory")
    most = SHARED_BYTES.get(architecture, LEAST_SHARED_BYTES)
    if blocks * shared > most:
        wrong.append(f"{blocks} blocks take {blocks * shared} of {most} bytes of shared memory")
    return wrong


# ---- compiling ---------------------------------------------------------------------------------

def run(words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(words)}\n{done.stdout}")
    return done.stdout


class Source:
    """A source of kernels, with the build's command for it."""

    def __init__(self, entry, ptxas, folder):
        self.path = pathlib.Path(entry["file"])
        self.directory, self.ptxas, self.folder = entry["directory"], ptxas, pathlib.Path(folder)
        words = shlex.split(entry["command"])
        self.compiler = next(word for word in words if pathlib.Path(word).name.startswith("nvcc"))
        backends = self.path.parent.parent.parent
        headers = [backends / "cuda/src/kernel_args.h",
                   backends / "kernels/include/acan/kernels/shared_columns.h"]
        self.most_threads = most_threads_of("".join(header.read_text() for header in headers))
        self.knows_spills = SPILLS_OF in run([self.compiler, "--version"])
        self.architectures = sorted({int(a) for a in re.findall(r"code=\[?(?:compute_\d+,)?sm_(\d+)",
                                                                entry["command"])})
        self.flags = []
        takes_next = False
        for word in words[words.index(self.compiler) + 1:]:
            kept = takes_next or word.startswith(
                ("-I", "-isystem", "-D", "-O", "-std", "-fmad", "-ftz", "-prec"))
            if kept:
                self.flags.append(word)
            takes_next = word in ("-isystem", "-I", "-D")

    def ptx(self, architecture, more=()):
        out = self.folder / f"{self.path.stem}.{architecture}{'.broken' if more else ''}.ptx"
        flags = [flag for flag in self.flags
                 if not any(flag.split("=")[0] == other.split("=")[0] for other in more
                            if not flag.startswith(("-D", "-I")))]
        run([self.compiler, *flags, *more, f"-arch=compute_{architecture}", "-ptx", "-x", "cu",
             str(self.path), "-o", str(out)])
        return out

    def check(self, architecture):
        """Returns the errors, one line each, and the number of kernels checked."""
        path = self.ptx(architecture)
        ptx = path.read_text()
        where = f"{self.path.name} for sm_{architecture}"
        wrong = [f"{where}: {op}" for op in wrong_operations(ptx)]
        wrong += [f"{where}: {name} has no operands" for name in without_operands(ptx)]
        log = run([self.ptxas, "-v", f"-arch=sm_{architecture}", str(path), "-o", os.devnull])
        bounds, resources = bounds_of(ptx, self.most_threads), resources_of(log)
        if not bounds or bounds.keys() != resources.keys():
            wrong.append(f"{where}: ptxas spoke of {len(resources)} of {len(bounds)} kernels")
            return wrong, 0
        for mangled, of in bounds.items():
            name = short_name(mangled, self.path)
            wrong += [f"{where}: {name}: {text}"
                      for text in wrong_resources(name, of, resources[mangled],
                                                  self.knows_spills)]
        return wrong, len(bounds)


def sources(database, ptxas, folder):
    entries = json.loads(pathlib.Path(database).read_text())
    kernels = [entry for entry in entries
               if "backends/cuda/kernels/" in entry["file"] and entry["file"].endswith(".cu")]
    return [Source(entry, ptxas, folder) for entry in kernels]


# ---- tests -------------------------------------------------------------------------------------

ALL = []


class CodeTest(unittest.TestCase):
    def test_every_kernel_of_every_architecture(self):
        self.assertGreaterEqual(len(ALL), 4)
        work = [(source, architecture) for source in ALL for architecture in source.architectures]
        self.assertGreaterEqual(len(work), len(ALL))
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            results = list(pool.map(lambda each: each[0].check(each[1]), work))
        wrong = [line for lines, _ in results for line in lines]
        self.assertEqual(wrong, [])
        self.assertGreaterEqual(min(kernels for _, kernels in results), 1)
        if not ALL[0].knows_spills:
            print(f"spilled registers are not checked: nvcc is not of {SPILLS_OF}")
        print(f"{sum(kernels for _, kernels in results)} kernels of {len(work)} files are right")


class SelfTest(unittest.TestCase):
    def test_finds_flags_that_change_bits(self):
        source = next(each for each in ALL if each.path.stem == "parts")  # the smallest source
        architecture = source.architectures[0]
        fused = wrong_operations(source.ptx(architecture, ["-fmad=true"]).read_text())
        self.assertIn("add.f32", fused)
        flushed = wrong_operations(source.ptx(architecture, ["-ftz=true"]).read_text())
        self.assertTrue(any(".ftz" in op for op in flushed), flushed)

    def test_finds_operations_that_do_not_round_to_nearest(self):
        right = "\tfma.rn.f32 \t%f1, %f2, %f3, %f4;\n\t@%p1 add.rn.f32 \t%f1, %f2, %f3;\n"
        self.assertEqual(wrong_operations(right), [])
        for wrong in ("div.full.f32", "sqrt.approx.f32", "mul.f32", "add.rn.ftz.f32", "add.rz.f32"):
            self.assertEqual(wrong_operations(f"{right}\t{wrong} \t%f1, %f2, %f3;\n"), [wrong])

    def test_finds_tiles_that_bring_no_operands(self):
        entry = ".visible .entry {}(\n.param .b64 p)\n{{\n\t{}\n}}\n"
        name = "_3AttentionKeyGradientKernelILi8E"
        for copy in ("@p cp.async.ca.shared.global [%r1], [%rd1], 4;", "ld.global.v4.f32 {%f1};"):
            self.assertEqual(without_operands(entry.format(name, copy)), [])
        self.assertEqual(without_operands(entry.format(name, "ld.global.f32 %f1;")), [name])
        self.assertEqual(without_operands(entry.format("_3AttentionTermsKernel", "ret;")), [])

    def test_finds_spills_and_blocks_that_do_not_fit(self):
        log = ("ptxas info    : Compiling entry function 'f' for 'sm_75'\n"
               "    64 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
               "ptxas info    : Used 130 registers, used 1 barriers, 49664 bytes smem\n")
        bounds = bounds_of(".visible .entry f(\n.param .b64 p)\n.maxntid 256\n.minnctapersm 2\n{\n}",
                           {"": 256})
        self.assertEqual(bounds, {"f": (256, 2)})
        wrong = wrong_resources("f", bounds["f"], resources_of(log)["f"])
        self.assertEqual(len(wrong), 4, wrong)
        self.assertEqual(wrong_resources("f", (256, 1), (75, 0, 128, 48 * 1024)), [])

    def test_knows_how_kernels_without_launch_bounds_are_launched(self):
        most = ALL[0].most_threads
        self.assertGreater(most["kNorm"], most[""])
        self.assertGreater(most["kColumnSums"], most[""])
        ptx = ".visible .entry _3Run_kNormENS_(\n.param .b64 p)\n{\n}"
        self.assertEqual(bounds_of(ptx, most), {"_3Run_kNormENS_": (most["kNorm"], 1)})


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    if not os.access(sys.argv[2], os.X_OK):
        print("ptxas is not there")
        sys.exit(77)
    pathlib.Path(sys.argv[3]).mkdir(parents=True, exist_ok=True)
    ALL = sources(*sys.argv[1:])
    unittest.main(argv=sys.argv[:1], verbosity=2)

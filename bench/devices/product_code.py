#!/usr/bin/env python3
"""Counts the instructions of CUDA's exact products in the code that nvcc and ptxas generate.

    product_code.py COMPILE_COMMANDS NVDISASM FOLDER [ARCHITECTURE]

For the large tiles with aligned operands, prints one JSON object: registers, bytes spilled, the
instructions that a thread executes for a leaf of 64 (whole steps of k, then one level of the tree
added and one stored), and the share of them that multiply; also the number of registers that a
multiplication of the loop reads, and the share of cycles for which these reads stall the loop. Each
cycle, one even and one odd register can be read. The last even and the last odd register of each
operand, if marked for reuse, need no read. This model is fitted to Nsight Compute's stalls of an
H200. FOLDER is for intermediate files. ARCHITECTURE: 90.
Needs no GPU, so it says nothing about time.
"""
import collections
import json
import pathlib
import re
import shlex
import subprocess
import sys

LEAF = 64
# For each source: sums of a thread, and k of a step.
KERNELS = {"gemm_128": (64, 8), "ring_128": (64, 16)}
FORMS = {"100": "forward", "101": "backward", "111": "gradient"}


def run(words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True).stdout


def compile_source(entry, architecture, folder):
    """The cubin's path and what ptxas says about registers."""
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if pathlib.Path(word).name == "nvcc"):]
    kept, takes_next = words[:1], False
    for word in words[1:]:
        keep = takes_next or word.startswith(("-I", "-isystem", "-D", "-O", "-std", "-fmad", "-ftz",
                                              "-prec"))
        takes_next = word in ("-I", "-isystem", "-D")
        if keep:
            kept.append(word)
    cubin = pathlib.Path(folder) / f"{pathlib.Path(entry['file']).stem}.{architecture}.cubin"
    said = run([*kept, f"-arch=sm_{architecture}", "-cubin", "-Xptxas", "-v", entry["file"], "-o",
                str(cubin)])
    return cubin, said


def blocks_of(assembly):
    """By kernel: its basic blocks, each a label and instructions."""
    kernels, blocks = {}, None
    for line in assembly.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.(\S+?),", line):
            blocks = kernels.setdefault(section.group(1), [("", [])])
        elif blocks is not None and (label := re.match(r"\s*(\.L\S+):", line)):
            blocks.append((label.group(1), []))
        elif blocks is not None and (code := re.search(r"/\*[0-9a-f]{4,5}\*/\s+(.*?)\s*;", line)):
            blocks[-1][1].append(code.group(1))
            if "BRA" in code.group(1):
                blocks.append(("", []))
    return kernels


def count(instructions):
    """Counts by instruction name; LDS.128 is counted apart from LDS."""
    names = collections.Counter()
    for text in instructions:
        name = re.sub(r"^@!?U?P\w+\s+", "", text).split()[0]
        names[name.split(".")[0] + (".128" if ".128" in name else "")] += 1
    return names


def loop_of(blocks, multiplies):
    """The first and last block of the smallest loop with a block of at least `multiplies` FFMA."""
    places = {label: i for i, (label, _) in enumerate(blocks) if label}
    loops = []
    for end, (_, code) in enumerate(blocks):
        target = re.search(r"BRA.*?`\((\.L\S+)\)", code[-1]) if code else None
        begin = places.get(target.group(1), end + 1) if target else end + 1
        if begin <= end and any(count(part)["FFMA"] >= multiplies
                                for _, part in blocks[begin:end + 1]):
            loops.append((end - begin, begin, end))
    return min(loops)[1:]


def way_of_step(blocks, begin, end, multiplies):
    """The instructions of the shortest path round the loop that copies and multiplies."""
    names = [count(code) for _, code in blocks]
    needed = [i for i in range(begin, end + 1) if names[i]["FFMA"] >= multiplies]
    copies = {i for i in range(begin, end + 1)
              if names[i]["LDG.128"] or names[i]["LDGSTS"] or names[i]["LDGSTS.128"]}
    if not copies & set(needed):  # otherwise, other blocks that copy belong to warps that only copy
        needed = sorted(copies | set(needed))
    places = {label: i for i, (label, _) in enumerate(blocks) if label}

    def behind(i):
        code = blocks[i][1]
        last = code[-1] if code else ""
        target = re.search(r"BRA.*?`\((\.L\S+)\)", last)
        found = [places[target.group(1)]] if target else []
        return found if last.startswith("BRA") or last.startswith("EXIT") else [*found, i + 1]

    first = (begin, frozenset({begin} & set(needed)))
    best, queue = {first: (len(blocks[begin][1]), [begin])}, [first]
    while queue:
        state = queue.pop(0)
        length, way = best[state]
        for to in behind(state[0]):
            if not begin < to <= end:
                continue
            after = (to, state[1] | ({to} & set(needed)))
            longer = (length + len(blocks[to][1]), [*way, to])
            if after not in best or longer < best[after]:
                best[after] = longer
                queue.append(after)
    way = best[(end, frozenset(needed))][1]
    return sum((names[i] for i in way), collections.Counter())


FFMA = re.compile(r"FFMA R\d+, R(\d+)(\.reuse)?, R(\d+)(\.reuse)?, R(\d+)(\.reuse)?")


def reads_of(code):
    """By the model, the registers that a multiplication reads and the cycles it waits for them."""
    kept, reads, waits, multiplications = {}, 0, 0, 0
    ahead = [0, 0]  # reads of even and of odd registers that are still outstanding
    for text in code:
        match = FFMA.match(text)
        if match:
            multiplications += 1
            for operand in range(3):
                register = int(match.group(2 * operand + 1))
                place = (operand, register % 2)
                if kept.get(place) != register:
                    reads += 1
                    ahead[register % 2] += 1
                kept[place] = register if match.group(2 * operand + 2) else None
        ahead = [max(0, each - 1) for each in ahead]
        if match and max(ahead) > 1:
            late = max(ahead) - 1
            waits += late
            ahead = [max(0, each - late) for each in ahead]
    return {"reads_of_a_multiplication": round(reads / multiplications, 2),
            "waits_for_reads": round(waits / len(code), 3)}


def of_kernel(blocks, sums, step):
    most = sums * step * 3 // 4  # a barrier may separate them from the rest
    of_step = way_of_step(blocks, *loop_of(blocks, most), most)
    if of_step["FFMA"] != sums * step:
        raise ValueError(f"a step multiplies {of_step['FFMA']} times, not {sums * step}")
    code = max((code for _, code in blocks), key=lambda each: count(each)["FFMA"])
    # The first one of each is in the loop over leaves.
    add = next(count(code) for _, code in blocks if count(code)["FADD"] >= sums)
    store = next(count(code) for _, code in blocks if count(code)["STL.128"] * 4 >= sums)
    leaf = sum(of_step.values()) * LEAF // step + sum(add.values()) + sum(store.values())
    return {"step_k": step, "step": sum(of_step.values()), "step_instructions": dict(of_step),
            "tree": sum(add.values()) + sum(store.values()),
            "leaf": leaf, "multiplies": round(sums * LEAF / leaf, 3), **reads_of(code)}


def main():
    database, nvdisasm, folder = sys.argv[1:4]
    architecture = sys.argv[4] if len(sys.argv) > 4 else "90"
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    out = {"architecture": architecture, "kernels": []}
    for entry in json.loads(pathlib.Path(database).read_text()):
        source = pathlib.Path(entry["file"]).stem
        if "backends/cuda/kernels/" not in entry["file"] or source not in KERNELS:
            continue
        cubin, said = compile_source(entry, architecture, folder)
        for kernel, blocks in blocks_of(run([nvdisasm, "-c", str(cubin)])).items():
            form = FORMS.get("".join(re.findall(r"Lb([01])E", kernel)))
            if form is None:
                continue
            used = re.search(rf"'{kernel}' for.*?(\d+) bytes spill stores.*?Used (\d+) registers",
                             said, re.DOTALL)
            out["kernels"].append({"source": source, "form": form, "registers": int(used.group(2)),
                                   "spilled_bytes": int(used.group(1)),
                                   **of_kernel(blocks, *KERNELS[source])})
    out["kernels"].sort(key=lambda each: (each["source"], each["form"]))
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main()

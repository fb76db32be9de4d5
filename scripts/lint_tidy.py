#!/usr/bin/env python3
"""Runs clang-tidy over the product's sources: lint_tidy.py CLANG_TIDY BUILD.

A source is not checked again if nothing has changed since a run that found nothing: neither
clang-tidy, nor .clang-tidy, nor the command that compiles the source, nor the source and the
project's headers that it includes. BUILD/lint keeps one empty file for each such state.
Exit code: 1 if something was found.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRODUCT = ("tuplespace", "core", "model", "backends", "handler", "manager", "cli")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


def say(text):
    print("lint: " + text, flush=True)


def clang_command(command):
    """What clang-tidy can read: without gcc's precompiled headers and warnings."""
    command = re.sub(r" -include \S*cmake_pch\.hxx", "", command)
    command = re.sub(r" -(Winvalid-pch|fpch-preprocess)\b", "", command)
    return command.replace(" -c ", " -Wno-unknown-warning-option -c ", 1)


def product_units(build):
    """The entries of the compilation database that are checked, each source once."""
    units = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        if not file.is_relative_to(ROOT) or file.is_relative_to(build) or file.suffix != ".cpp":
            continue
        # Other targets (tests, the simulation) may compile sources of the product as well.
        output = re.search(r" -o (\S+)", entry["command"]).group(1)
        if file.relative_to(ROOT).parts[0] in PRODUCT and not output.startswith("tests/"):
            units[file] = {**entry, "command": clang_command(entry["command"])}
    return units


def project_files(file, folders, seen):
    """Adds `file` and all files of the project and its build that it includes to `seen`."""
    if file in seen:
        return
    seen.add(file)
    for name in INCLUDE.findall(file.read_text(errors="replace")):
        for folder in [file.parent, *folders]:
            included = folder / name
            if included.is_file():
                project_files(included.resolve(), folders, seen)
                break


def state(unit, file, common):
    digest = hashlib.sha256(common)
    digest.update(unit["command"].encode())
    folders = [pathlib.Path(unit["directory"], name).resolve()
               for name in re.findall(r" -I ?(\S+)", unit["command"])]
    files = set()
    project_files(file, folders, files)
    for each in sorted(files):
        digest.update(f"{each.name}\0".encode() + each.read_bytes())
    return digest.hexdigest()


def main():
    tidy, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    if not (build / "compile_commands.json").exists():
        say(f"{build}/compile_commands.json is missing: configure and build this folder first")
        return 1
    clean = build / "lint"
    clean.mkdir(exist_ok=True)
    units = product_units(build)
    (clean / "compile_commands.json").write_text(json.dumps(list(units.values())))
    version = subprocess.run([tidy, "--version"], capture_output=True, check=True).stdout
    common = version + (ROOT / ".clang-tidy").read_bytes()
    states = {file: state(unit, file, common) for file, unit in units.items()}
    waiting = [file for file in units if not (clean / states[file]).exists()]
    say(f"clang-tidy: {len(waiting)} of {len(units)} sources are new or changed")

    def check(file):
        return subprocess.run([tidy, "-p", str(clean), "--quiet", "--warnings-as-errors=*",
                               str(file)], capture_output=True, text=True, check=False)

    found = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, result in zip(waiting, pool.map(check, waiting)):
            if result.returncode == 0:
                (clean / states[file]).touch()
                continue
            found += 1
            print(result.stdout.replace(f"{ROOT}/", ""), end="")
            if "error:" not in result.stdout:
                print(result.stderr, end="")
    say(f"clang-tidy: found something in {found} sources" if found else "clang-tidy: found nothing")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

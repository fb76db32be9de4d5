#!/usr/bin/env python3
"""Runs clang-tidy on the sources of the product and of the benchmarks.

    lint_tidy.py CLANG_TIDY BUILD [--since REVISION] [--seconds N] [--batch N]

With --since, it checks only the sources that differ from that revision (including changes in the working tree), and
then those that include a header that differs. After N seconds, it starts no more checks and reports how many are left.

A source is not checked again if nothing has changed since a run that found nothing: clang-tidy, .clang-tidy, the
command that compiles the source, the source itself, and the project's headers that it includes. BUILD/lint keeps one
empty file for each such state, and for each source whether it was checked alone.

Most of the time goes into the headers that a source includes, such as those of the standard library. So sources are
checked together, as one source that includes up to N of them. Sources that define the same name are not combined; if
clang finds another conflict, each half of them is checked alone. Macros that the build defines for one of them are
defined for all. The checks in OF_MAIN_FILES need --batch 1.
Exit code: 1 if something was found.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECKED = ("tuplespace", "core", "model", "backends", "handler", "manager", "generate", "cli",
           "bench")
# Checks that find nothing in files that another one includes.
OF_MAIN_FILES = ("misc-unused-using-decls", "misc-unused-alias-decls")
# What clang finds where sources of a batch do not go together.
CONFLICTS = ("[clang-diagnostic-error", "[clang-diagnostic-macro-redefined")
ALONE = ".alone"  # the end of the file's name for a state in which a source was checked alone
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


def say(text):
    print("lint: " + text, flush=True)


def clang_command(command):
    """The command in a form for clang-tidy: without gcc's precompiled headers and warnings."""
    command = re.sub(r" -include \S*cmake_pch\.hxx", "", command)
    command = re.sub(r" -(Winvalid-pch|fpch-preprocess)\b", "", command)
    command = re.sub(r" (-fno-tree-loop-distribute-patterns|--param ggc-\S+)", "", command)  # gcc only
    # Generated code of flatc is checked no more than other libraries' headers.
    command = re.sub(r" -I ?(\S+/generated)\b", r" -isystem \1", command)
    return command.replace(" -c ", " -Wno-unknown-warning-option -c ", 1)


def single_sources(build):
    """The entries of the compilation database, where each group of a unity build is replaced by one entry per
    source: its command is the group's with another name of the source."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        group = pathlib.Path(entry["file"])
        if group.parent.name != "Unity" or not group.is_relative_to(build):
            yield entry
            continue
        for source in INCLUDE.findall(group.read_text()):
            yield {**entry, "file": source, "command": entry["command"].replace(str(group), source)}


def units_of(build):
    """The entries of the compilation database to be checked, each source once."""
    units = {}
    for entry in single_sources(build):
        file = pathlib.Path(entry["file"])
        if not file.is_relative_to(ROOT) or file.is_relative_to(build) or file.suffix != ".cpp":
            continue
        # Other targets (tests, the simulation) may also compile sources of the product.
        output = re.search(r" -o (\S+)", entry["command"]).group(1)
        if file.relative_to(ROOT).parts[0] in CHECKED and not output.startswith("tests/"):
            units[file] = {**entry, "command": clang_command(entry["command"])}
    return units


# The names that a source may define: identifiers in lines that start at column 0, macros, and macros
# that may define something. A name too many does no harm.
OWN = re.compile(r"^(?:#[ \t]*define[ \t]+(\w+)|(?:struct|class|enum class|enum|union)[ \t]+(\w+)"
                 r"|using[ \t]+(\w+)[ \t]*="
                 r"|([A-Z][A-Z0-9_]+)\("
                 r"|(?![ \t]|namespace\b|template\b|using\b|\})[\w:<>,&*\[\] \t]*?[&* \t](\w+)"
                 r"(?:\(|\[|\{|;|[ \t]=))", re.MULTILINE)


def own_names(file):
    return {next(filter(None, names)) for names in OWN.findall(file.read_text(errors="replace"))}


SEARCHED = re.compile(r" -(?:I|isystem) ?\S+")


# A macro; its value may be quoted.
DEFINED = re.compile(r' -D(\w+)(?:=(?:"(?:\\.|[^"\\])*"|\\.|[^\s"\\])*)?')
# Flags that do not change what clang-tidy finds.
GENERATION = re.compile(r" -(?:O\d|fPIC|fno-math-errno|fno-trapping-math|ftree-vectorize)(?= )")


def arguments_of(files, units):
    """The compiler's arguments for a source that includes all of `files`: those of the first, with the others' folders
    for headers and macros."""
    command = re.sub(r" -o \S+", "", units[files[0]]["command"])
    command = command.replace(" -c ", " ").replace(str(files[0]), "")
    more = dict.fromkeys(each.group() for file in files for flag in (SEARCHED, DEFINED)
                         for each in flag.finditer(units[file]["command"]) if each.group() not in command)
    return shlex.split(command + "".join(more))[1:]


def batches_of(units, waiting, limit):
    """Splits the waiting sources into lists of at most `limit` without a conflict. The commands of a list's sources
    differ only in the folders of headers, in macros, and in flags for the generation of code."""
    groups = {}
    for file in waiting:
        command = units[file]["command"]
        defined = {each.group(1): each.group() for each in DEFINED.finditer(command)}
        for flag in (SEARCHED, DEFINED, GENERATION):
            command = flag.sub("", command)
        batches = groups.setdefault(re.sub(r" -o \S+", "", command).replace(str(file), ""), [])
        names = own_names(file)
        for files, taken, macros in batches:
            if (len(files) < limit and not names & taken
                    and all(macros.get(name, flag) == flag for name, flag in defined.items())):
                files.append(file)
                taken |= names
                macros |= defined
                break
        else:
            batches.append(([file], names, defined))
    return [files for batches in groups.values() for files, _, _ in batches]


def project_files(file, folders, seen):
    """Adds `file` and all files that it includes from the project and its build to `seen`."""
    if file in seen:
        return
    seen.add(file)
    for name in INCLUDE.findall(file.read_text(errors="replace")):
        for folder in [file.parent, *folders]:
            included = folder / name
            if included.is_file():
                project_files(included.resolve(), folders, seen)
                break


def folders_of(words):
    for word, following in zip(words, [*words[1:], ""]):
        if word in ("-I", "-isystem"):
            yield following
        elif word.startswith("-I"):
            yield word[2:]


def files_of(unit, file):
    """`file` and all files of the project that it includes."""
    folders = [pathlib.Path(unit["directory"], name).resolve()
               for name in folders_of(shlex.split(unit["command"]))]
    files = set()
    project_files(file, [folder for folder in folders if folder.is_relative_to(ROOT)], files)
    return files


def state(unit, files, common):
    digest = hashlib.sha256(common)
    digest.update(unit["command"].encode())
    for each in sorted(files):
        digest.update(f"{each.name}\0".encode() + each.read_bytes())
    return digest.hexdigest()


def changed_since(revision):
    """The files that differ from the revision, and those that git does not track yet; None if git does not know the
    revision."""
    changed = set()
    for command in (["diff", "--name-only", revision], ["ls-files", "--others",
                                                        "--exclude-standard"]):
        done = subprocess.run(["git", "-C", str(ROOT), *command], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            return None
        changed.update(ROOT / name for name in done.stdout.splitlines())
    return changed


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tidy")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--since")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--batch", type=int, default=40)
    return parser.parse_args()


def main():
    flags = parse()
    build = flags.build.resolve()
    if not (build / "compile_commands.json").exists():
        say(f"{build}/compile_commands.json is missing: configure and build this folder first")
        return 1
    clean = build / "lint"
    clean.mkdir(exist_ok=True)
    units = units_of(build)
    if not units:
        say(f"{build}/compile_commands.json has no source of {ROOT}")
        return 1
    version = subprocess.run([flags.tidy, "--version"], capture_output=True, check=True).stdout
    common = version + (ROOT / ".clang-tidy").read_bytes()
    files = {file: files_of(unit, file) for file, unit in units.items()}
    waiting = list(units)
    if flags.since:
        changed = changed_since(flags.since)
        if changed is None:
            say(f"clang-tidy: NOT RUN: git does not know the revision {flags.since}")
            return 1
        waiting = sorted((file for file in units if files[file] & changed),
                         key=lambda file: file not in changed)
    total = len(waiting)
    states = {file: state(units[file], files[file], common) for file in waiting}
    waiting = [file for file in waiting
               if not (clean / (states[file] + ALONE)).exists()
               and (flags.batch == 1 or not (clean / states[file]).exists())]
    say(f"clang-tidy: {len(waiting)} of {total} sources are new or changed")
    end_s = time.monotonic() + flags.seconds

    def tidy(files):
        with tempfile.NamedTemporaryFile("w", suffix=".cpp", dir=clean) as together:
            together.write("".join(f'#include "{file}"  // NOLINT(bugprone-suspicious-include)\n'
                                   for file in files))
            together.flush()
            source, more = str(files[0]), []
            if len(files) > 1:
                source = together.name
                more = ["-checks=" + ",".join("-" + each for each in OF_MAIN_FILES)]
            return subprocess.run([flags.tidy, "--quiet", "--warnings-as-errors=*", *more,
                                   f"--header-filter=^{re.escape(str(ROOT))}/({'|'.join(CHECKED)})/",
                                   f"--config-file={ROOT}/.clang-tidy", source, "--",
                                   *arguments_of(files, units)],
                                  cwd=units[files[0]]["directory"], capture_output=True, text=True,
                                  check=False)

    def check(files):
        """The results of a batch: (sources, result of clang-tidy or None)."""
        if time.monotonic() > end_s:
            return [(files, None)]
        result = tidy(files)
        if len(files) == 1 or not any(each in result.stdout for each in CONFLICTS):
            return [(files, result)]
        half = len(files) // 2
        return check(files[:half]) + check(files[half:])

    found = left = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for results in pool.map(check, batches_of(units, waiting, flags.batch)):
            for checked, result in results:
                if result is None:
                    left += len(checked)
                elif result.returncode == 0:
                    for file in checked:
                        (clean / (states[file] + (ALONE if len(checked) == 1 else ""))).touch()
                else:
                    found += 1
                    print(result.stdout.replace(f"{ROOT}/", ""), end="")
                    if "error:" not in result.stdout:
                        print(result.stderr, end="")
    if left:
        say(f"clang-tidy: NOT RUN for {left} sources, as {flags.seconds:.0f} s are over; "
            "scripts/lint.sh --tidy goes on with them")
    say(f"clang-tidy: found something in {found} runs" if found else "clang-tidy: found nothing")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

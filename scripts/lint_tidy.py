#!/usr/bin/env python3
"""Runs clang-tidy on the sources of the product and of the benchmarks.

    lint_tidy.py CLANG_TIDY BUILD [--since REVISION] [--seconds N] [--batch N]

With --since, it checks only the sources that differ from that revision (including changes in the working tree), and
then those that include a header that differs. After N seconds, it starts no more checks and reports how many are left.

A source is not checked again if nothing has changed since a run that found nothing: clang-tidy, .clang-tidy, the
command that compiles the source, the source itself, and the project's headers that it includes. BUILD/lint keeps one
empty file for each such state.

Most of the time goes into the headers that a source includes, such as those of the standard library. So sources of one
folder are checked together, as one source that includes up to N of them. Sources that define the same name are not
combined; if clang finds another conflict, they are checked one by one. misc-unused-using-decls and
misc-unused-alias-decls check only main files, so only --batch 1 shows their findings.
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
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECKED = ("tuplespace", "core", "model", "backends", "handler", "manager", "generate", "cli",
           "bench")
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


# The names that a source may define: identifiers in lines that start at column 0, and macros. A
# name too many does no harm.
OWN = re.compile(r"^(?:#[ \t]*define[ \t]+(\w+)|(?:struct|class|enum class|enum|union)[ \t]+(\w+)"
                 r"|using[ \t]+(\w+)[ \t]*="
                 r"|(?![ \t]|namespace\b|template\b|using\b|\})[\w:<>,&*\[\] \t]*?[&* \t](\w+)"
                 r"(?:\(|\[|\{|;|[ \t]=))", re.MULTILINE)


def own_names(file):
    return {next(filter(None, names)) for names in OWN.findall(file.read_text(errors="replace"))}


SEARCHED = re.compile(r" -(?:I|isystem) ?\S+")


def command_of(unit, file, source, searched):
    """The unit's command with `source` in place of `file`, and with additional folders for headers."""
    command = unit["command"].replace(str(file), str(source))
    own = SEARCHED.findall(command)
    return command.replace(" -c ", "".join(each for each in searched if each not in own) + " -c ")


def batches_of(units, waiting, limit):
    """Splits the waiting sources into lists of at most `limit` without a conflict. The sources of a list have the
    same top folder, and commands that differ only in the folders of headers."""
    groups = {}
    for file in waiting:
        command = units[file]["command"]
        command = re.sub(r" -o \S+", "", SEARCHED.sub("", command)).replace(str(file), "")
        batches = groups.setdefault((file.relative_to(ROOT).parts[0], command), [])
        names = own_names(file)
        for files, taken in batches:
            if len(files) < limit and not names & taken:
                files.append(file)
                taken |= names
                break
        else:
            batches.append(([file], names))
    return [files for batches in groups.values() for files, _ in batches]


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
    parser.add_argument("--batch", type=int, default=12)
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
    waiting = [file for file in waiting if not (clean / states[file]).exists()]
    say(f"clang-tidy: {len(waiting)} of {total} sources are new or changed")
    batches = batches_of(units, waiting, flags.batch)
    with_batches = dict(units)
    sources = {}  # for each batch: the files that clang-tidy reads
    for number, files_together in enumerate(batches):
        sources[number] = files_together[0]
        if len(files_together) > 1:
            sources[number] = clean / f"batch_{number}.cpp"
            sources[number].write_text("".join(
                f'#include "{file}"  // NOLINT(bugprone-suspicious-include)\n'
                for file in files_together))
            first = files_together[0]
            searched = dict.fromkeys(each for file in files_together
                                     for each in SEARCHED.findall(units[file]["command"]))
            with_batches[sources[number]] = {
                **units[first], "file": str(sources[number]),
                "command": command_of(units[first], first, sources[number], searched)}
    (clean / "compile_commands.json").write_text(json.dumps(list(with_batches.values())))
    end_s = time.monotonic() + flags.seconds

    def tidy(source):
        return subprocess.run([flags.tidy, "-p", str(clean), "--quiet", "--warnings-as-errors=*",
                               f"--config-file={ROOT}/.clang-tidy", str(source)], capture_output=True, text=True, check=False)

    def check(number):
        """The results of a batch: (sources, result of clang-tidy or None)."""
        if time.monotonic() > end_s:
            return [(batches[number], None)]
        result = tidy(sources[number])
        if len(batches[number]) == 1 or "[clang-diagnostic-error" not in result.stdout:
            return [(batches[number], result)]
        return [([file], tidy(file)) for file in batches[number]]

    found = left = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for results in pool.map(check, range(len(batches))):
            for checked, result in results:
                if result is None:
                    left += len(checked)
                elif result.returncode == 0:
                    for file in checked:
                        (clean / states[file]).touch()
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

#!/usr/bin/env python3
"""Checks the documents, as far as a program can.

    docs_test.py REPOSITORY [PROGRAM]

- The target of every link to a file or a heading exists, and so does every repository path in back quotes.
- No line has more than 100 columns, except in tables and for text that cannot be wrapped (addresses).
- README.md has at most 1,000 words.
- docs/operations.md lists every environment variable that the sources read, and the sources read every ACAN_* variable
  in it.
- docs/jobs.md has exactly the keys that the job reader knows.
- Every document that a source names exists.
- The program in tuplespace/README.md is the one that a test builds and runs.
- With PROGRAM: `--help` shows every command and flag in the documents, and the commands of README.md that do not train
  succeed. The table of variables in docs/operations.md names the commands whose help names the variable.

Each check takes the text and the facts as arguments; `SelfTest` shows that each finds a planted error.
Exit code 1 if a document is wrong. Needs only Python's standard library.
"""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

MOST_COLUMNS = 100
MOST_README_WORDS = 1000

# Folders whose paths in back quotes must exist; folders that a build or a run creates are not
# listed.
FOLDERS = ("backends", "bench", "cli", "cmake", "core", "deploy", "docs", "examples", "generate",
           "handler", "manager", "model", "scripts", "tests", "tuplespace")
PRODUCT = ("backends", "bench", "cli", "core", "generate", "handler", "manager", "model", "monitor",
           "python", "tuplespace")

FENCE = re.compile(r"^\s*(```|~~~)")
LINK = re.compile(r"\]\(([^)\s]+)\)")  # the link's text may begin on the previous line
URL = re.compile(r"https?://\S+")


def documents(root):
    found = sorted(root.glob("*.md")) + sorted(root.glob("docs/**/*.md"))
    return found + [path for folder in PRODUCT for path in sorted(root.glob(f"{folder}/**/*.md"))]


def lines_outside_code(text):
    """(number, line) for all lines outside fenced blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(text):
    """The anchors that GitHub creates for the headings."""
    names, seen = set(), {}
    for _, line in lines_outside_code(text):
        match = re.match(r"^#{1,6}\s+(.*?)\s*#*$", line)
        if not match:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match.group(1))
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names


def wrong_links(root, path, text):
    for number, line in lines_outside_code(text):
        for target in LINK.findall(line):
            if URL.match(target) or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            file = (path.parent / name).resolve() if name else path
            if not file.exists():
                yield f"line {number}: the link {target} leads to no file"
            elif not file.is_relative_to(root):
                yield f"line {number}: the link {target} leaves the repository"
            elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
                yield f"line {number}: the link {target} leads to no heading"


def wrong_paths(root, text):
    pattern = re.compile(r"`((?:%s)/[\w./*{},@-]*)`" % "|".join(FOLDERS))
    for number, line in lines_outside_code(text):
        for name in pattern.findall(line):
            if "NAME" in name:  # a placeholder
                continue
            choices = re.sub(r"\{[^}]*\}", "*", name)
            if not (root / name).exists() and not list(root.glob(choices.rstrip("/"))):
                yield f"line {number}: there is no {name}"


def wrong_scripts(root, text):
    """Scripts that a block runs by path although that is not possible."""
    outside = {number for number, _ in lines_outside_code(text)}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if number in outside or not words or not re.fullmatch(r"(\./)?[\w/]+/\w+\.(py|sh)", words[0]):
            continue
        if not os.access(root / words[0], os.X_OK):
            yield f"line {number}: {words[0]} is no program"


def long_lines(text):
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("|"):
            continue
        rest = URL.sub("", re.sub(r"\]\([^)]*\)", "]", line))
        if len(rest) > MOST_COLUMNS:
            yield f"line {number}: {len(line)} columns; the most is {MOST_COLUMNS}"


def too_many_words(text):
    words = len(text.split())
    if words > MOST_README_WORDS:
        yield f"{words} words; the most is {MOST_README_WORDS}"


def sources(root):
    """(path, text) for every file that may read a variable."""
    for folder in PRODUCT + ("tests", "scripts", "deploy"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".cpp", ".h", ".cu", ".py", ".sh", ".sbatch") and path.is_file():
                if path.name != Path(__file__).name:
                    yield path, path.read_text(encoding="utf-8")


def variables_read(files):
    """Names of environment variables, each with a file that reads it."""
    names = {}
    for path, text in files:
        if path.suffix in (".sh", ".sbatch"):
            found = re.findall(r"\$\{?(ACAN_[A-Z_]+)\b", text)
        else:
            found = re.findall(r"[\"'](ACAN_[A-Z_]+)[\"']", text)
            if path.suffix in (".cpp", ".h") and "tests" not in path.parts:
                found += re.findall(r"(?:getenv|Variable)\(\"([A-Z_]+)\"\)", text)
        for name in found:
            names.setdefault(name, path)
    return names


def wrong_mentions(root, files):
    for path, text in files:
        for name in sorted(set(re.findall(r"\b(?:docs|tuplespace)/[\w-]+\.md\b", text))):
            if not (root / name).exists():
                yield f"{path.relative_to(root)} names {name}, which is not there"


def wrong_variables(read, text):
    named = set(re.findall(r"`([A-Z][A-Z_]+)(?:=[^`]*)?`", text))
    for name in sorted(set(read) - named):
        yield f"{name}, which {read[name]} reads, is missing"
    for name in sorted(n for n in named - set(read) if n.startswith("ACAN_")):
        yield f"nothing reads {name}"


def keys_known(files):
    """The keys in the tables of the job reader, the optimizers and the kinds of models, as section.key; None if the
    job reader's table is not found."""
    known, of_optimizers, of_models = None, set(), set()
    for path, text in files:
        match = re.search(r"KnownKeys\(\)\s*\{(.*?)\n\}", text, re.S)
        if match and path.suffix == ".cpp":
            sections = re.findall(r"\{\"(\w+)\",\s*\{([^{}]*)\}\}", match.group(1))
            known = {f"{section}.{key}" for section, keys in sections
                     for key in re.findall(r"\"(\w+)\"", keys)}
        of_models |= {f"model.{key}" for key in re.findall(r"\bvisit\(\"(\w+)\", o\.", text)}
        for match in re.finditer(r"(?:Mlp|Graph)Keys\(\) \{.*? = \{(.*?)\}", text, re.S):
            of_models |= {f"model.{key}" for key in re.findall(r"\"(\w+)\"", match.group(1))}
        match = re.search(r"kOptimizerKeys\[\] = \{(.*?)\n\};", text, re.S)
        if match:
            of_optimizers = {f"train.{key}" for key in re.findall(r"\{\"(\w+)\",", match.group(1))}
    return known and known | of_optimizers | of_models


def wrong_keys(known, text):
    named = re.findall(r"^\| `(\w+\.\w+)` \|", text, re.M)
    for key in sorted(set(k for k in named if named.count(k) > 1)):
        yield f"{key} has more than one row"
    for key in sorted(known - set(named)):
        yield f"{key}, which the job reader knows, has no row"
    for key in sorted(set(named) - known):
        yield f"the job reader does not know {key}"


def wrong_program(program, text):
    shown = re.findall(r"^```cpp\n(.*?)^```$", text, re.S | re.M)
    if program not in shown:
        yield "the program in C++ is not tests/tuplespace/consumer/main.cpp, which a test runs"


def commands_shown(text):
    """(line, words) for every acan command in a shell block."""
    shell, pending, begin = False, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            shell = line.strip() in ("```sh", "```shell", "```bash") and not shell
            continue
        if not shell:
            continue
        pending, begin = (pending + line, begin) if pending else (line, number)
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        for part in re.split(r"&&|\||;", re.sub(r"(^|\s)#.*$", "", pending)):
            match = re.match(r"^\s*(?:[^\s=]*/)?acan\s+(.*)$", part)
            if match:
                yield begin, match.group(1).split()
        pending = ""


def wrong_commands(help_of, text):
    for number, words in commands_shown(text):
        depth = 2 if words[0] == "bench" and len(words) > 1 and words[1][0] != "-" else 1
        command = tuple(words[:depth]) if words[0][0] != "-" else ()
        if command == ("COMMAND",):
            continue
        shown = help_of(command)
        if shown is None:
            yield f"line {number}: acan has no command {' '.join(command)}"
            continue
        for word in words:
            flag = word.split("=")[0]
            if flag.startswith("--") and not re.search(re.escape(flag) + r"(?![\w-])", shown):
                yield f"line {number}: acan {' '.join(command)} has no flag {flag}"


def failing_commands(run, text):
    """`run` returns the exit code and the stderr of a command."""
    for number, words in commands_shown(text):
        if words[0] not in ("plan", "devices"):
            continue
        code, error = run(words)
        if code != 0:
            yield f"line {number}: acan {' '.join(words)} ends with {code}: {error.strip()}"


def wrong_commands_of_variables(help_of, text):
    """The table of variables must name the commands whose help names the variable."""
    commands = re.findall(r"^  (\w+)  ", help_of(()).partition("Subcommands:")[2], re.M)
    for name, cell in re.findall(r"^\| `(ACAN_\w+)` \| ([^|]*) \| ", text, re.M):
        if cell.startswith("any that"):
            continue
        named = set(re.findall(r"\w+", cell.partition(", also ")[0]))
        shown = {command for command in commands
                 if re.search(rf"\b{name}\b", help_of((command,)))}
        if named != shown:
            yield f"{name}: the help of {', '.join(sorted(shown))} has it, not {cell}"


def run_by(program, root):
    def run(words):
        done = subprocess.run([program, *words], cwd=root, capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stderr

    return run


def help_by(program):
    kept = {}

    def help_of(command):
        if command not in kept:
            done = subprocess.run([program, *command, "--help"], capture_output=True, text=True,
                                  check=False)
            kept[command] = done.stdout if done.returncode == 0 else None
        return kept[command]

    return help_of


def check(root, program):
    files = list(sources(root))
    known = keys_known(files)
    problems = []

    def note(path, found):
        problems.extend(f"{path.relative_to(root)}: {text}" for text in found)

    for path in documents(root):
        text = path.read_text(encoding="utf-8")
        note(path, wrong_links(root, path, text))
        note(path, wrong_paths(root, text))
        note(path, wrong_scripts(root, text))
        note(path, long_lines(text))
        if program:
            note(path, wrong_commands(help_by(program), text))
    readme, jobs, operations = (root / name for name in
                                ("README.md", "docs/jobs.md", "docs/operations.md"))
    note(readme, too_many_words(readme.read_text(encoding="utf-8")))
    if program:
        note(readme, failing_commands(run_by(program, root), readme.read_text(encoding="utf-8")))
    read = {name: path.relative_to(root) for name, path in variables_read(files).items()}
    note(operations, wrong_variables(read, operations.read_text(encoding="utf-8")))
    if program:
        note(operations, wrong_commands_of_variables(help_by(program),
                                                     operations.read_text(encoding="utf-8")))
    library = root / "tuplespace/README.md"
    note(library, wrong_program((root / "tests/tuplespace/consumer/main.cpp").read_text("utf-8"),
                                library.read_text(encoding="utf-8")))
    problems.extend(wrong_mentions(root, files))
    if known:
        note(jobs, wrong_keys(known, jobs.read_text(encoding="utf-8")))
    else:
        problems.append("the table KnownKeys() of the job reader was not found")
    return problems


class SelfTest(unittest.TestCase):
    """Each check finds the errors that it is for, and none in correct text."""

    ROOT = Path(__file__).resolve().parents[2]

    def test_links(self):
        path = self.ROOT / "README.md"
        text = "# A b\n[x](LICENSE) [y](#a-b) [z](https://a.b/c)\n"
        self.assertEqual(list(wrong_links(self.ROOT, path, text)),
                         ["line 2: the link #a-b leads to no heading"]
                         if "a-b" not in anchors(path.read_text(encoding="utf-8")) else [])
        self.assertEqual(len(list(wrong_links(self.ROOT, path, "[x](no/such.md)\n"))), 1)
        self.assertEqual(len(list(wrong_links(self.ROOT, path, "[x](../outside)\n"))), 1)
        self.assertEqual(len(list(wrong_links(self.ROOT, path, "[x\ny](no/such.md)\n"))), 1)
        self.assertEqual(list(wrong_links(self.ROOT, path, "```\n[x](no/such.md)\n```\n")), [])

    def test_anchors(self):
        self.assertEqual(anchors("# What `it` costs, 4\n## A\n## A\n```\n# no\n```\n"),
                         {"what-it-costs-4", "a", "a-1"})

    def test_paths(self):
        self.assertEqual(list(wrong_paths(self.ROOT, "`core/`, `scripts/*.sh`, `out/x`\n")), [])
        self.assertEqual(len(list(wrong_paths(self.ROOT, "`core/no_such.h`\n"))), 1)

    def test_scripts(self):
        self.assertEqual(list(wrong_scripts(self.ROOT, "```\nscripts/run.sh\n```\ncore/no.sh\n")), [])
        self.assertEqual(len(list(wrong_scripts(self.ROOT, "```\n./scripts/no.py --a\n```\n"))), 1)

    def test_mentions(self):
        file = self.ROOT / "core/x.h"
        self.assertEqual(list(wrong_mentions(self.ROOT, [(file, "see docs/jobs.md")])), [])
        self.assertEqual(len(list(wrong_mentions(self.ROOT, [(file, "see docs/no.md")]))), 1)

    def test_columns(self):
        self.assertEqual(len(list(long_lines("x" * 101))), 1)
        self.assertEqual(len(list(long_lines("```\n" + "x" * 101 + "\n```\n"))), 1)
        self.assertEqual(list(long_lines("x" * 100 + "\n| " + "x" * 200 + " |\n")), [])
        self.assertEqual(list(long_lines("see https://a.b/" + "c" * 200)), [])

    def test_words(self):
        self.assertEqual(list(too_many_words("a " * MOST_README_WORDS)), [])
        self.assertEqual(len(list(too_many_words("a " * (MOST_README_WORDS + 1)))), 1)

    def test_variables(self):
        read = variables_read([(Path("a.cpp"), 'getenv("TMPDIR"); Add("ACAN_X");'),
                               (Path("b.sh"), "echo ${ACAN_Y:-1}")])
        self.assertEqual(set(read), {"TMPDIR", "ACAN_X", "ACAN_Y"})
        self.assertEqual(list(wrong_variables(read, "`TMPDIR` `ACAN_X=1` `ACAN_Y`")), [])
        self.assertEqual(len(list(wrong_variables(read, "`TMPDIR` `ACAN_X` `ACAN_Z`"))), 2)

    def test_keys(self):
        source = 'x& KnownKeys() {\n {"a", {"b", "c"}}, {"d", {"e"}}};\n return keys;\n}\n'
        known = keys_known([(Path("job.cpp"), source)])
        self.assertEqual(known, {"a.b", "a.c", "d.e"})
        table = 'constexpr OptimizerKey kOptimizerKeys[] = {\n    {"beta", &X::beta, 0, 1},\n};\n'
        self.assertEqual(keys_known([(Path("o.h"), table), (Path("job.cpp"), source)]),
                         known | {"train.beta"})
        table = 'void ForEachKey(X& o) {\n  visit("c", o.c);\n}\n'
        self.assertEqual(keys_known([(Path("k.h"), table), (Path("job.cpp"), source)]),
                         known | {"model.c"})
        rows = "| `a.b` | x |\n| `a.c` | x |\n| `d.e` | x |\n"
        self.assertEqual(list(wrong_keys(known, rows)), [])
        self.assertEqual(len(list(wrong_keys(known, rows.replace("d.e", "d.f")))), 2)
        self.assertEqual(len(list(wrong_keys(known, rows + "| `a.b` | x |\n"))), 1)

    def test_program(self):
        self.assertEqual(list(wrong_program("int x;\n", "a\n```cpp\nint x;\n```\n")), [])
        self.assertEqual(len(list(wrong_program("int y;\n", "a\n```cpp\nint x;\n```\n"))), 1)

    def test_commands(self):
        helps = {("train",): "--out DIR --set KEY", ("bench", "space"): "--json", (): "--version"}
        text = ("```sh\nacan train a.toml --set x=1 \\\n  --out o   # --none\n"
                "acan bench space --json | jq .\nbuild/release/bin/acan --version\n```\n")
        self.assertEqual(list(wrong_commands(helps.get, text)), [])
        self.assertEqual(len(list(wrong_commands(helps.get, "```sh\nacan no\n```\n"))), 1)
        self.assertEqual(len(list(wrong_commands(helps.get, "```sh\nacan train --ou o\n```\n"))), 1)

    def test_commands_of_variables(self):
        helps = {(): "x\nSubcommands:\n  train   a\n  handler  b\n", ("train",): "[$ACAN_A]",
                 ("handler",): "[$ACAN_A] [$ACAN_B]"}
        table = "| `ACAN_A` | handler, train | x |\n| `ACAN_B` | handler, also those of train | x |\n"
        self.assertEqual(list(wrong_commands_of_variables(helps.get, table)), [])
        table = table.replace("handler, train", "train").replace("ACAN_B", "ACAN_C")
        self.assertEqual(len(list(wrong_commands_of_variables(helps.get, table))), 2)

    def test_commands_that_fail(self):
        text = "```sh\nacan plan a   # why\nacan plan b\nacan train c\n```\n"
        self.assertEqual(list(failing_commands(lambda words: (0 if words[1] == "a" else 1, "no\n"), text)),
                         ["line 3: acan plan b ends with 1: no"])


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: docs_test.py REPOSITORY [PROGRAM]")
    result = unittest.TextTestRunner(verbosity=0).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(SelfTest))
    problems = check(Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) == 3 else None)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems or not result.wasSuccessful() else 0)


if __name__ == "__main__":
    main()

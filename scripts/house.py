#!/usr/bin/env python3
"""Measures the sources: the fullest folders, the longest files and functions, and the classes with
the most members, compared with the limits of CONTRIBUTING.md.

    scripts/house.py [--before REVISION] [--svg docs/house.svg]

Counts the working tree's files that git tracks and, for comparison, those of REVISION. Prints a
table; --svg draws a picture. Functions and members are recognized by clang-format's layout, so
the figures are approximate. Tables (functions that only return a list) do not count. Needs git
and only Python's standard library.
"""
import argparse
import collections
import html
import io
import pathlib
import re
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = (".cpp", ".h", ".cu", ".inc")
COUNTED = SOURCES + (".py", ".sh", ".dict", ".txt", ".cl", ".toml", ".fbs")
DATA = ("bench/results", "tests/fuzz/corpus", "docs")
SHOWN = 8
PANELS = (("files in a folder", 20), ("lines of a file", 500), ("lines of a function", 70),
          ("members of a class", 15))
TABLE = re.compile(r"\s*(return \{|static const std::vector)")
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)
MEMBER = re.compile(r"  [\w:][^()]*(?:\([^()]*\)[^()]*)*\b\w+_(\[\w+\])?( =.*|\{.*)?;")
NOT_FUNCTIONS = re.compile(r"\s*(namespace|class|struct|enum|union|extern|switch|for|if|while|do|"
                           r"else|try|return|\}|#)\b|.*=\s*\{$|\s*\}")


def tree(revision):
    """{path: text} of the sources of a revision; without one, of the working tree."""
    git = ["git", "-C", str(ROOT)]
    if revision is None:
        listed = subprocess.run([*git, "ls-files"], capture_output=True, text=True, check=True)
        return {name: (ROOT / name).read_text(errors="replace")
                for name in listed.stdout.splitlines()
                if name.endswith(COUNTED) and (ROOT / name).is_file()}
    archive = subprocess.run([*git, "archive", revision], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        return {member.name: files.extractfile(member).read().decode(errors="replace")
                for member in files if member.isfile() and member.name.endswith(COUNTED)}


def functions(path, lines):
    """(length, name) of the functions that start at the left margin or inside a class."""
    for pad in ("", "  "):
        begin = None
        for number, line in enumerate(lines):
            if begin is None:
                if (line.startswith(pad) and line[len(pad):len(pad) + 1].strip() and
                        line.endswith("{") and not NOT_FUNCTIONS.match(line)):
                    begin = number
            elif line == pad + "}":
                if not TABLE.match(lines[begin + 1]):
                    name = re.sub(r"\(.*", "", lines[begin]).split()[-1]
                    if name.startswith("TEST"):
                        name = re.sub(r".*\(|\).*", "", lines[begin]).replace(", ", ".")
                    yield number - begin + 1, f"{name} ({pathlib.Path(path).name})"
                begin = None
            elif pad and line.startswith("}"):
                begin = None


def classes(path, lines):
    """(members, name) of the classes; a member is a name that ends in an underscore."""
    name, count = None, 0
    for line in lines:
        head = re.match(r"class (\w+(?:::\w+)?)[^;]*\{$", line)
        if head:
            name, count = head[1], 0
        elif name and line.startswith("};"):
            yield count, f"{name} ({pathlib.Path(path).name})"
            name = None
        elif name and MEMBER.match(line):
            if not line.lstrip().startswith(("return", "using", "friend")):
                count += len(re.findall(r"\b\w+_(?=[,;\s={\[])", re.sub(r"[={].*", ";", line)))


def measure(files):
    """[(figure, name)] for each panel, the largest first."""
    folders = collections.Counter()
    figures = [[] for _ in PANELS]
    for path, text in files.items():
        folder = str(pathlib.PurePosixPath(path).parent)
        if folder.startswith(DATA) or folder == ".":
            continue
        folders[folder] += 1
        if not path.endswith(SOURCES):
            continue
        lines = text.splitlines()
        figures[1].append((len(lines), path))
        code = RAW_STRING.sub(lambda raw: '""' + "\n" * raw[0].count("\n"), text)
        figures[2].extend(functions(path, code.splitlines()))
        figures[3].extend(classes(path, lines))
    figures[0] = [(count, folder) for folder, count in folders.items()]
    return [sorted(each, key=lambda pair: (-pair[0], pair[1]))[:SHOWN] for each in figures]


def bars(sides, limit, left, top, width):
    """Draws one panel: the figures of each side, one side below the other."""
    most = max([limit, *(value for _, side in sides for value, _ in side)])
    scale = (width - 330) / most
    out, values, y = [], [], top
    for (label, side), colour in zip(sides, ("#999999", "#0072B2")):
        out.append(f'<text x="{left}" y="{y + 12}" font-weight="bold">{label}</text>')
        y += 20
        for value, name in side:
            over = value > limit
            out.append(f'<text x="{left + 245}" y="{y + 11}" text-anchor="end">'
                       f'{html.escape(name if len(name) <= 40 else "..." + name[-37:])}</text>')
            out.append(f'<rect x="{left + 250}" y="{y}" width="{value * scale:.1f}" height="13" '
                       f'fill="{"#D55E00" if over else colour}"/>')
            values.append(f'<text x="{left + 254 + value * scale:.1f}" y="{y + 11}" stroke="white" '
                          f'stroke-width="4" paint-order="stroke">{value}</text>')
            y += 17
        y += 8
    x = left + 250 + limit * scale
    out.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{y - 8}" stroke="black" '
               'stroke-dasharray="3 3"/>')
    return out + values, y


def draw(sides):
    width, out, bottom = 620, [], 0
    top = 60
    for row in (0, 2):
        ends = []
        for column in (0, 1):
            title, limit = PANELS[row + column]
            left = 15 + column * width
            out.append(f'<text x="{left}" y="{top - 8}" font-size="14" font-weight="bold">'
                       f'{title}, at most about {limit}</text>')
            shown = [(label, figures[row + column]) for label, figures in sides]
            panel, end = bars(shown, limit, left, top, width)
            out += panel
            ends.append(end)
        top = max(ends) + 40
        bottom = max(ends)
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * width + 20}" '
            f'height="{bottom + 15}" font-family="sans-serif" font-size="11">'
            '<rect width="100%" height="100%" fill="white"/>'
            '<text x="15" y="24" font-size="16">The largest of each kind; '
            'orange is above the limit (dashed)</text>')
    return "\n".join([head, *out, "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before")
    parser.add_argument("--svg", type=pathlib.Path)
    flags = parser.parse_args()
    sides = [("now", measure(tree(None)))]
    if flags.before:
        sides.insert(0, ("before", measure(tree(flags.before))))
    for label, figures in sides:
        for (title, limit), panel in zip(PANELS, figures):
            print(f"{label}: {title} (at most about {limit})")
            for value, name in panel:
                print(f"  {value:5} {name}")
    if flags.svg:
        flags.svg.write_text(draw(sides))


if __name__ == "__main__":
    main()

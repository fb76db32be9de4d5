#!/usr/bin/env python3
"""acan's position relative to its goals, as one picture: for each line of a table of
docs/performance.md a dot, its spread, and a tick at the goal.

    bench/picture.py bench/results/FILE.json... --svg OUT.svg

Takes the reports of `acan bench train` and `space`, of control_scale and of the programs in
bench/compare, in any mixture. If several files have a number, the last file counts. Needs Debian's
python3-matplotlib.
"""
import argparse
import dataclasses
import json
import pathlib
import sys
import textwrap

# The kinds of reports, and a key that only this kind has at its top (or in its first object).
KINDS = {"train": "plain_samples_per_s", "training": "jobs", "space": "transports", "redis": "pairs_per_s",
         "footprint": "needed_bytes", "tiny tasks": "tasks_per_s", "control": "runs", "gpt": "recipe",
         "images": "model"}


@dataclasses.dataclass
class Line:
    """`path` leads through the report: a word is a key; a dict is the object with these values, in
    a list or alone."""
    label: str
    kind: str
    path: list
    aim: float
    smaller: bool = False  # smaller is better
    unit: str = ""
    form: str = "{:.2f}"
    over: tuple = ()  # the peer's kind and path, if it has a separate report


WIDE, EAGER = ["jobs", "wide, batch 512", "ratios"], "acan exact / torch eager fp32"
IPC, TCP = ({"transport": name} for name in ("ipc", "tcp"))
RINGS, SOCKETS = ([{"transport": name}, "runs"] for name in ("shared memory", "sockets"))
TEN, THOUSAND = ({"handlers": count} for count in (10, 1000))
LARGE, TRIP = ["put_read", "16MiB"], ["transports", IPC, "round_trip_us", "there_and_back"]
TASK = dict(smaller=True, unit=" us", form="{:.1f}")
EAGER_RATIO = ["ratios", "acan / torch eager"]
BY_ITSELF = "By itself, where 1 is the aim"
GROUPS = {
    "Training, acan's speed over that of": [
        Line("the same kernels in a plain loop", "train", ["ratio"], 0.95),
        Line("a loop around oneDNN", "training", [*WIDE, "acan exact / onednn loop"], 0.9),
        Line("PyTorch eager", "training", [*WIDE, EAGER], 1),
        Line("PyTorch eager, batch 128", "training", ["jobs", "wide, batch 128", "ratios", EAGER], 0.9),
        Line("PyTorch eager, the first job", "training", ["jobs", "first job", "ratios", EAGER], 1),
        Line("PyTorch DDP over gloo", "training", [*WIDE, "acan exact / torch ddp gloo"], 1.5),
        Line("PyTorch eager, precision fast", "training", [*WIDE, "acan fast / torch eager fp32"], 2.5),
    ],
    "Whole models, over PyTorch eager": [
        Line("GPT 4 x 128, 64 tokens, batch 12", "gpt", [{"recipe": "4x128/64/12"}, *EAGER_RATIO], 0.9),
        Line("GPT 4 x 256, 128 tokens, batch 16", "gpt", [{"recipe": "4x256/128/16"}, *EAGER_RATIO], 1.2),
        Line("GPT 6 x 384, 256 tokens, batch 16", "gpt", [{"recipe": "6x384/256/16"}, *EAGER_RATIO], 1.2),
        Line("ViT, patches of 4 x 4, 6 x 128, batch 128", "images", [{"model": "vit"}, *EAGER_RATIO], 1.2),
        Line("ResNet 16-32-64, 3-3-3, batch 128", "images", [{"model": "resnet"}, *EAGER_RATIO], 1),
    ],
    "Tuple space, its speed over that of": [
        Line("a memcpy: 16 MiB, copied", "space", ["transports", IPC, *LARGE, "copied_to_memcpy"], 0.8),
        Line("a memcpy: 16 MiB, made in place", "space", ["transports", IPC, *LARGE, "in_place_to_memcpy"], 0.8),
        Line("a bare ZeroMQ hop: 16 MiB through tcp", "space", ["transports", TCP, *LARGE, "frames_to_bare_zeromq"], 0.9),
        Line("Redis: 100 bytes there and back, time, p50", "space", [*TRIP, "p50"], 1, smaller=True,
             over=("redis", ["round_trip_us", "p50"])),
        Line("Redis: 100 bytes there and back, time, p99", "space", [*TRIP, "p99"], 1, smaller=True,
             over=("redis", ["round_trip_us", "p99"])),
        Line("Redis: pairs of put and get", "space", ["transports", IPC, "put_get_pairs_per_s"], 3,
             over=("redis", ["pairs_per_s"])),
    ],
    BY_ITSELF: [
        Line("time to the end of the first step", "footprint", ["start_s"], 1, smaller=True, unit=" s"),
        Line("tiny tasks a second", "tiny tasks", ["tasks_per_s", "acan"], 50000, form="{:,.0f}"),
        Line("broker + manager for a task, shared memory", "control", [*RINGS, TEN, "both_us_per_task"], 20, **TASK),
        Line("its growth from 10 to 1,000 handlers", "control", [*RINGS, THOUSAND, "growth"], 1.2, smaller=True),
        Line("broker + manager for a task, sockets", "control", [*SOCKETS, TEN, "both_us_per_task"], 20, **TASK),
        Line("its growth from 10 to 1,000 handlers", "control", [*SOCKETS, THOUSAND, "growth"], 1.2, smaller=True),
        Line("memory over what a training has to have", "footprint", ["ratio"], 1.3, smaller=True),
    ],
}
REACHED, MISSED = "#2471a3", "#c0392b"


def fail(code, message):
    print(f"picture: {message}", file=sys.stderr)
    sys.exit(code)


def follow(value, step):
    if isinstance(step, str):
        return value.get(step) if isinstance(value, dict) else None
    elements = value if isinstance(value, list) else [value]
    return next((one for one in elements if isinstance(one, dict) and step.items() <= one.items()), None)


def number(reports, path):
    """Minimum, median and maximum in the first report that has the path."""
    for value in reports:
        for step in path:
            value = follow(value, step)
        if isinstance(value, dict) and "median" in value:
            return value.get("min", value.get("least")), value["median"], value.get("max", value.get("most"))
    return None


def read(paths):
    """The reports of each kind, the last one first."""
    sources = [one for lines in GROUPS.values() for line in lines for one in ((line.kind, line.path), line.over) if one]
    found = {kind: [] for kind in KINDS}
    for path in paths:
        try:
            report = json.loads(pathlib.Path(path).read_text())
        except (OSError, ValueError) as error:
            fail(2, f"{path}: cannot be read as a bench's report in JSON: {error}")
        top = report[0] if isinstance(report, list) and report else report
        kind = next((kind for kind, key in KINDS.items() if isinstance(top, dict) and key in top), None)
        if not any(number([report], steps) for source, steps in sources if source == kind):
            fail(2, f"{path}: has none of the numbers to draw; reports with {', '.join(KINDS.values())} at the top may")
        found[kind].insert(0, report)
    return found


def values_of(found, line):
    own = number(found[line.kind], line.path)
    peer = number(found[line.over[0]], line.over[1]) if line.over else (1, 1, 1)
    return [one / other for one, other in zip(own, reversed(peer))] if own and peer else None


def draw_line(axes, y, line, values, unit_of_x):
    def place(value):  # better values are further right
        return unit_of_x / value if line.smaller else value / unit_of_x

    least, median, most = values
    row = dict(transform=axes.get_yaxis_transform(), va="center")
    color, inside = (REACHED, REACHED) if place(median) >= place(line.aim) else (MISSED, "white")
    axes.plot([place(least), place(most)], [y, y], color=color, linewidth=2, solid_capstyle="butt")
    axes.plot([place(line.aim)] * 2, [y - 0.36, y + 0.36], color="black", linewidth=2, solid_capstyle="butt")
    axes.plot([place(median)], [y], "o", color=color, markerfacecolor=inside, markersize=7, markeredgewidth=1.8)
    axes.text(-0.84, y, line.label, **row)
    axes.text(1.03, y, line.form.format(median) + line.unit, color=color, weight="bold", **row)
    axes.text(1.22, y, f"{line.form.format(least)} to {line.form.format(most)}", color=color, **row)
    axes.text(1.56, y, f"{'≤' if line.smaller else '≥'} {line.aim:,g}{line.unit}", **row)


def draw(found, figure):
    groups = {group: [(line, values_of(found, line)) for line in lines] for group, lines in GROUPS.items()}
    groups = {group: lines for group, lines in groups.items() if any(values for _, values in lines)}
    missing = "; ".join(line.label for lines in groups.values() for line, values in lines if not values)
    notes = textwrap.wrap(f"Not in these reports: {missing}", 160) if missing else []
    groups = {group: [one for one in lines if one[1]] for group, lines in groups.items()}
    if not groups:
        fail(2, "there is nothing to draw: Redis' report needs one of acan bench space beside it")
    rows, bottom = sum(1 + len(lines) for lines in groups.values()), 1.1 + 0.14 * len(notes)
    height = 0.85 + 0.29 * rows + bottom  # in inches, like all that depends on the number of rows
    figure.set_size_inches(11.5, height)
    axes = figure.add_axes([0.33, bottom / height, 0.37, 0.29 * rows / height], xscale="log", yticks=[], ylim=(rows - 0.5, -0.5))
    row, y = dict(transform=axes.get_yaxis_transform(), va="center"), 0
    for group, lines in groups.items():
        axes.text(-0.87, y, group, weight="bold", **row)
        for y, (line, values) in enumerate(lines, y + 1):
            draw_line(axes, y, line, values, line.aim if group == BY_ITSELF else 1)
        y += 1
    axes.text(-0.87, -1.9, "Where acan stands against its aims", weight="bold", size=14, **row)
    for x, head in ((1.03, "median"), (1.22, "least to most"), (1.56, "aim")):
        axes.text(x, -1, head, style="italic", **row)
    finish(axes)
    figure.legend(ncol=3, frameon=False, loc="lower center", bbox_to_anchor=(0.515, (bottom - 0.9) / height))
    figure.text(0.01, 0.1 / height, "\n".join(notes), size=8, color="#555")


def finish(axes):
    axes.plot([], [], "o-", color=REACHED, markersize=7, linewidth=2, label="aim reached")
    axes.plot([], [], "o-", color=MISSED, markerfacecolor="white", markersize=7, linewidth=2, label="not reached")
    axes.plot([], [], "|", color="black", markersize=10, markeredgewidth=2, label="aim")
    low, high = min(axes.get_xlim()[0], 0.45), max(axes.get_xlim()[1], 2.2)
    axes.set_xlim(low, high)
    ticks = [tick for tick in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20) if low <= tick <= high]
    axes.set_xticks([], minor=True)
    axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.grid(axis="x", color="#ddd")
    axes.axvline(1, color="#888", linewidth=1, zorder=0.5)
    axes.set_axisbelow(True)
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.set_xlabel("further right is better (log scale)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", metavar="FILE.json")
    parser.add_argument("--svg", required=True, metavar="OUT.svg")
    arguments = parser.parse_args()
    found = read(arguments.reports)
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        fail(1, f"{error}: install Debian's python3-matplotlib, and run this with /usr/bin/python3")
    # The same numbers make the same file. Text stays text, in the viewer's font.
    matplotlib.rcParams.update({"svg.hashsalt": "acan", "svg.fonttype": "none"})
    figure = Figure(facecolor="white")
    draw(found, figure)
    try:
        figure.savefig(arguments.svg, format="svg", metadata={"Date": None})
    except OSError as error:
        fail(1, f"{arguments.svg}: cannot be written: {error}")


if __name__ == "__main__":
    main()

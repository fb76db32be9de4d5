#!/usr/bin/env python3
"""Draws the results of run.py as pictures (SVG), with only Python's standard library.

  bench/paper/draw.py --out bench/results/paper out1.json out2.json ...

writes OUT-loss.svg (experiment 1), and for experiments 2 and 3 OUT-adaptability.svg,
OUT-robustness.svg (time-out and handler power over time) and OUT-policies.svg (losses of all runs).
Pictures without runs are left out.
"""
import argparse
import json

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 740, 240, 80, 80, 40, 40
COLOURS = ("#1f6fb4", "#d1495b", "#2a9d5c", "#8a5ab5", "#e08a1e", "#555555")


def ticks(low, high, count=5):
    """Round numbers that cover low..high."""
    span = max(high - low, 1e-12)
    step = 10 ** len(str(int(span))) / 1e3
    while span / step > count:
        step *= 2 if str(f"{step:e}")[0] in "15" else 2.5
    first = int(low / step) * step
    return [first + i * step for i in range(int(span / step) + 2) if low <= first + i * step <= high * 1.0001]


class Panel:
    """One diagram: lines over a common x axis, with one or two y axes."""

    def __init__(self, title, x_label):
        self.title, self.x_label = title, x_label
        self.lines = []  # (points, colour, label, axis 0 or 1, steps)
        self.y_labels = ["", ""]

    def line(self, points, label, axis=0, steps=False):
        points = [(x, y) for x, y in points if y is not None]
        self.lines.append((points, COLOURS[len(self.lines) % len(COLOURS)], label, axis, steps))

    def draw(self, top):
        x_most = max(x for points, *_ in self.lines for x, _ in points)
        scale = {}
        for axis in (0, 1):
            values = [y for points, _, _, a, _ in self.lines if a == axis for _, y in points]
            if values:
                scale[axis] = max(values) * 1.08 or 1.0
        across = lambda x: LEFT + x / (x_most or 1) * (WIDTH - LEFT - RIGHT)
        up = lambda y, axis: top + HEIGHT - BOTTOM - y / scale[axis] * (HEIGHT - TOP - BOTTOM)
        svg = [f'<text x="{LEFT}" y="{top + 16}" class="title">{self.title}</text>']
        for x in ticks(0, x_most, 8):
            svg.append(f'<line x1="{across(x):.1f}" x2="{across(x):.1f}" y1="{top + TOP}" '
                       f'y2="{top + HEIGHT - BOTTOM}" class="grid"/>'
                       f'<text x="{across(x):.1f}" y="{top + HEIGHT - BOTTOM + 14}" '
                       f'text-anchor="middle">{x:g}</text>')
        svg.append(f'<text x="{WIDTH - RIGHT}" y="{top + HEIGHT - 10}" text-anchor="end">{self.x_label}</text>')
        for axis, most in scale.items():
            x = LEFT - 6 if axis == 0 else WIDTH - RIGHT + 6
            anchor = "end" if axis == 0 else "start"
            for y in ticks(0, most):
                if axis == 0:
                    svg.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(y, axis):.1f}" '
                               f'y2="{up(y, axis):.1f}" class="grid"/>')
                svg.append(f'<text x="{x}" y="{up(y, axis) + 4:.1f}" text-anchor="{anchor}">{y:g}</text>')
            svg.append(f'<text x="{x}" y="{top + TOP - 8}" text-anchor="{anchor}">{self.y_labels[axis]}</text>')
        label_x = LEFT + 130
        for points, colour, label, axis, steps in self.lines:
            path, last = [], None
            for x, y in points:
                if steps and last is not None:
                    path.append(f"{across(x):.1f},{up(last, axis):.1f}")
                path.append(f"{across(x):.1f},{up(y, axis):.1f}")
                last = y
            svg.append(f'<polyline points="{" ".join(path)}" stroke="{colour}" class="line"/>')
            svg.append(f'<text x="{label_x}" y="{top + TOP - 8}" fill="{colour}">{label}</text>')
            label_x += 20 + 6.5 * len(label)
        return "\n".join(svg)


def write(path, panels):
    body = "\n".join(panel.draw(i * HEIGHT) for i, panel in enumerate(panels))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(panels)}" '
                   f'width="{WIDTH}" height="{HEIGHT * len(panels)}">\n'
                   "<style>text{font:11px sans-serif}.title{font:bold 13px sans-serif}"
                   ".grid{stroke:#ddd;stroke-width:1}.line{fill:none;stroke-width:1.5}</style>\n"
                   f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n')
    print(path)


def name_of(run):
    return f"{run['policy']}, {run['size']}"


def loss_panel(title, runs):
    panel = Panel(title, "steps")
    panel.y_labels[0] = "loss"
    for run in runs:
        panel.line(list(enumerate(run["loss"])), name_of(run))
    return panel


def timeout_panels(runs):
    panels = []
    for run in runs:
        rank = run["spearman_timeout_power"]
        note = "" if rank is None else f"; rank correlation {rank:.2f}"
        panel = Panel(f"{name_of(run)}: {run['pouches'] or 'no'} pouches{note}", "seconds")
        panel.y_labels = ["time-out, ms", "power, units"]
        panel.line([(s[0], s[1]) for s in run["series"]], "time-out")
        panel.line([(s[0], s[2]) for s in run["series"]], "power", axis=1, steps=True)
        panels.append(panel)
    return panels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="the beginning of the pictures' paths")
    parser.add_argument("runs", nargs="+", help="what run.py printed")
    args = parser.parse_args()
    runs = []
    for path in args.runs:
        with open(path, encoding="utf-8") as file:
            runs += [json.loads(line) for line in file if line.strip()]
    by = {n: [run for run in runs if run["experiment"] == n] for n in (1, 2, 3)}
    if by[1]:
        write(f"{args.out}-loss.svg", [loss_panel("Experiment 1, feasibility: 100 data, 2 epochs", by[1])])
    if by[2]:
        write(f"{args.out}-adaptability.svg", timeout_panels(by[2]))
    if by[3]:
        write(f"{args.out}-robustness.svg", timeout_panels(by[3]))
    both = [loss_panel(f"Experiment {n}: {what}", by[n]) for n, what in
            ((2, "speeds change every 5 s"), (3, "and manager and handlers are killed")) if by[n]]
    if both:
        write(f"{args.out}-policies.svg", both)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a setting of a job or a change of the program costs: trains the same job with and without
it, alternately, and prints the ratio of the steps per second (with over without; 0.97 is a cost of
3 %) as JSON.

    python3 bench/compare/settings.py --without snapshots.every_steps=0            # what snapshots cost
    python3 bench/compare/settings.py --with tasks.audit=0.05 --rounds 9           # what audits cost
    python3 bench/compare/settings.py --acan build/a/bin/acan --other build/b/bin/acan     # a over b

The job is that of `acan bench train` (784-4096-4096-10, batch 512, two handlers of one thread);
--job selects another one.
"""
import argparse
import json
import pathlib

from acan_run import NO_EVALUATION, steps_per_second, summary

JOB = f"""[model]
layers = [784, 4096, 4096, 10]
loss = "mse"
[data]
generated = "regression"
samples = 4096
[train]
batch = 512
epochs = 12
learning_rate = 0.01
{NO_EVALUATION}
"""
WARM_STEPS = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--other", metavar="ACAN", help="the program of the runs without; default: the same")
    parser.add_argument("--job", help="a job file with absolute paths")
    parser.add_argument("--handlers", default="2xcpu:1")
    parser.add_argument("--with", dest="on", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--without", dest="off", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    job = pathlib.Path(arguments.job).read_text() if arguments.job else JOB
    ratios, rates = [], {"with": [], "without": []}
    for round_number in range(arguments.rounds):
        order = ["with", "without"] if round_number % 2 == 0 else ["without", "with"]
        for which in order:
            words = ["--handlers", arguments.handlers]
            for setting in arguments.on if which == "with" else arguments.off:
                words += ["--set", setting]
            program = arguments.other if arguments.other and which == "without" else arguments.acan
            rates[which].append(steps_per_second(program, job, words, WARM_STEPS))
        ratios.append(rates["with"][-1] / rates["without"][-1])
    print(json.dumps(dict(ratio=summary(ratios), steps_per_s={which: summary(values) for which, values in rates.items()},
                          settings={"with": arguments.on, "without": arguments.off})))


if __name__ == "__main__":
    main()

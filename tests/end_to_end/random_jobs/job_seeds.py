"""The loop of random_jobs.py and torch_jobs.py over their seeds."""
import collections
import json
import pathlib
import sys
import tempfile


def check_seeds(arguments, check_one):
    """Calls the check for each seed with a folder, prints the counts, and exits with 1 if there were findings."""
    counts = collections.Counter()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        if arguments.keep:
            folder = pathlib.Path(arguments.keep) / str(seed)
            folder.mkdir(parents=True, exist_ok=True)
            check_one(arguments, seed, counts, folder)
        else:
            with tempfile.TemporaryDirectory() as name:
                check_one(arguments, seed, counts, pathlib.Path(name))
    print(json.dumps({"seeds": [arguments.seed, arguments.seed + arguments.count - 1], **counts}))
    sys.exit(1 if counts["findings"] else 0)

"""Checks that random_jobs.py and torch_jobs.py run on the folder of a trained job, with acan eval and acan
generate."""
import json
import os
import subprocess

from job_run import TIME_LIMIT_S


def predicts_tokens(job):
    """Whether the job's model predicts the next token of a stream at each position."""
    return job.kind in ("gpt", "llama") or \
        (job.kind == "graph" and "train_labels" not in job.data and "train_inputs" not in job.data)


def run(arguments, words, environment=None):
    return subprocess.run([arguments.acan, *map(str, words)], capture_output=True, text=True, timeout=TIME_LIMIT_S,
                          env={**os.environ, **(environment or {})})


def generated(arguments, job, prompt, count, device, environment=None, temperature=0, seed=1):
    """The numbers of the tokens that follow `prompt`, which is a text if the folder has a vocabulary."""
    return run(arguments, ["generate", job.folder / "out", "--prompt-tokens", ",".join(map(str, prompt)), "--tokens",
                           count, "--temperature", temperature, "--seed", seed, "--device", device], environment)


def check_folder(arguments, job, draw, tests, handlers):
    """Returns findings: these handlers must evaluate to the run's own result, and all devices must generate the
    same text."""
    if tests:
        done = run(arguments, ["eval", job.folder / "out", "--handlers", handlers, "--json"])
        found = json.loads(done.stdout.splitlines()[-1])["test_loss"] if done.returncode == 0 else None
        if found != tests[-1]:
            yield f"acan eval by {handlers} ended with {done.returncode}, {found} and not {tests[-1]}: {done.stderr}"
    if not predicts_tokens(job):
        return
    prompt = [draw.randrange(2) for _ in range(draw.randint(1, 12))]
    count, temperature, seed = draw.randint(1, 30), draw.choice([0, 0.7, 1.5]), draw.randrange(2**40)
    ways = [("cpu:1", "avx512"), ("cpu:1", "avx2"), (f"cpu:{draw.randint(2, 3)}", "portable")]
    ways += [("opencl:0", "avx2")] * arguments.opencl
    first = None
    for device, isa in [(device, isa) for device, isa in ways if isa in arguments.isas]:
        done = generated(arguments, job, prompt, count, device, {"ACAN_CPU_ISA": isa}, temperature, seed)
        found = done.returncode, done.stdout if done.returncode == 0 else ""
        first = first or found
        if found != first or found[0] not in (0, 2):
            yield f"acan generate after {prompt} on {device} with {isa} made {found} and not {first}: {done.stderr}"

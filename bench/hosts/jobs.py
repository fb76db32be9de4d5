"""The jobs that hosts.py trains: as acan's job files, as PyTorch's nets and batches, and the bytes
that links must carry for them."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compare"))
import gpt  # noqa: E402
from acan_run import NO_EVALUATION, steps_ended  # noqa: E402, F401
from nets import make_gpt  # noqa: E402

JOBS = {
    "wide": dict(layers=[784, 2048, 2048, 10], batch=256, optimizer="momentum"),
    "first": dict(layers=[784, 512, 256, 10], batch=128, optimizer="sgd"),
    "gpt": dict(recipe="4x256/128/16", batch=gpt.RECIPES["4x256/128/16"]["batch"]),
}
RATE = 0.01
BATCHES_OF_EPOCH = 16
TEXT_STEPS = 400  # the text of a GPT is long enough for this many steps; then its windows repeat


# ---- acan ------------------------------------------------------------------------------------------------------

def sections_of(job, steps, folder):
    """The lines of each section of the job's file."""
    if "recipe" in job:
        recipe, path = gpt.RECIPES[job["recipe"]], folder / "text.txt"
        path.write_text(gpt.make_text(gpt.text_length(recipe, TEXT_STEPS)))
        sections, lines = {}, []
        for line in gpt.job_text(recipe, path, steps, gpt.ADAMW, 0).splitlines():
            if line.startswith("["):
                lines = sections[line.strip("[]")] = []
            else:
                lines.append(line)
        return sections
    return {
        "model": [f"layers = {job['layers']}", 'activation = "relu"', 'loss = "mse"'],
        "data": ['generated = "regression"', f"samples = {job['batch'] * BATCHES_OF_EPOCH}"],
        "train": [f"batch = {job['batch']}", f"learning_rate = {RATE}", f'optimizer = "{job["optimizer"]}"',
                  f"epochs = {-(-steps // BATCHES_OF_EPOCH)}", NO_EVALUATION],
    }


def job_text(job, steps, settings, folder):
    """A job file, with `settings` (SECTION.KEY=VALUE) in place of its own keys; its data are in
    `folder`."""
    sections = sections_of(job, steps, folder)
    for setting in settings:
        place, value = setting.split("=", 1)
        section, key = place.split(".", 1)
        kept = [line for line in sections.get(section, []) if line.split(" = ")[0] != key]
        sections[section] = kept + [f"{key} = {value}"]
    return "".join(f"[{name}]\n" + "\n".join(each) + "\n" for name, each in sections.items())


# ---- bytes -----------------------------------------------------------------------------------------------------

def gpt_parameters(recipe):
    """The number of parameters of nanoGPT's model, whose head is tied."""
    width = recipe["width"]
    block = 12 * width * width + 13 * width
    return recipe["layers"] * block + 2 * width + (len(gpt.CHARACTERS) + recipe["tokens"]) * width


def least_bytes(job, hosts):
    """The least bytes that links between `hosts` handler hosts and the manager's must carry per
    step; each direction of a link counts once. By weights: the batch goes to each host. Of each
    layer between two wide ones, half crosses forward and backward in every second layer, if the
    weights are cut alternately along outputs and inputs."""
    if "recipe" in job:
        recipe = gpt.RECIPES[job["recipe"]]
        tokens = 2 * 4 * job["batch"] * recipe["tokens"]  # with the labels
        return dict(by_rows=2 * (hosts - 1) * 4 * gpt_parameters(recipe) + tokens)
    layers, batch = job["layers"], job["batch"]
    weights = sum(4 * outputs * (inputs + 1) for inputs, outputs in zip(layers, layers[1:]))
    inputs = 4 * batch * layers[0]
    between = sum(4 * batch * width for width in layers[2:-1:2]) * 2 * (hosts - 1)
    return dict(by_rows=2 * (hosts - 1) * weights + inputs, by_weights=hosts * inputs + between)


# ---- PyTorch ---------------------------------------------------------------------------------------------------

def torch_net(job):
    """The net and a function that makes its optimizer. net(inputs, labels) returns the loss."""
    import torch
    if "recipe" in job:
        return make_gpt(gpt.RECIPES[job["recipe"]], len(gpt.CHARACTERS)), gpt.make_optimizer
    parts = []
    for inputs, outputs in zip(job["layers"], job["layers"][1:]):
        parts += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]

    class Perceptron(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.loss = torch.nn.Sequential(*parts[:-1]), torch.nn.MSELoss()

        def forward(self, inputs, targets):
            return self.loss(self.layers(inputs), targets)

    momentum = 0.9 if job["optimizer"] == "momentum" else 0.0
    return Perceptron(), lambda net: torch.optim.SGD(net.parameters(), lr=RATE, momentum=momentum)


def torch_batches(job, rank, world):
    """The (inputs, labels) of one rank, for some batches that are used in turn."""
    import torch
    share = job["batch"] // world
    if "recipe" in job:
        recipe = gpt.RECIPES[job["recipe"]]
        text = gpt.make_text(gpt.text_length(recipe, TEXT_STEPS))
        whole = [each for each in gpt.batches(text, recipe, BATCHES_OF_EPOCH)]
        return [(tokens[rank * share:][:share], labels[rank * share:][:share]) for tokens, labels in whole]
    return [(torch.rand(share, job["layers"][0]), torch.rand(share, job["layers"][-1]))
            for _ in range(BATCHES_OF_EPOCH)]

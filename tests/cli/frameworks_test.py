#!/usr/bin/env python3
"""Exchanges models with other frameworks in both directions: frameworks_test.py ACAN.

transformers or torchvision saves a small model with random weights. acan evaluates it, trains it further for some
steps, and evaluates it again. Both losses must equal those that the framework computes on the same samples with the
weights in acan's folder, which it must load without a warning. `acan embed` must give the same vectors as a BertModel.

Exit code: 0 all right, 1 something differs, 77 skipped: torch, transformers, torchvision or safetensors are not
installed (pip install torch transformers torchvision safetensors).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is fetched
os.environ["USE_TF"] = "0"
try:
    import numpy
    import torch
    import torchvision
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"SKIPPED: models of other frameworks were not trained: {error}")
    sys.exit(77)

SAMPLES, TOKENS, VOCABULARY, STEPS = 6, 8, 32, 3
CLOSE = 1e-5  # relative tolerance of a loss
IGNORED = -100

GPT = """kind = "gpt"
n_layer = 2
n_head = 2
n_embd = 16
block_size = 8
vocab_size = 32
"""
LLAMA = """kind = "llama"
vocab_size = 32
hidden_size = 16
intermediate_size = 24
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
max_position_embeddings = 8
"""
BERT = """kind = "bert"
vocab_size = 32
hidden_size = 16
intermediate_size = 24
num_hidden_layers = 2
num_attention_heads = 2
max_position_embeddings = 8
hidden_dropout_prob = 0
attention_probs_dropout_prob = 0
"""
VIT = """kind = "vit"
image_size = 8
patch_size = 4
num_layers = 2
num_heads = 2
hidden_dim = 16
mlp_dim = 24
num_classes = 5
"""
RESNET = """kind = "resnet"
image_size = 32
num_classes = 5
"""


# ---- the models: each returns a module ----

def gpt():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=16, n_positions=TOKENS, vocab_size=VOCABULARY, resid_pdrop=0,
        embd_pdrop=0, attn_pdrop=0, bos_token_id=None, eos_token_id=None))


def llama(tied):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=TOKENS,
        tie_word_embeddings=tied, bos_token_id=None, eos_token_id=None))


def bert_config(**more):
    return transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=TOKENS, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0, **more)


def vit():
    net = torchvision.models.VisionTransformer(image_size=8, patch_size=4, num_layers=2,
                                               num_heads=2, hidden_dim=16, mlp_dim=24,
                                               num_classes=5)
    torch.nn.init.normal_(net.heads.head.weight, std=0.1)  # torchvision initializes it with zeros
    return net


def resnet():
    return torchvision.models.resnet18(num_classes=5)


# ---- their data, in the forms for acan and for the framework ---- --------------------------------

def stream(folder):
    tokens = numpy.random.default_rng(1).integers(0, VOCABULARY, SAMPLES * TOKENS + TOKENS)
    numpy.save(folder / "tokens.npy", tokens.astype(numpy.int32))
    tokens = torch.from_numpy(tokens)[:SAMPLES * TOKENS + 1]
    inputs, labels = tokens[:-1].view(SAMPLES, TOKENS), tokens[1:].view(SAMPLES, TOKENS)
    keys = 'train_tokens = "tokens.npy"\ntest_tokens = "tokens.npy"\n'
    return keys, lambda module: (module(inputs).logits, labels)


def sequences(folder, classes=None):
    draw = numpy.random.default_rng(2)
    tokens = draw.integers(0, VOCABULARY, (SAMPLES, TOKENS))
    lengths = draw.integers(2, TOKENS + 1, SAMPLES)
    if classes:
        labels = draw.integers(0, classes, SAMPLES)
    else:
        labels = numpy.where(draw.random((SAMPLES, TOKENS)) < 0.4, tokens, IGNORED)
    keys = ""
    for name, values in (("tokens", tokens), ("labels", labels), ("lengths", lengths)):
        numpy.save(folder / f"{name}.npy", values.astype(numpy.int32))
        keys += f'train_{name} = "{name}.npy"\ntest_{name} = "{name}.npy"\n'
    mask = torch.arange(TOKENS)[None, :] < torch.from_numpy(lengths)[:, None]
    return keys, lambda module: (module(torch.from_numpy(tokens), attention_mask=mask.long()).logits,
                                 torch.from_numpy(labels))


def images(folder, side):
    draw = numpy.random.default_rng(3)
    pixels = draw.integers(0, 256, (SAMPLES, 3, side, side)).astype(numpy.uint8)
    labels = draw.integers(0, 5, SAMPLES)
    numpy.save(folder / "images.npy", pixels)
    numpy.save(folder / "labels.npy", labels.astype(numpy.int32))
    keys = "".join(f'{part}_inputs = "images.npy"\n{part}_labels = "labels.npy"\n'
                   for part in ("train", "test")) + 'layout = "CHW"\n'
    return keys, lambda module: (module(torch.from_numpy(pixels).float() / 255),
                                 torch.from_numpy(labels))


CASES = {
    "gpt": (gpt, GPT, stream),
    "llama": (lambda: llama(False), LLAMA, stream),
    "llama_tied": (lambda: llama(True), LLAMA + "tie_word_embeddings = true\n", stream),
    "bert_masked": (lambda: transformers.BertForMaskedLM(bert_config()),
                    BERT + 'task = "masked_language"\n', sequences),
    "bert_classes": (lambda: transformers.BertForSequenceClassification(bert_config(num_labels=3)),
                     BERT + 'task = "classification"\nnum_labels = 3\n',
                     lambda folder: sequences(folder, 3)),
    "vit": (vit, VIT, lambda folder: images(folder, 8)),
    "resnet": (resnet, RESNET, lambda folder: images(folder, 32)),
}


def save(module, folder):
    folder.mkdir()
    if isinstance(module, transformers.PreTrainedModel):
        module.save_pretrained(folder)
    else:
        save_file(module.state_dict(), folder / "model.safetensors")


def load(module, folder):
    """A module of the same class with the weights of the folder; none may be left over or missing."""
    if not isinstance(module, transformers.PreTrainedModel):
        other = vit() if hasattr(module, "conv_proj") else resnet()
        other.load_state_dict(load_file(folder / "model.safetensors"), strict=True)
        return other
    other, info = type(module).from_pretrained(folder, output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value}
    if wrong:
        raise AssertionError(f"loading {folder} says {wrong}")
    return other


def run(acan, *words):
    done = subprocess.run([acan, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"acan {words} failed: {done.stderr}")


def check(name, acan, folder):
    make, keys, data_of = CASES[name]
    torch.manual_seed(1)
    module = make()
    data, outputs_of = data_of(folder)
    save(module, folder / "saved")
    config = isinstance(module, transformers.PreTrainedModel)
    (folder / "job.toml").write_text(
        f'[model]\n{keys}initial_weights = "saved/model.safetensors"\n[data]\n{data}'
        f'[train]\nbatch = 3\noptimizer = "adamw"\nlearning_rate = 1e-3\n'
        f'[output]\nconfig = "{"transformers" if config else "none"}"\n')
    losses = []
    for steps in (0, STEPS):
        out = folder / f"out-{steps}"
        run(acan, "train", folder / "job.toml", "--set", f"train.steps={steps}", "--out", out,
            "--handlers", "cpu:1")
        found = json.loads((out / "receipt.json").read_text())["test_loss"]
        losses.append(found)
        loaded = load(module, out).eval()
        with torch.no_grad():
            logits, labels = outputs_of(loaded)
            expected = torch.nn.functional.cross_entropy(
                logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=IGNORED)
            if steps == 0:
                apart = (outputs_of(module.eval())[0] - logits).abs().max().item()
                assert apart <= 1e-4, f"{name}: the logits differ by {apart}"
        assert abs(found - expected) <= CLOSE * expected, f"{name}: {found}, not {expected}"
    assert losses[0] != losses[1], f"{name}: nothing was trained"
    print(f"{name:13} losses {losses[0]:.6f}, {losses[1]:.6f}")


def check_embed(acan, folder, which):
    torch.manual_seed(2)
    saved = EMBEDDED[which]().eval()
    save(saved, folder / "saved")
    module = getattr(saved, "bert", saved)
    draw = numpy.random.default_rng(4)
    tokens, types = (draw.integers(0, most, (SAMPLES, TOKENS)) for most in (VOCABULARY, 2))
    lengths = draw.integers(1, TOKENS + 1, SAMPLES)
    words = ["embed", folder / "saved"]
    for name, values in (("tokens", tokens), ("token-types", types), ("lengths", lengths)):
        numpy.save(folder / f"{name}.npy", values)
        words += [f"--{name}", folder / f"{name}.npy"]
    mask = (torch.arange(TOKENS)[None, :] < torch.from_numpy(lengths)[:, None]).long()
    with torch.no_grad():
        outputs = module(torch.from_numpy(tokens), attention_mask=mask,
                         token_type_ids=torch.from_numpy(types))
    hidden = outputs.last_hidden_state
    mean = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
    expected = {"sentence_embedding": torch.nn.functional.normalize(mean),
                "last_hidden_state": hidden.reshape(-1, hidden.shape[-1])}
    if outputs.pooler_output is not None:
        expected["pooler_output"] = outputs.pooler_output
    for name, value in expected.items():
        run(acan, *words, "--output", name, "--out", folder / f"{name}.npy")
        found = numpy.load(folder / f"{name}.npy")
        assert found.shape == tuple(value.shape), f"{name} has shape {found.shape}"
        apart = numpy.abs(found - value.numpy()).max()
        assert apart <= 1e-5, f"{name} differs by {apart}"
        print(f"{which} {name:20} differs by {apart:.1e}")
    model = (folder / "saved/model.safetensors").read_bytes()
    refused = subprocess.run([acan, *words, "--out", folder / "saved/model.safetensors"],
                             capture_output=True, text=True)
    assert refused.returncode == 2 and "is the input file" in refused.stderr, refused.stderr
    assert (folder / "saved/model.safetensors").read_bytes() == model
    numbered = folder / "numbered.csv"
    rows = [range(TOKENS), *tokens, [1] * (TOKENS - 1) + [0]]  # BERT pads with 0
    numbered.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    warned = subprocess.run([acan, "embed", folder / "saved", "--tokens", numbered, "--out",
                             folder / "numbered.npy"], capture_output=True, text=True)
    assert warned.returncode == 0 and "takes it for a sample" in warned.stderr, warned.stderr
    assert "ends with pad_token_id, 0" in warned.stderr, warned.stderr


EMBEDDED = {
    "embed": lambda: transformers.BertModel(bert_config()),
    "embed_classifier": lambda: transformers.BertForSequenceClassification(bert_config()),
    "embed_masked": lambda: transformers.BertForMaskedLM(bert_config()),
    "embed_without_pooling": lambda: transformers.BertModel(bert_config(),
                                                            add_pooling_layer=False),
}


def main():
    good = True
    for name in [*CASES, *EMBEDDED]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                if name in EMBEDDED:
                    check_embed(sys.argv[1], pathlib.Path(folder), name)
                else:
                    check(name, sys.argv[1], pathlib.Path(folder))
            except AssertionError as error:
                print(f"{name}: {error}")
                good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares whole models with PyTorch in float64: torch_test.py GRAPH_STEP.

GRAPH_STEP (graph_step.cpp) computes one training step of a small model of each preset. This test
loads the same parameters, with the names and layouts of a model file, into the class that the
preset corresponds to, and compares the loss, every gradient, and the running statistics.

Exit code: 0 all equal, 1 something differs, 77 skipped: torch, transformers or torchvision are
not installed (pip install torch transformers torchvision).
"""
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"  # downloads nothing
os.environ["USE_TF"] = "0"
try:
    import numpy
    import torch
    import torchvision
    import transformers
    from torch import nn
    from torchvision.models import resnet
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
except ImportError as error:
    print(f"SKIPPED: whole models were not compared with PyTorch: {error}")
    sys.exit(77)

IGNORED = -100
# transformers computes Llama's norms and angles in float32 whatever the model's data type is.
TOLERANCES = {"llama": 2e-5, "llama_tied": 2e-5}
TOLERANCE = 1e-7  # acan's attention stores its scale in float32


def f32(value):
    """`value` as acan stores the option."""
    return float(numpy.float32(value))


def integers(step, name):
    """An integer input as [samples, positions]."""
    return torch.tensor(step["inputs"][name], dtype=torch.int64).reshape(step["samples"], -1)


def images(step, height, width):
    """[samples, channels, height, width] from rows that are pixels in scan order."""
    pixels = torch.tensor(step["inputs"]["images"], dtype=torch.float64)
    return pixels.reshape(step["samples"], height, width, -1).permute(0, 3, 1, 2).contiguous()


def cross_entropy(logits, labels, smoothing=0.0):
    return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1),
                                       ignore_index=IGNORED, label_smoothing=smoothing)


# ---- the models: each returns the module, and a function that gives the loss of a step ----


def gpt(activation="gelu_new", smoothing=0.0):
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=6, n_positions=7, vocab_size=11, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, activation_function=activation, layer_norm_epsilon=f32(1e-5),
        attn_implementation="sdpa")
    model = transformers.GPT2LMHeadModel(config)
    return model, lambda step: cross_entropy(model(integers(step, "tokens")).logits,
                                             integers(step, "labels"), smoothing)


def llama(tied):
    config = transformers.LlamaConfig(
        vocab_size=11, hidden_size=12, intermediate_size=7, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=5,
        head_dim=6, rope_theta=100.0, rms_norm_eps=f32(0.01), tie_word_embeddings=tied,
        attention_bias=tied, mlp_bias=tied, attn_implementation="sdpa")
    model = transformers.LlamaForCausalLM(config)
    return model, lambda step: cross_entropy(model(integers(step, "tokens")).logits,
                                             integers(step, "labels"))


def bert(kind, **options):
    config = transformers.BertConfig(
        vocab_size=11, hidden_size=6, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=5, max_position_embeddings=8, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0, hidden_act="silu", layer_norm_eps=f32(0.01),
        attn_implementation="sdpa", **options)
    model = kind(config)

    def loss(step):
        tokens = integers(step, "tokens")
        mask = torch.arange(tokens.shape[1])[None, :] < integers(step, "lengths")
        logits = model(tokens, attention_mask=mask.to(torch.int64),
                       token_type_ids=integers(step, "token_type_ids")).logits
        return cross_entropy(logits, integers(step, "labels"))

    return model, loss


def of_images(model, height, width):
    return model, lambda step: cross_entropy(model(images(step, height, width)),
                                             integers(step, "labels"))


def vit():
    return of_images(torchvision.models.VisionTransformer(
        image_size=6, patch_size=2, num_layers=2, num_heads=2, hidden_dim=6, mlp_dim=5,
        num_classes=3, norm_layer=functools.partial(nn.LayerNorm, eps=f32(1e-6))), 6, 6)


class SmallResnet(nn.Module):
    """torchvision's ResNet with widths that it does not offer, and the same blocks and names."""

    def __init__(self, block, norm):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
        self.bn1 = norm(4)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = 4
        for stage, (width, blocks) in enumerate([(4, 1), (6, 2)], 1):
            layer = []
            for place in range(blocks):
                stride = 2 if stage > 1 and place == 0 else 1
                outputs = width * block.expansion
                shortcut = None
                if stride != 1 or inputs != outputs:
                    shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                             norm(outputs))
                layer.append(block(inputs, width, stride, shortcut, norm_layer=norm))
                inputs = outputs
            setattr(self, f"layer{stage}", nn.Sequential(*layer))
        self.fc = nn.Linear(inputs, 3)

    def forward(self, x):
        x = self.maxpool(nn.functional.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(x.mean((2, 3)))


def residual(block, norm):
    return of_images(SmallResnet(block, norm), 13, 14)


def small_stem():
    """model/README.md says what to change in the class."""
    model = SmallResnet(resnet.BasicBlock, BATCH_NORM)
    model.conv1 = nn.Conv2d(3, 4, 3, 1, 1, bias=False)
    model.maxpool = nn.Identity()
    return of_images(model, 6, 5)


def convnext():
    model = ConvNeXt([CNBlockConfig(3, 4, 1), CNBlockConfig(4, None, 2)],
                     stochastic_depth_prob=0.0, num_classes=3)
    model.features[0][0] = nn.Conv2d(3, 3, 2, 2)  # torchvision's stem has patches of 4
    return of_images(model, 12, 8)


BATCH_NORM = functools.partial(nn.BatchNorm2d, eps=f32(1e-5), momentum=f32(0.1))
GROUP_NORM = functools.partial(nn.GroupNorm, 2, eps=f32(1e-5))
MODELS = {
    "gpt": gpt,
    "gpt_smooth": functools.partial(gpt, "gelu", f32(0.1)),
    "llama": functools.partial(llama, False),
    "llama_tied": functools.partial(llama, True),
    "bert_masked": functools.partial(bert, transformers.BertForMaskedLM),
    "bert_classification": functools.partial(
        bert, transformers.BertForSequenceClassification, num_labels=3),
    "vit": vit,
    "resnet_basic": functools.partial(residual, resnet.BasicBlock, BATCH_NORM),
    "resnet_bottleneck": functools.partial(residual, resnet.Bottleneck, BATCH_NORM),
    "resnet_group_norm": functools.partial(residual, resnet.BasicBlock, GROUP_NORM),
    "resnet_small_stem": small_stem,
    "convnext": convnext,
}

# ---- the comparison ----


def load(model, step):
    """Every parameter of the step must be one of the model's; other parameters of the model
    must be tied to one of them or count steps."""
    state = {name: torch.tensor(tensor["values"], dtype=torch.float64).reshape(tensor["shape"])
             for name, tensor in step["parameters"].items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected:
        raise AssertionError(f"the class has no {unexpected}")
    owners = dict(model.named_parameters())  # lists a tied parameter once
    for name in missing:
        if name in owners:
            raise AssertionError(f"the step has no {name}")


def difference(found, expected):
    """The largest difference, relative to the largest element."""
    found = numpy.asarray(found, dtype=numpy.float64).reshape(-1)
    expected = expected.detach().numpy().reshape(-1)
    if found.shape != expected.shape:
        raise AssertionError(f"{found.size} elements in place of {expected.size}")
    return float(numpy.abs(found - expected).max() / max(numpy.abs(expected).max(), 1e-12))


def compare(name, step):
    model, loss_of = MODELS[name]()
    model.to(torch.float64).train()
    load(model, step)
    loss = loss_of(step)
    loss.backward()
    differences = {"loss": difference([step["loss"]], loss)}
    expected = {key: value.grad for key, value in model.named_parameters()}
    if set(expected) != set(step["gradients"]):
        raise AssertionError(f"other gradients: {set(expected) ^ set(step['gradients'])}")
    for key, gradient in step["gradients"].items():
        # A bias before a batch norm has the gradient 0, so both sides consist of rounding errors
        # only.
        scale = max(float(expected[key].abs().max()), 1e-6)
        found = torch.tensor(gradient, dtype=torch.float64).reshape(expected[key].shape)
        differences[key] = float((found - expected[key]).abs().max()) / scale
    buffers = {key: value for key, value in model.named_buffers()
               if key.split(".")[-1].startswith("running_")}
    statistics = step.get("statistics", {})
    if set(buffers) != set(statistics):
        raise AssertionError(f"other statistics: {set(buffers) ^ set(statistics)}")
    for key, values in statistics.items():
        differences[key] = difference(values, buffers[key])
    # NaN, such as that of a value which JSON has as null, is the worst.
    worst = max(differences, key=lambda key: numpy.nan_to_num(differences[key], nan=numpy.inf))
    print(f"{name:20} {len(differences):4} tensors, worst {differences[worst]:.1e} ({worst})")
    tolerance = TOLERANCES.get(name, TOLERANCE)
    return all(each <= tolerance for each in differences.values())


def main():
    torch.manual_seed(1)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        steps = sorted(pathlib.Path(folder).glob("*.json"))
        if {path.stem for path in steps} != set(MODELS):
            raise AssertionError("graph_step and this test have other models")
        for path in steps:
            good = compare(path.stem, json.loads(path.read_text())) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

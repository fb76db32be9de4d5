#!/usr/bin/env python3
"""Loads acan's model files in the frameworks: transformers_test.py MODEL_FILE_MAKER.

MODEL_FILE_MAKER (model_file_maker.cpp) writes model files whose values it computes from their
positions in acan's matrices. transformers and torchvision load them in strict mode, and each
parameter must have the value of its position.

Exit code: 0 all equal, 1 something differs, 77 skipped: torch, transformers, torchvision or
safetensors are not installed (pip install torch transformers torchvision safetensors).
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
    from safetensors.torch import load_file
except ImportError as error:
    print(f"SKIPPED: model files were not loaded by other frameworks: {error}")
    sys.exit(77)

CLASSES = {"gpt": transformers.GPT2LMHeadModel,
           "llama": transformers.LlamaForCausalLM,
           "llama_tied": transformers.LlamaForCausalLM,
           "bert_masked": transformers.BertForMaskedLM,
           "bert_classes": transformers.BertForSequenceClassification}
OF_TORCHVISION = ("resnet18", "convnext_tiny", "vit_b_32")


def matrix(entry):
    """[rows, columns] with the maker's values."""
    rows = numpy.arange(entry["rows"], dtype=numpy.int64)[:, None]
    columns = numpy.arange(entry["columns"], dtype=numpy.int64)[None, :]
    values = (entry["number"] * 7919 + rows * 613 + columns * 31) % 65537
    return torch.from_numpy((values / 65536.0).astype(numpy.float32))


def as_module_has_it(module, name, entry):
    """Converts the matrix to the layout of the module's parameter `name`."""
    value = matrix(entry)
    owner = module.get_submodule(name.rpartition(".")[0])
    shape = module.state_dict()[name].shape
    if isinstance(owner, transformers.pytorch_utils.Conv1D) and len(shape) == 2:
        return value.T
    if isinstance(owner, torch.nn.Conv2d) and len(shape) == 4:  # [outputs, (ky, kx, input)]
        outputs, inputs, height, width = shape
        return value.reshape(outputs, height, width, inputs).permute(0, 3, 1, 2)
    return value.reshape(shape)


def load(folder, name):
    if name in CLASSES:
        module, info = CLASSES[name].from_pretrained(folder, output_loading_info=True)
        wrong = {key: value for key, value in info.items() if value}
        if wrong:
            raise ValueError(f"loading says {wrong}")
        return module
    module = getattr(torchvision.models, name)(num_classes=5)
    module.load_state_dict(load_file(folder / "model.safetensors"), strict=True)
    return module


def compare(folder, name, entries):
    module = load(folder, name)
    state = module.state_dict()
    for parameter, entry in entries.items():
        if not torch.equal(state[parameter], as_module_has_it(module, parameter, entry)):
            yield f"{name}: {parameter} differs"
    # The file has all trained parameters of the module; tied tensors are one parameter.
    for parameter, _ in module.named_parameters():
        if parameter not in entries:
            yield f"{name}: {parameter} was not in the file"
    for buffer, value in module.named_buffers():
        if buffer.endswith("num_batches_tracked") and value.item() != 42:
            yield f"{name}: {buffer} is {value.item()}"


def main():
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([sys.argv[1], folder], check=True, capture_output=True, text=True)
        for name, entries in json.loads(made.stdout).items():
            assert name in CLASSES or name in OF_TORCHVISION, name
            problems += compare(pathlib.Path(folder) / name, name, entries)
            print(f"{name}: {len(entries)} parameters")
    print("\n".join(problems) or "all equal")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

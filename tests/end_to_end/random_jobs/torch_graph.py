"""Computes a graph file (docs/graph_files.md) with PyTorch, for torch_jobs.py, in float64 or float32. Written from
the document, independently of acan's code. A value is a tensor [samples, rows, features]; values that all samples
share are [rows, features]. Dropout draws as docs/numerics.md says."""
import math

import numpy
import torch
from torch.nn import functional

IGNORED = -100
PHILOX = ((0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85))


def f32(value):
    """A number of the file, rounded to float32 as attributes are."""
    return float(numpy.float32(value))


def pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


def philox(key, low, high):
    """Philox4x32-10 of an array of counters `low`: [counters, 4] words."""
    mask = numpy.uint64(0xFFFFFFFF)
    shift = numpy.uint64(32)
    low = numpy.asarray(low, dtype=numpy.uint64)
    c = [low & mask, low >> shift, numpy.full_like(low, high & 0xFFFFFFFF),
         numpy.full_like(low, high >> 32)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = (numpy.uint64(factor) * c[at] for factor, at in zip(PHILOX[0], (0, 2)))
        c = [(b >> shift) ^ c[1] ^ numpy.uint64(k[0]), b & mask,
             (a >> shift) ^ c[3] ^ numpy.uint64(k[1]), a & mask]
        k = [(k[0] + PHILOX[1][0]) & 0xFFFFFFFF, (k[1] + PHILOX[1][1]) & 0xFFFFFFFF]
    return numpy.stack(c, axis=1)


def kept(draw, elements, rate):
    """The dropout factors of the first `elements` elements; `draw` is (seed, step, stream)."""
    seed, step, stream = draw
    words = philox(seed, numpy.arange((elements + 3) // 4), 1 << 63 | step << 20 | stream)
    uniform = (words.reshape(-1)[:elements] >> numpy.uint64(8)).astype(numpy.float64) * 2.0 ** -24
    factor = f32(1 / (1 - f32(rate)))
    return torch.from_numpy(numpy.where(uniform >= f32(rate), factor, 0.0))


def first_maximum(x, dim):
    """The maximum; of equal elements, the first receives the gradient."""
    top = x == x.amax(dim, keepdim=True)
    first = top & (top.to(torch.int64).cumsum(dim) == 1)
    return torch.where(first, x, torch.zeros_like(x)).sum(dim, keepdim=True)


class Call:
    """One operator: `x` are its operands, `has` its attributes."""

    def __init__(self, node, operands, net):
        self.node, self.x, self.net = node, operands, net
        self.has = node.get("attributes", {})

    def operand(self, at):
        return self.x[at] if at < len(self.x) else None

    def attribute(self, name, default):
        return self.has.get(name, default)

    def linear(self):
        return functional.linear(self.x[0], self.x[1],
                                 None if self.operand(2) is None else self.x[2].reshape(-1))

    def embedding(self):
        padding = self.attribute("padding_id", -1)
        return functional.embedding(self.x[0], self.x[1], padding if padding >= 0 else None)

    def learned_positions(self):
        first = self.attribute("first", 0)
        rows = self.x[0][first:first + self.attribute("rows", 1)]
        return rows.expand(self.net.samples, *rows.shape)

    def rotary(self):
        x, d = self.x[0], self.has["head_size"]
        samples, rows, features = x.shape
        base = f32(self.attribute("base", 10000))
        speeds = base ** (-2.0 * torch.arange(d // 2, dtype=torch.float64) / d)
        angles = torch.arange(rows, dtype=torch.float64)[:, None] * speeds
        cos, sin = (each.to(x.dtype)[:, None, :] for each in (angles.cos(), angles.sin()))
        if self.attribute("rotation", "forward") == "back":
            sin = -sin
        a, b = x.reshape(samples, rows, -1, 2, d // 2).unbind(3)
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=3)
        return turned.reshape(samples, rows, features)

    def attention(self):
        heads, key_heads = self.has["heads"], self.has["key_value_heads"]
        samples, rows, _ = self.x[0].shape

        def split(x, count):
            x = x.reshape(samples, rows, count, -1).transpose(1, 2)
            return x.repeat_interleave(heads // count, dim=1)

        q, k, v = split(self.x[0], heads), split(self.x[1], key_heads), split(self.x[2], key_heads)
        scores = f32(self.attribute("scale", 1)) * (q @ k.transpose(2, 3))
        places = torch.arange(rows)
        seen = torch.ones(samples, 1, rows, rows, dtype=torch.bool)
        if self.attribute("mask", "causal") == "causal":
            seen = seen & (places[None, :] <= places[:, None])
        if self.operand(3) is not None:
            seen = seen & (places < self.x[3].reshape(-1, 1, 1, 1))
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
        rate = self.attribute("dropout", 0)
        if rate and self.net.training:
            factors = kept(self.net.next_draw(), samples * rows * heads * rows, rate)
            factors = factors.reshape(samples, rows, heads, rows).transpose(1, 2)
            weights = weights * factors.to(weights.dtype)
        return (weights @ v).transpose(1, 2).reshape(samples, rows, -1)

    def normalised(self, x, dims, epsilon):
        mean = x.mean(dims, keepdim=True)
        variance = (x - mean).square().mean(dims, keepdim=True)
        return (x - mean) / (variance + f32(self.attribute("epsilon", epsilon))).sqrt(), mean, variance

    def scaled(self, x):
        if self.operand(1) is not None:
            x = x * self.x[1]
        return x if self.operand(2) is None else x + self.x[2]

    def layer_norm(self):
        return self.scaled(self.normalised(self.x[0], (2,), 1e-5)[0])

    def rms_norm(self):
        x = self.x[0]
        epsilon = f32(self.attribute("epsilon", 1e-6))
        return x / (x.square().mean(2, keepdim=True) + epsilon).sqrt() * self.x[1]

    def batch_norm(self):
        if not self.net.training:
            return self.batch_norm_inference()
        x = self.x[0]
        y, mean, variance = self.normalised(x, (0, 1), 1e-5)
        rows = x.shape[0] * x.shape[1]
        momentum = f32(self.attribute("momentum", 0.1))
        unbiased = variance * (rows / (rows - 1)) if rows > 1 else variance
        for name, value in zip(self.node["inputs"][3:], (mean, unbiased)):
            old = self.net.state[name]
            value = value.detach().reshape(old.shape)
            self.net.new_statistics[name] = (1 - momentum) * old + momentum * value
        return self.scaled(y)

    def batch_norm_inference(self):
        x, scale, bias, mean, variance = self.x
        epsilon = f32(self.attribute("epsilon", 1e-5))
        return (x - mean) / (variance + epsilon).sqrt() * scale + bias

    def group_norm(self):
        samples, rows, features = self.x[0].shape
        groups = self.attribute("groups", 1)
        x = self.x[0].reshape(samples, rows, groups, features // groups)
        y = self.normalised(x, (1, 3), 1e-5)[0]
        return self.scaled(y.reshape(samples, rows, features))

    def image(self):
        height, width = pair(self.has["input"])
        x = self.x[0]
        return x.reshape(x.shape[0], height, width, -1).permute(0, 3, 1, 2)

    @staticmethod
    def rows_of(image):
        return image.permute(0, 2, 3, 1).flatten(1, 2)

    def window(self):
        return [pair(self.attribute(name, 0)) for name in ("kernel", "stride", "padding")]

    def convolution(self):
        kernel, stride, padding = self.window()
        weight = self.x[1].reshape(self.x[1].shape[0], *kernel, -1).permute(0, 3, 1, 2)
        bias = None if self.operand(2) is None else self.x[2].reshape(-1)
        return self.rows_of(functional.conv2d(self.image(), weight, bias, stride, padding,
                                              groups=self.attribute("groups", 1)))

    def pooling(self):
        kernel, stride, padding = self.window()
        pool = functional.max_pool2d if self.has["kind"] == "maximum" else functional.avg_pool2d
        return self.rows_of(pool(self.image().contiguous(), kernel, stride, padding))

    def global_pooling(self):
        x, maximum = self.x[0], self.has["kind"] == "maximum"
        counted = torch.ones(x.shape[:2], dtype=torch.bool)
        if self.operand(1) is not None:
            counted = torch.arange(x.shape[1]) < self.x[1].reshape(-1, 1)
        counted = counted[:, :, None]
        if maximum:
            return first_maximum(torch.where(counted, x, torch.full_like(x, -math.inf)), 1)
        return (x * counted).sum(1, keepdim=True) / counted.sum(1, keepdim=True)

    def patches(self):
        (height, width), (ph, pw) = pair(self.has["input"]), pair(self.has["patch"])
        x = self.x[0].reshape(self.net.samples, height // ph, ph, width // pw, pw, -1)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(self.net.samples, height // ph * (width // pw), -1)

    def reshape(self):
        return self.x[0].reshape(self.net.samples, self.attribute("positions", 1), -1)

    def slice(self):
        part = slice(self.has["begin"], self.has["end"])
        return self.x[0][:, part] if self.has["axis"] == "positions" else self.x[0][:, :, part]

    def concat(self):
        return torch.cat(self.x, dim=1 if self.has["axis"] == "positions" else 2)

    def add(self):
        return self.x[0] + self.x[1]

    def multiply(self):
        return self.x[0] * self.x[1]

    def scale(self):
        return f32(self.attribute("factor", 1)) * self.x[0]

    def scale_columns(self):
        return self.x[0] * self.x[1]

    def activation(self):
        x, kind = self.x[0], self.has["kind"]
        if kind == "clipped_relu":
            return torch.where((x > 0) & (x <= f32(self.attribute("bound", 6))), x, torch.zeros_like(x))
        if kind == "gelu_tanh":
            return functional.gelu(x, approximate="tanh")
        return getattr(torch if kind in ("tanh", "sigmoid") else functional, kind)(x)

    def swiglu(self):
        return functional.silu(self.x[0]) * self.x[1]

    def dropout(self):
        if not self.net.training:
            return self.x[0]
        draw, x = self.net.next_draw(), self.x[0]
        if self.attribute("unit", "element") == "sample":
            factors = kept(draw, x.shape[0], self.has["rate"]).reshape(-1, 1, 1)
        else:
            factors = kept(draw, x.numel(), self.has["rate"]).reshape(x.shape)
        return x * factors.to(x.dtype)

    def cross_entropy(self):
        logits, labels = self.x[0].flatten(0, 1), self.x[1].flatten()
        ignored = self.attribute("ignored_label", IGNORED)
        return functional.cross_entropy(logits, labels, ignore_index=ignored, reduction="sum",
                                        label_smoothing=f32(self.attribute("label_smoothing", 0))) / \
            max(1, int((labels != ignored).sum()))

    def squared_error(self):
        return (self.x[0] - self.x[1]).square().mean()


class Net:
    """`state`: the parameters by name, as matrices [rows, columns]; those in `trained` are leaves with gradients."""

    def __init__(self, graph, tensors, number):
        self.graph, self.state, self.roles = graph, {}, {}
        self.samples, self.training, self.draw, self.new_statistics = 0, True, None, {}
        for each in graph["parameters"]:
            self.state[each["name"]] = matrix_of(each, tensors[each["name"]]).to(number).clone()
            self.roles[each["name"]] = each["role"]

    def next_draw(self):
        seed, step, stream = self.draw
        self.draw = seed, step, stream + 1
        return seed, step, stream

    def output(self, inputs):
        """The logits, in evaluation mode."""
        return self.values(inputs)[self.graph["outputs"]["logits"]]

    def loss(self, inputs, draw=None):
        """The loss. `inputs` by name; `draw` is (seed, step) in training, and None in evaluation."""
        return self.values(inputs, draw)[self.graph["loss"]]

    def values(self, inputs, draw=None):
        self.training = draw is not None
        self.draw = (*draw, 0) if draw else None
        values = {**self.state}
        for each in self.graph["inputs"]:
            value = inputs[each["name"]]
            values[each["name"]] = value.to(next(iter(self.state.values())).dtype) \
                if value.is_floating_point() else value
            self.samples = value.shape[0]
        self.new_statistics = {}
        for node in self.graph["nodes"]:
            operands = [None if name is None else values[name] for name in node["inputs"]]
            values[node["name"]] = getattr(Call(node, operands, self), node["operator"])()
        return values


def matrix_of(parameter, tensor):
    """Converts a tensor of a file to the matrix that it is in the graph."""
    if parameter.get("file_layout") == "transposed":
        return tensor.T
    if parameter.get("file_layout") == "convolution":
        tensor = tensor.permute(0, 2, 3, 1)
    return tensor.reshape(parameter.get("rows", 1), parameter["columns"])

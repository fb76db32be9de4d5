"""Random graph files for random_jobs.py: valid models with all operators of docs/graph_files.md, in sizes that are
rarely multiples of anything, with values that several nodes read, residual connections and shared parameters."""
import random

MOST_ELEMENTS = 60000  # of one sample's value
MOST_WEIGHTS = 60000  # of one parameter
ACTIVATIONS = ["relu", "clipped_relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"]
NORMS = ["layer_norm", "rms_norm", "group_norm", "batch_norm", "batch_norm_inference"]


class Value:
    """The result of a node, or an input: `rows` per sample and `features`; for an image also its (height, width)."""

    def __init__(self, name, rows, features, image=None):
        self.name, self.rows, self.features, self.image = name, rows, features, image

    @property
    def shape(self):
        return self.rows, self.features


class RandomGraph:
    """`graph` is the file's content; `inputs` are the inputs that remain, by name."""

    def __init__(self, random):
        self.random = random
        self.inputs, self.parameters, self.nodes, self.values = [], [], [], []
        self.outputs, self.loss = {}, None

    def pick(self, *values):
        return self.random.choice(values)

    def maybe(self, chance):
        return self.random.random() < chance

    def size(self, most):
        """Usually small, and often next to a multiple of 16."""
        near = [n for n in (16, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 129, 192) if n <= most]
        if near and self.maybe(0.3):
            return self.pick(*near)
        return self.random.randint(1, max(1, int(most * self.random.random() ** 2)))

    # ---- pieces of the file ----

    def input(self, name, role, rows=1, features=None, bound=None, image=None):
        entry = {"name": name, "role": role, "rows": rows}
        entry.update({"features": features} if bound is None else {"bound": bound})
        self.inputs.append(entry)
        return Value(name, rows, features or 1, image)

    def parameter(self, role, rows, columns, initial, shape=None):
        """The name of a new parameter, or sometimes of an earlier one of the same size."""
        alike = [each["name"] for each in self.parameters
                 if role != "statistic" and each["role"] != "statistic" and
                 (each.get("rows", 1), each["columns"]) == (rows, columns) and
                 (each["role"] == role or self.maybe(0.2))]
        if alike and self.maybe(0.2):
            return self.pick(*alike)
        entry = {"name": f"{self.pick('block', 'h', 'net')}.{len(self.parameters)}.{role}",
                 "role": role, "columns": columns, "initial": initial}
        if role in ("matrix", "embedding"):
            entry["rows"] = rows
        if shape and self.maybe(0.7):
            entry.update(file_layout="convolution", file_shape=shape)
        elif role == "matrix" and self.maybe(0.2):
            entry["file_layout"] = "transposed"
        self.parameters.append(entry)
        return entry["name"]

    def matrix(self, rows, columns, shape=None, role="matrix"):
        width = self.pick(0.7, 1, 1.4) / columns ** 0.5
        initial = self.pick({"normal": [0, width]}, {"uniform": [-1.7 * width, 1.7 * width]},
                            {"truncated_normal": [0, width, -2 * width, 2 * width]})
        return self.parameter(role, rows, columns, initial, shape)

    def scale(self, columns):
        return self.parameter("scale", 1, columns, self.pick(
            {"constant": 1}, {"uniform": [0.5, 1.5]}, {"normal": [1, 0.1]}))

    def bias(self, columns):
        return self.parameter("bias", 1, columns, self.pick(
            {"constant": 0}, {"uniform": [-0.1, 0.1]}, {"normal": [0, 0.1]}))

    def node(self, operator, inputs, rows, features, image=None, /, **attributes):
        names = [each.name if isinstance(each, Value) else each for each in inputs]
        while names and names[-1] is None:
            names.pop()
        name = f"{operator}{len(self.nodes)}"
        entry = {"name": name, "operator": operator, "inputs": names}
        if attributes:
            entry["attributes"] = attributes
        self.nodes.append(entry)
        value = Value(name, rows, features, image)
        self.values.append(value)
        return value

    def same(self, operator, inputs, /, **attributes):
        """A node whose result has the shape of its first input."""
        x = inputs[0]
        return self.node(operator, inputs, x.rows, x.features, x.image, **attributes)

    # ---- operators ----

    def linear(self, x, outputs):
        weight = self.matrix(outputs, x.features)
        return self.node("linear", [x, weight, self.bias(outputs) if self.maybe(0.6) else None],
                         x.rows, outputs, x.image)

    def activation(self, x):
        kind = self.pick(*ACTIVATIONS)
        more = {"bound": self.pick(0.5, 1, 6)} if kind == "clipped_relu" and self.maybe(0.7) else {}
        return self.same("activation", [x], kind=kind, **more)

    def norm(self, x, kinds=None):
        kind = self.pick(*(kinds or NORMS))
        n = x.features
        more = {"epsilon": self.pick(1e-5, 1e-3, 1e-6)} if self.maybe(0.4) else {}
        if kind == "layer_norm":
            scale = self.scale(n) if self.maybe(0.8) else None
            return self.same(kind, [x, scale, self.bias(n) if self.maybe(0.7) else None], **more)
        if kind == "rms_norm":
            return self.same(kind, [x, self.scale(n)], **more)
        inputs = [x, self.scale(n), self.bias(n)]
        if kind == "group_norm":
            more["groups"] = self.pick(*[g for g in range(1, n + 1) if n % g == 0])
            return self.same(kind, inputs, **more)
        if kind == "batch_norm" and self.maybe(0.5):
            more["momentum"] = self.pick(0, 0.1, 0.5, 1)
        statistics = [self.parameter("statistic", 1, n, {"constant": each}) for each in (0, 1)]
        return self.same(kind, inputs + statistics, **more)

    def attention(self, x):
        key_heads, group = self.random.randint(1, 3), self.random.randint(1, 3)
        head = 2 * self.random.randint(1, 20)
        heads = key_heads * group
        if self.maybe(0.3):  # all three in one product, as in GPT-2
            both = self.linear(x, (heads + 2 * key_heads) * head)
            ends = [0, heads * head, (heads + key_heads) * head, (heads + 2 * key_heads) * head]
            q, k, v = [self.node("slice", [both], x.rows, b - a, axis="features", begin=a, end=b)
                       for a, b in zip(ends, ends[1:])]
        else:
            q = self.linear(x, heads * head)
            k = self.linear(self.pick(x, self.alike(x)), key_heads * head)
            v = k if self.maybe(0.1) else self.linear(x, key_heads * head)
        if self.maybe(0.4):
            base = self.pick(10000, 100)
            more = {"rotation": "back"} if self.maybe(0.2) else {}
            q, k = [self.same("rotary", [each], head_size=head, base=base, **more) for each in (q, k)]
        lengths = [each["name"] for each in self.inputs
                   if each["name"] == "lengths" and each["bound"] <= x.rows]
        more = {"dropout": self.pick(0.1, 0.3)} if self.maybe(0.15) else {}
        mixed = self.node("attention", [q, k, v, lengths[0] if lengths and self.maybe(0.8) else None],
                          x.rows, heads * head, x.image, mask=self.pick("causal", "full"),
                          heads=heads, key_value_heads=key_heads, scale=head ** -0.5, **more)
        return self.linear(mixed, x.features)

    def gated(self, x):
        width = self.size(150)
        gate, up = self.linear(x, width), self.linear(x, width)
        if self.maybe(0.3):
            gate, up = self.activation(gate), up
            return self.linear(self.same("multiply", [gate, up]), x.features)
        return self.linear(self.same("swiglu", [gate, up]), x.features)

    def perceptron(self, x):
        return self.linear(self.activation(self.linear(x, self.size(200))), x.features)

    def residual(self, x):
        kinds = ["layer_norm", "rms_norm"] + (NORMS if self.maybe(0.3) else [])
        branch = self.norm(x, kinds) if self.maybe(0.8) else x
        makers = [self.gated, self.perceptron] + [self.attention] * 2 * (2 <= x.rows <= 256)
        if x.image:
            makers += [self.depthwise] * 3
        branch = self.pick(*makers)(branch)
        if self.maybe(0.2):
            branch = self.same("scale_columns", [branch, self.scale(x.features)])
        if self.maybe(0.15):
            branch = self.dropout(branch)
        both = [x, branch]
        self.random.shuffle(both)
        total = self.same("add", both)
        total.image = x.image
        return total if self.maybe(0.7) else self.norm(total)

    def dropout(self, x):
        return self.same("dropout", [x], rate=self.pick(0.1, 0.5), unit=self.pick("element", "sample"))

    def alike(self, x):
        """A value of the same shape, possibly x itself."""
        return self.pick(*[each for each in self.values + [x] if each.shape == x.shape])

    def two(self, x):
        """A node with x and another value as operands, or with x twice."""
        return self.same(self.pick("add", "multiply", "swiglu"), [x, self.alike(x)])

    def scaled(self, x):
        if self.maybe(0.5):
            return self.same("scale", [x], factor=self.pick(-1, 0.5, 1.3, 2))
        return self.same("scale_columns", [x, self.scale(x.features)])

    def sliced(self, x):
        positions = x.rows > 1 and self.maybe(0.5)
        size = x.rows if positions else x.features
        begin = self.random.randint(0, size - 1)
        end = self.random.randint(begin + 1, size)
        shape = (end - begin, x.features) if positions else (x.rows, end - begin)
        return self.node("slice", [x], *shape, None if positions else x.image,
                         axis="positions" if positions else "features", begin=begin, end=end)

    def joined(self, x):
        positions = self.maybe(0.4)
        fits = [each for each in self.values + [x]
                if (each.features == x.features if positions else each.rows == x.rows)]
        parts = [x] + [self.pick(*fits) for _ in range(self.random.randint(0, 2))]
        if positions and self.maybe(0.5):
            parts.append(self.positions(x, self.random.randint(1, 3)))
        self.random.shuffle(parts)
        total = sum(each.rows if positions else each.features for each in parts)
        shape = (total, x.features) if positions else (x.rows, total)
        if shape[0] * shape[1] > MOST_ELEMENTS:
            return x
        return self.node("concat", parts, *shape, None if positions else x.image,
                         axis="positions" if positions else "features")

    def positions(self, x, rows):
        first = self.pick(0, 0, self.random.randint(0, 3))
        more = self.pick(0, 0, self.random.randint(0, 5))
        table = self.parameter("embedding", first + rows + more, x.features, {"normal": [0, 0.3]})
        return self.node("learned_positions", [table], rows, x.features, first=first, rows=rows)

    def with_positions(self, x):
        return self.same("add", [x, self.positions(x, x.rows)])

    def reshaped(self, x):
        total = x.rows * x.features
        rows = self.pick(*[n for n in range(1, min(total, 300) + 1) if total % n == 0])
        return self.node("reshape", [x], rows, total // rows, positions=rows)

    def pooled(self, x):
        lengths = [each["name"] for each in self.inputs
                   if each["name"] == "lengths" and each["bound"] <= x.rows]
        return self.node("global_pooling", [x] + lengths[:self.pick(0, 1)], 1, x.features,
                         kind=self.pick("average", "maximum"))

    # ---- images ----

    def window(self, image):
        """Attributes of a window that fits, and the size of its output."""
        kernel = [self.random.randint(1, min(side, self.pick(1, 2, 3, 5, 7))) for side in image]
        stride = [self.pick(1, 1, 2, 3) for _ in image]
        padding = [self.random.randint(0, each // 2) for each in kernel]
        output = [(side + 2 * p - k) // s + 1
                  for side, k, s, p in zip(image, kernel, stride, padding)]
        words = dict(input=list(image), kernel=kernel, stride=stride, padding=padding)
        for key, sizes in list(words.items()):
            if sizes[0] == sizes[1] and self.maybe(0.6):
                words[key] = sizes[0]
        if padding == [0, 0] and self.maybe(0.5):
            del words["padding"]
        return words, kernel, tuple(output)

    def convolution(self, x, outputs=None, groups=None):
        words, kernel, image = self.window(x.image)
        shared = [g for g in range(1, x.features + 1) if x.features % g == 0]
        groups = groups or self.pick(1, 1, self.pick(*shared))
        outputs = outputs or groups * self.random.randint(1, max(1, self.size(40) // groups))
        inputs = x.features // groups
        columns = kernel[0] * kernel[1] * inputs
        if outputs * columns > MOST_WEIGHTS or image[0] * image[1] * outputs > MOST_ELEMENTS:
            return x
        weight = self.matrix(outputs, columns, [outputs, inputs, *kernel])
        if groups > 1 or self.maybe(0.2):
            words["groups"] = groups
        return self.node("convolution", [x, weight, self.bias(outputs) if self.maybe(0.4) else None],
                         image[0] * image[1], outputs, image, **words)

    def depthwise(self, x):
        """A depthwise convolution, which keeps the shape."""
        side = self.pick(1, 3, 5, 7)
        n = x.features
        weight = self.matrix(n, side * side, [n, 1, side, side])
        y = self.same("convolution", [x, weight, self.bias(n) if self.maybe(0.5) else None],
                      input=list(x.image), kernel=side, stride=1, padding=side // 2, groups=n)
        return self.linear(self.activation(self.linear(self.norm(y), self.size(80))), n)

    def pool(self, x):
        words, _, image = self.window(x.image)
        return self.node("pooling", [x], image[0] * image[1], x.features, image,
                         kind=self.pick("maximum", "average"), **words)

    def patches(self, x):
        patch = [self.pick(*[n for n in range(1, side + 1) if side % n == 0]) for side in x.image]
        area = patch[0] * patch[1]
        image = (x.image[0] // patch[0], x.image[1] // patch[1])
        return self.node("patches", [x], x.rows // area, x.features * area, image,
                         input=list(x.image), patch=patch)

    # ---- the whole ----

    def step(self, x):
        """Adds one more operator or block after x."""
        makers = [self.residual] * 4 + [self.activation, self.norm, self.two, self.scaled,
                                        self.sliced, self.joined, self.gated]
        makers += [lambda x: self.linear(x, self.size(200))] * 2
        if self.maybe(0.2):
            makers += [self.reshaped, self.dropout]
        if x.rows > 1:
            makers += [self.with_positions]
        if 2 <= x.rows <= 256:
            makers += [self.attention]
        if x.image:
            makers += [self.convolution] * 6 + [self.pool] * 2 + [self.patches]
        return self.pick(*makers)(x)

    def body(self, x):
        for _ in range(self.random.randint(1, self.pick(3, 8, 14))):
            before = self.pick(x, x, x, x, self.pick(*self.values)) if self.values else x
            x = self.step(before)
        return x

    def towards(self, x, rows):
        """x, or a value computed from it, with this number of rows per sample."""
        if x.rows == rows:
            return x
        if rows == 1 and self.maybe(0.6):
            return self.pooled(x)
        if x.rows > rows:
            begin = self.random.randint(0, x.rows - rows)
            return self.node("slice", [x], rows, x.features, axis="positions", begin=begin,
                             end=begin + rows)
        flat = self.node("reshape", [x], 1, x.rows * x.features, positions=1)
        width = self.random.randint(1, 6)
        wide = self.linear(flat, rows * width)
        return self.node("reshape", [wide], rows, width, positions=rows)

    def head(self, x, labels, classes):
        """Returns the label that stands for no class; None: all labels must be classes."""
        x = self.towards(x, labels.rows)
        if self.maybe(0.7):
            x = self.norm(x, ["layer_norm", "rms_norm"])
        tables = [each["name"] for each in self.parameters if each["role"] == "embedding" and
                  (each["rows"], each["columns"]) == (classes, x.features)]
        if tables and self.maybe(0.8):
            logits = self.node("linear", [x, tables[0]], x.rows, classes)
        else:
            logits = self.linear(x, classes)
        more = {}
        if self.maybe(0.2) and labels.rows == 1:
            more["order"] = "leaves"
        else:
            if self.maybe(0.3):
                more["label_smoothing"] = self.pick(0.1, 0.05)
            if self.maybe(0.3):
                more["ignored_label"] = self.pick(-1, -2, -2**31)
        self.finish(logits, "cross_entropy", labels, **more)
        return None if "order" in more else more.get("ignored_label", -100)

    def regression(self, x, targets):
        x = self.towards(x, targets.rows)
        self.finish(self.linear(x, targets.features), "squared_error", targets)

    def finish(self, x, loss, against, **attributes):
        self.loss = self.same(loss, [x, against], **attributes).name
        self.outputs = {"logits": x.name}
        if self.maybe(0.2):
            self.outputs["more"] = self.pick(*self.values[:-1]).name
        self.prune()
        self.add_nodes_of_outputs(random.Random(repr(self.nodes)))

    def add_nodes_of_outputs(self, draw):
        """Nodes that serve only outputs, which training leaves out. `draw` is apart from the other draws, so that each
        seed still draws the graph that it drew before these nodes were added."""
        left = [each for each in self.values if any(each.name == node["name"] for node in self.nodes)]
        left = [each for each in left if each.name != self.loss]
        if not left or draw.random() < 0.7:
            return
        for number in range(draw.randint(1, 4)):
            x = draw.choice(left)
            operator, inputs, attributes, features = draw.choice([
                ("activation", [x.name], {"kind": draw.choice(["relu", "gelu", "tanh"])}, x.features),
                ("multiply", [x.name, x.name], {}, x.features),
                ("slice", [x.name], {"axis": "features", "begin": 0, "end": (x.features + 1) // 2},
                 (x.features + 1) // 2)])
            node = {"name": f"apart{number}", "operator": operator, "inputs": inputs}
            if attributes:
                node["attributes"] = attributes
            at = next(i for i, each in enumerate(self.nodes) if each["name"] == x.name)
            self.nodes.insert(draw.randint(at + 1, len(self.nodes)), node)
            left.append(Value(node["name"], x.rows, features))
            self.outputs[node["name"]] = node["name"]

    def prune(self):
        """Removes everything that neither the loss nor an output depends on."""
        serves = {self.loss, *self.outputs.values()}
        for node in reversed(self.nodes):
            if node["name"] in serves:
                serves.update(name for name in node["inputs"] if name)
        trained = {self.loss}  # a parameter that only an output needs would have no gradient
        for node in reversed(self.nodes):
            if node["name"] in trained:
                trained.update(name for name in node["inputs"] if name)
        if any(each["name"] in serves and each["name"] not in trained for each in self.parameters):
            self.outputs.pop("more")
            serves = trained | {*self.outputs.values()}
        for entries in (self.inputs, self.parameters, self.nodes):
            entries[:] = [each for each in entries if each["name"] in serves]

    @property
    def graph(self):
        return {"format": "acan-graph-1", "inputs": self.inputs, "parameters": self.parameters,
                "nodes": self.nodes, "outputs": self.outputs, "loss": self.loss}

    def has(self, name):
        return any(each["name"] == name for each in self.inputs)

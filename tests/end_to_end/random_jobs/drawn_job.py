"""Jobs for random_jobs.py and other scripts, drawn from a seed, with their data files."""
import json
import random
import struct

from job_files import csv, draw_sentencepiece, idx, npy, with_states
from job_run import Run
from random_graphs import RandomGraph

KINDS = ["mlp", "gpt", "gpt", "llama", "llama", "bert", "bert", "vit", "resnet", "resnet", "convnext"]
KINDS += ["graph"] * 9
# Parameters before attention, and those of some of its operands.
FROZEN = {"gpt": ["*wte*", "*wpe*", "*ln_1*", "*c_attn*"],
          "llama": ["*embed_tokens*", "*input_layernorm*", "*q_proj*", "*k_proj*", "*v_proj*"],
          "bert": ["*embeddings*", "*query*", "*key*", "*value*"]}
LETTERS = "".join(chr(0x3b1 + i) for i in range(25)) + "abcdefghijklmnopqrstuvwxyz .,:;!?\n123"


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value)


class Job:
    """A job drawn from a seed, with its files in `folder`."""

    def __init__(self, seed, folder, kinds=KINDS):
        self.random, self.folder = random.Random(seed), folder
        self.model, self.data, self.train, self.output = {}, {}, {}, {}
        self.pieces = None  # set for a SentencePiece model of characters
        self.kind = self.random.choice(kinds)
        self.model["kind"] = self.kind
        getattr(self, "draw_" + self.kind)()
        self.draw_train()

    def pick(self, *values):
        return self.random.choice(values)

    def maybe(self, chance):
        return self.random.random() < chance

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def draw_mlp(self):
        layers = [self.random.randint(1, 300) for _ in range(self.random.randint(2, 6))]
        layers[-1] = max(2, layers[-1])
        self.model.update(layers=layers, loss=self.pick("cross_entropy", "cross_entropy", "mse"),
                          activation=self.pick("relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu",
                                               "identity", "clipped_relu"))
        self.samples = self.random.randint(20, 150)
        if self.model["activation"] == "clipped_relu" and self.maybe(0.5):
            self.model["clip_bound"] = self.pick(0.5, 2)
        if self.model["loss"] == "mse" and self.maybe(0.2):
            self.data.update(generated="regression", samples=self.samples)
            return
        self.number_samples(layers[0])
        if self.model["loss"] == "mse":
            return self.target_samples(layers[-1])
        self.label_samples(layers[-1], None)

    def number_samples(self, count):
        """Samples of `count` numbers each, in a random format."""
        kind = self.pick("npy", "npy", "npy of bytes", "idx", "idx of bytes", "csv")
        shape, size = (self.samples, count), self.samples * count
        if "bytes" in kind:
            values = [self.random.randrange(256) for _ in range(size)]
        else:
            values = [self.random.uniform(-2, 2) for _ in range(size)]
        if kind == "csv":
            content = csv(self.samples, count, [struct.unpack("<f", struct.pack("<f", each))[0] for each in values])
        elif kind.startswith("idx"):
            content = idx("B" if "bytes" in kind else "f", shape, values, self.maybe(0.5))
        else:
            content = npy("|u1" if "bytes" in kind else "<f4", shape, values)
        self.data["train_inputs"] = self.write("inputs", content)

    def target_samples(self, count, rows=1):
        size = rows * count
        values = [self.random.gauss(0, 1) for _ in range(self.samples * size)]
        self.data["train_targets"] = self.write("targets.npy", npy("<f4", (self.samples, size), values))

    def label_samples(self, classes, ignored=-100):
        """A class for each sample, or `ignored` or another number that stands for no class; `ignored` is None:
        every sample has a class."""
        labels = [self.random.randrange(classes) for _ in range(self.samples)]
        if ignored is None or self.maybe(0.6):
            kind = self.pick("<i8", "<i4", "|u1") if classes <= 256 else "<i8"
            self.data["train_labels"] = self.write("labels.npy", npy(kind, (self.samples,), labels))
        else:
            self.some_labels(labels, (self.samples,), ignored)

    def some_labels(self, labels, shape, ignored=-100, share=0.3):
        """Labels, some of which stand for no class, but not the first one."""
        if ignored is None or ignored >= 0 or self.maybe(0.5):  # else a class could equal the loss's number
            none = ignored
        else:
            none = self.data["ignore_label"] = self.pick(-1, 255, -2**31, 2**31 - 1, labels[0] + 1)
        kept = [label if i == 0 or none is None or self.random.random() >= share else none
                for i, label in enumerate(labels)]
        self.data["train_labels"] = self.write("labels.npy", npy("<i8", shape, kept))

    def draw_tokens(self, vocabulary, length):
        count = length * self.random.randint(20, 60) + self.random.randint(0, length)
        if vocabulary >= 20 and self.maybe(0.4):
            return self.draw_text(count, vocabulary)
        tokens = [min(int(self.random.expovariate(4 / vocabulary)), vocabulary - 1) for _ in range(count)]
        kind = self.pick("uint16", "uint32", "npy")
        if kind == "npy":
            code = self.pick("<u2", "<i4", "<i8")
            self.data["train_tokens"] = self.write("tokens.npy", npy(code, (count,), tokens))
            return
        code = {"uint16": "H", "uint32": "I"}[kind]
        self.data["train_tokens"] = self.write("tokens.bin", struct.pack(f"<{count}{code}", *tokens))
        self.data["tokens_type"] = kind

    def draw_text(self, count, vocabulary):
        letters = LETTERS[:min(vocabulary, 60)]
        text = "".join(self.random.choices(letters, k=count))
        tokenizer = self.pick("characters", "sentencepiece", "bytes" if vocabulary >= 256 else "characters")
        if tokenizer == "sentencepiece":
            content, self.pieces = draw_sentencepiece(self.random, text, vocabulary)
            tokenizer = self.write("pieces.model", content)
        self.data["tokenizer"] = tokenizer
        if self.maybe(0.5):
            self.data["train_text"] = self.write("text.txt", text.encode())
            return
        self.data["text"] = self.write("text.txt", text.encode())
        self.data["test_fraction"] = self.pick(0, 0.2, 0.3)

    def draw_gpt(self):
        heads = self.random.randint(1, 5)
        length = self.random.choice([self.random.randint(1, 40), self.random.randint(60, 200)])
        vocabulary = self.random.choice([self.random.randint(2, 100), self.random.randint(500, 3000)])
        self.model.update(n_layer=self.random.randint(1, 3), n_head=heads, block_size=length,
                          n_embd=heads * self.random.randint(1, 40), vocab_size=vocabulary,
                          dropout=self.pick(0, 0, 0.1, 0.3), bias=self.maybe(0.7))
        if self.maybe(0.3):
            self.model["activation"] = self.pick("relu", "gelu", "silu", "tanh")
        self.draw_tokens(vocabulary, self.shorter(length))

    def shorter(self, positions):
        """The length of the samples, which may be less than the number of positions."""
        if self.maybe(0.7):
            return positions
        self.model["sequence_length"] = self.random.randint(1, positions)
        return self.model["sequence_length"]

    def number(self, key, *values):
        """Usually leaves a number of the model at its default."""
        if self.maybe(0.3):
            self.model[key] = self.pick(*values)

    def draw_llama(self):
        groups, heads = self.random.randint(1, 3), self.random.randint(1, 3)
        head = 2 * self.random.randint(1, 20)
        length = self.random.choice([self.random.randint(1, 40), self.random.randint(60, 200)])
        vocabulary = self.random.choice([self.random.randint(2, 100), self.random.randint(500, 2000)])
        self.model.update(num_hidden_layers=self.random.randint(1, 3), num_attention_heads=groups * heads,
                          num_key_value_heads=heads, hidden_size=groups * heads * head,
                          intermediate_size=self.random.randint(1, 200), max_position_embeddings=length,
                          vocab_size=vocabulary, attention_bias=self.maybe(0.3), mlp_bias=self.maybe(0.3),
                          tie_word_embeddings=self.maybe(0.5), attention_dropout=self.pick(0, 0, 0.2))
        if self.maybe(0.3):
            self.model["head_dim"] = 2 * self.random.randint(1, 24)
        self.number("rms_norm_eps", 1e-5, 0.1)
        self.number("rope_theta", 1, 100, 5e5)
        self.number("initializer_range", 0.1, 0.3)
        self.draw_tokens(vocabulary, self.shorter(length))

    def draw_bert(self):
        heads = self.random.randint(1, 4)
        length = self.random.choice([self.random.randint(1, 30), self.random.randint(60, 140)])
        vocabulary = self.random.randint(5, 300)
        task = self.pick("masked_language", "classification")
        self.model.update(task=task, num_hidden_layers=self.random.randint(1, 2), num_attention_heads=heads,
                          hidden_size=heads * self.random.randint(1, 32), vocab_size=vocabulary,
                          intermediate_size=self.random.randint(1, 120),
                          max_position_embeddings=length + self.random.randint(0, 5), sequence_length=length,
                          hidden_act=self.pick("gelu", "gelu_tanh", "relu", "silu"),
                          hidden_dropout_prob=self.pick(0, 0.1), attention_probs_dropout_prob=self.pick(0, 0.1))
        self.samples = self.random.randint(10, 60)
        shape = (self.samples, length)
        tokens = [self.random.randrange(vocabulary) for _ in range(self.samples * length)]
        self.data["train_tokens"] = self.write("tokens.npy", npy("<u2", shape, tokens))
        if self.maybe(0.6):
            lengths = [self.random.randint(1, length) for _ in range(self.samples)]
            self.data["train_lengths"] = self.write("lengths.npy", npy("<i8", (self.samples,), lengths))
        if self.maybe(0.4):
            kinds = self.model["type_vocab_size"] = self.random.randint(1, 4)
            types = [self.random.randrange(kinds) for _ in tokens]
            self.data["train_token_types"] = self.write("types.npy", npy("|u1", shape, types))
        self.number("layer_norm_eps", 1e-5, 0.1)
        self.number("initializer_range", 0.1, 0.3)
        self.number("pad_token_id", self.random.randrange(vocabulary))
        if task == "classification":
            self.model["num_labels"] = self.random.randint(2, 5)
            self.label_samples(self.model["num_labels"])
        else:
            self.some_labels(tokens, shape, share=0.7)

    def draw_images(self, height, width, channels):
        self.model.update(image_size=[height, width], channels=channels, num_classes=self.random.randint(2, 20))
        self.image_files(height, width, channels, self.model["num_classes"])

    def image_files(self, height, width, channels, classes, ignored=-100):
        self.samples = self.random.randint(10, 60)
        layout = self.pick("HWC", "CHW")
        shape = (height, width, channels) if layout == "HWC" else (channels, height, width)
        if channels == 1 and self.maybe(0.7):
            shape = (height, width)
        else:
            self.data["layout"] = layout
        size = self.samples * height * width * channels
        if self.maybe(0.3):
            content = npy("<f4", (self.samples, *shape), [self.random.uniform(-1, 2) for _ in range(size)])
        else:
            pixels = [self.random.randrange(256) for _ in range(size)]
            content = npy("|u1", (self.samples, *shape), pixels) if self.maybe(0.7) else \
                idx("B", (self.samples, *shape), pixels, self.maybe(0.5))
        self.data["train_inputs"] = self.write("images", content)
        if self.maybe(0.4):
            self.data.update(crop_padding=self.random.randint(0, 3), flip=self.maybe(0.5))
        if self.maybe(0.4):
            self.data.update(mean=[0.4 + i / 9 for i in range(channels)], std=[0.3 + i / 7 for i in range(channels)])
        self.label_samples(classes, ignored)

    def draw_vit(self):
        heads, patch = self.random.randint(1, 4), self.random.randint(1, 5)
        self.model.update(patch_size=patch, num_layers=self.random.randint(1, 2), num_heads=heads,
                          hidden_dim=heads * self.random.randint(1, 32), mlp_dim=self.random.randint(1, 150),
                          dropout=self.pick(0, 0, 0.1), attention_dropout=self.pick(0, 0.1))
        self.draw_images(patch * self.random.randint(1, 9), patch * self.random.randint(1, 9), self.pick(1, 3))

    def draw_resnet(self):
        stages = self.random.randint(1, 3)
        groups = self.pick(1, 2, 4)
        self.model.update(widths=[groups * self.random.randint(1, 10) for _ in range(stages)],
                          blocks=[self.random.randint(1, 2) for _ in range(stages)],
                          stem=self.pick("small", "small", "imagenet"), block=self.pick("basic", "basic", "bottleneck"),
                          norm=self.pick("batch", "batch", "group"))
        if self.model["norm"] == "group":
            self.model["norm_groups"] = groups
        self.draw_images(self.random.randint(5, 20), self.random.randint(5, 20), self.pick(1, 3))

    def draw_convnext(self):
        stages, patch = self.random.randint(1, 2), self.random.randint(1, 4)
        self.model.update(widths=[self.random.randint(1, 40) for _ in range(stages)], patch_size=patch,
                          blocks=[self.random.randint(1, 2) for _ in range(stages)],
                          stochastic_depth_prob=self.pick(0, 0.1, 0.4))
        self.number("layer_scale", 0.1, 1)
        self.draw_images(patch * self.random.randint(2, 6), patch * self.random.randint(2, 6), self.pick(1, 3))

    def draw_graph(self):
        self.graph = RandomGraph(self.random)
        getattr(self, "draw_" + self.pick("numbers", "stream", "sequences", "images", "images") + "_graph")()
        self.model["file"] = self.write("net.json", json.dumps(self.graph.graph, indent=1).encode())

    def draw_numbers_graph(self):
        graph, features = self.graph, self.graph.size(300)
        rows = self.pick(1, 1, self.random.randint(2, 40))
        x = graph.input("x", "numbers", rows=rows, features=features)
        x = graph.body(x if self.maybe(0.4) or rows > 1 else graph.reshaped(x))
        self.samples = self.random.randint(20, 150 // rows + 20)
        self.number_samples(rows * features)
        if self.maybe(0.5):
            classes = max(2, graph.size(100))
            none = graph.head(x, graph.input("labels", "labels", bound=classes), classes)
            self.label_samples(classes, none)
        else:
            count, rows = graph.size(20), self.pick(1, 1, self.random.randint(1, 5))
            graph.regression(x, graph.input("targets", "targets", rows=rows, features=count))
            self.target_samples(count, rows)

    def embedded(self, tokens, vocabulary, features):
        more = {"padding_id": self.random.randrange(vocabulary)} if self.maybe(0.3) else {}
        rows = vocabulary + self.pick(0, 0, 0, 3)
        table = self.graph.matrix(rows, features, role="embedding")
        return self.graph.node("embedding", [tokens, table], tokens.rows, features, **more)

    def draw_stream_graph(self):
        graph = self.graph
        length = self.random.choice([self.random.randint(1, 40), self.random.randint(60, 200)])
        vocabulary = self.random.choice([self.random.randint(2, 100), self.random.randint(500, 2000)])
        tokens = graph.input("tokens", "tokens", rows=length, bound=vocabulary)
        labels = graph.input("labels", "labels", rows=length, bound=vocabulary)
        x = self.embedded(tokens, vocabulary, graph.size(120))
        graph.head(graph.body(x), labels, vocabulary)
        self.draw_tokens(vocabulary, length)

    def draw_sequences_graph(self):
        graph, length, vocabulary = self.graph, self.random.randint(1, 130), self.random.randint(2, 300)
        tokens = graph.input("tokens", "tokens", rows=length, bound=vocabulary)
        if self.maybe(0.7):
            graph.input("lengths", "lengths", bound=length)
        x = self.embedded(tokens, vocabulary, graph.size(100))
        if self.maybe(0.3):
            types = graph.input("token_type_ids", "tokens", rows=length, bound=3)
            x = graph.same("add", [x, self.embedded(types, 3, x.features)])
        each, classes = self.maybe(0.5), self.random.randint(2, 50)
        labels = graph.input("labels", "labels", rows=length if each else 1, bound=classes)
        none = graph.head(graph.body(x), labels, classes)
        self.samples = self.random.randint(10, 60)
        shape = (self.samples, length)
        values = [self.random.randrange(vocabulary) for _ in range(self.samples * length)]
        self.data["train_tokens"] = self.write("tokens.npy", npy("<u2", shape, values))
        if graph.has("lengths"):
            lengths = [self.random.randint(1, length) for _ in range(self.samples)]
            self.data["train_lengths"] = self.write("lengths.npy", npy("<i8", (self.samples,), lengths))
        if graph.has("token_type_ids") and self.maybe(0.8):
            types = [self.random.randrange(3) for _ in values]
            self.data["train_token_types"] = self.write("types.npy", npy("|u1", shape, types))
        if each:
            self.some_labels([1 + self.random.randrange(classes - 1) for _ in values], shape, none)
        else:
            self.label_samples(classes, none)

    def draw_images_graph(self):
        graph, classes = self.graph, self.random.randint(2, 20)
        height, width, channels = self.random.randint(1, 24), self.random.randint(2, 24), self.pick(1, 2, 3, 4)
        images = graph.input("images", "numbers", height * width, channels, image=(height, width))
        x = graph.convolution(images)
        if x is images:
            x = graph.linear(images, graph.size(20))
        none = graph.head(graph.body(x), graph.input("labels", "labels", bound=classes), classes)
        self.image_files(height, width, channels, classes, none)

    def draw_train(self):
        self.train.update(batch=self.random.randint(1, 24), steps=self.random.randint(1, 4),
                          seed=self.random.randint(0, 2**40), optimizer=self.pick("sgd", "momentum", "adamw"),
                          block=self.pick(64, 64, 64, 16, 32, 128))
        self.train["learning_rate"] = 1e-3 if self.train["optimizer"] == "adamw" else 0.02
        if self.maybe(0.3):
            self.train.update(weight_decay=0.1, decay=self.pick("everything", "matrices"))
        if self.maybe(0.3):
            self.train["clip_norm"] = self.pick(0.01, 0.5, 10)
        if self.maybe(0.2) and self.kind not in ("mlp", "graph"):
            self.model["label_smoothing"] = 0.1
        if self.maybe(0.2):
            patterns = ["*bias", "*.0.*", "*norm*", "*weight"]
            if self.kind == "graph":
                names = [each["name"] for each in self.graph.parameters if each["role"] != "statistic"]
                patterns = [self.random.choice(names), self.random.choice(names)[:-3] + "*"]
            self.train["freeze"] = [self.random.choice(patterns)]
        self.draw_frozen(random.Random(self.train["seed"]))
        self.draw_rates()
        if self.maybe(0.3):
            self.draw_test()
        self.has_weights = self.maybe(0.2)

    def draw_frozen(self, draw):
        """Sometimes freezes so much that parts of attention's gradient are not needed. `draw` is apart from the other
        draws, so that each seed still draws the rest of the job that it drew before."""
        patterns = FROZEN.get(self.kind, [])
        if self.kind == "graph":
            patterns = [each["name"] for each in self.graph.parameters if each["role"] == "matrix"]
        if len(patterns) > 1 and draw.random() < 0.25:
            self.train["freeze"] = draw.sample(patterns, draw.randint(1, len(patterns) - 1))

    def draw_rates(self):
        """Settings that earlier versions of this script left at their defaults."""
        schedule = self.pick("constant", "constant", "step", "cosine")
        if schedule != "constant":
            self.train["schedule"] = schedule
        if schedule == "step":
            self.train.update(step_every=self.random.randint(1, 3), step_factor=self.pick(0.1, 0.7, 1.5))
        if schedule == "cosine":
            self.train["final_fraction"] = self.pick(0, 0.1, 1)
        self.train["warmup_steps"] = self.pick(0, 0, 0, 1, 2, 3)
        if self.train["optimizer"] == "momentum" and self.maybe(0.4):
            self.train["momentum"] = self.pick(0, 0.5, 1)
        if self.train["optimizer"] == "adamw" and self.maybe(0.4):
            self.train.update(beta1=self.pick(0.0, 0.8), beta2=self.pick(0.9, 0.99), epsilon=self.pick(1e-8, 1e-4))
        if self.maybe(0.3):
            self.data["shuffle"] = False
        if self.maybe(0.15):
            del self.train["steps"]
            self.train.update(epochs=self.random.randint(1, 2), batch=self.random.randint(8, 40))
        if self.kind in ("gpt", "llama", "bert") and self.model.get("bias", True) and self.maybe(0.5):
            self.output["config"] = "transformers"

    def draw_test(self):
        """Also uses the training samples, in their files, for testing."""
        if self.data.keys() & {"text", "generated"}:
            return
        for key in [key for key in self.data if key.startswith("train_")]:
            self.data["test_" + key.removeprefix("train_")] = self.data[key]
        if self.maybe(0.5):
            self.train["evaluate_every"] = self.random.randint(1, 3)

    def draw_weights(self, arguments):
        """Starts from the weights that another seed draws, read from a file, if that works. The file may also have the
        state of an optimizer of other parameters, as a snapshot does, which does not matter."""
        run = Run(arguments, self, "cpu:1@4GiB", [f"train.seed={self.train['seed'] + 1}", "train.steps=0"])
        if run.code == 0:
            weights = self.folder / "weights.safetensors"
            content = (self.folder / "out/model.safetensors").read_bytes()
            if self.maybe(0.5):
                content = with_states(content, self.may_have_state, 0.5)
            weights.write_bytes(content)
            self.model["initial_weights"] = str(weights)
            (self.folder / "job.toml").write_text(self.text())

    def may_have_state(self, name):
        return not name.endswith((".running_mean", ".running_var", ".statistic")) and self.maybe(0.8)

    def text(self):
        sections = {"model": self.model, "data": self.data, "train": self.train, "output": self.output}
        return "".join(f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
                       for name, keys in sections.items())

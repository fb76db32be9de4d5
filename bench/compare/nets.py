"""The models with which acan is compared, in PyTorch. Their parameters have the names in acan's
files."""


def torch_state(path):
    """The tensors of one of acan's files for the classes here. The file has GPT's linear weights in
    transformers' layout [inputs, outputs]; the classes here have them as [outputs, inputs]."""
    from safetensors.torch import load_file
    transposed = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")
    return {name: tensor.T.contiguous() if name.endswith(transposed) else tensor
            for name, tensor in load_file(path).items()}


def make_gpt(recipe, vocabulary, bias=True):
    """nanoGPT's model with its initial weights. `recipe` has the numbers of layers and heads, the
    width, and the tokens of a sample."""
    import torch
    from torch import nn
    from torch.nn import functional

    width, heads = recipe["width"], recipe["heads"]

    def norm():
        return nn.LayerNorm(width, bias=bias)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_attn = nn.Linear(width, 3 * width, bias=bias)
            self.c_proj = nn.Linear(width, width, bias=bias)

        def forward(self, x):
            samples, tokens, _ = x.shape
            q, k, v = (each.view(samples, tokens, heads, width // heads).transpose(1, 2)
                       for each in self.c_attn(x).split(width, dim=2))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).reshape(samples, tokens, width))

    class FeedForward(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_fc = nn.Linear(width, 4 * width, bias=bias)
            self.c_proj = nn.Linear(4 * width, width, bias=bias)

        def forward(self, x):
            return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.attn = norm(), Attention()
            self.ln_2, self.mlp = norm(), FeedForward()

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.transformer = nn.ModuleDict(dict(
                wte=nn.Embedding(vocabulary, width), wpe=nn.Embedding(recipe["tokens"], width),
                h=nn.ModuleList(Block() for _ in range(recipe["layers"])), ln_f=norm()))
            for name, each in self.named_parameters():
                if name.endswith(".c_proj.weight"):
                    nn.init.normal_(each, std=0.02 / (2 * recipe["layers"]) ** 0.5)
                elif each.dim() > 1:
                    nn.init.normal_(each, std=0.02)
                elif name.endswith(".bias"):
                    nn.init.zeros_(each)

        def forward(self, tokens, labels):
            parts = self.transformer
            x = parts.wte(tokens) + parts.wpe(torch.arange(tokens.shape[1], device=tokens.device))
            for block in parts.h:
                x = block(x)
            logits = functional.linear(parts.ln_f(x), parts.wte.weight)  # the head is tied
            return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    return Gpt()


def make_resnet(widths, blocks, channels, classes):
    """torchvision's ResNet of basic blocks, with a stem of 3x3 and widths that it does not offer."""
    from torch import nn
    from torchvision.models.resnet import BasicBlock

    class Resnet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(widths[0])
            inputs = widths[0]
            for stage, (width, count) in enumerate(zip(widths, blocks, strict=True), 1):
                layer = []
                for place in range(count):
                    stride = 2 if stage > 1 and place == 0 else 1
                    shortcut = None
                    if stride != 1 or inputs != width:
                        shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False),
                                                 nn.BatchNorm2d(width))
                    layer.append(BasicBlock(inputs, width, stride, shortcut))
                    inputs = width
                setattr(self, f"layer{stage}", nn.Sequential(*layer))
            self.stages = len(widths)
            self.fc = nn.Linear(inputs, classes)

        def forward(self, x):
            x = nn.functional.relu(self.bn1(self.conv1(x)))
            for stage in range(1, self.stages + 1):
                x = getattr(self, f"layer{stage}")(x)
            return self.fc(x.mean((2, 3)))

    return Resnet()


def make_vit(size, patch, layers, heads, width, mlp, channels, classes):
    """torchvision's VisionTransformer."""
    from torch import nn
    from torchvision.models import VisionTransformer
    net = VisionTransformer(image_size=size, patch_size=patch, num_layers=layers, num_heads=heads,
                            hidden_dim=width, mlp_dim=mlp, num_classes=classes)
    net.conv_proj = nn.Conv2d(channels, width, patch, patch)  # torchvision's has three channels
    return net

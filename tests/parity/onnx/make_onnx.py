"""Makes the ONNX files of this folder and what PyTorch's training of them gives, for onnx_test.cc.

Each model is exported for training (batch statistics kept, nothing folded) with opset 17, then trained for ten steps of
plain SGD on batches that are a function of the step (`integers` below; onnx_test.cc has the same function). CASE.json has
the losses and some elements of each tensor afterwards. Run with Debian's python3-torch and python3-onnx:

    python3 tests/parity/onnx/make_onnx.py
    python3 tests/parity/onnx/make_onnx.py --full FOLDER     models of full size, 1.7 GB: not kept here
    TRIREME_ONNX_MODELS=FOLDER build/release/tests/parity/parity_test --gtest_filter='*FullSize*'
"""

import json
import math
import sys
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F

STEPS = 10


def integers(count, step, bound):
    """`count` integers below `bound`, for step `step`: high bits of a multiplicative hash."""
    index = torch.arange(count, dtype=torch.int64) + 1000003 * step
    return ((index * 2654435761 + 12345) % 2**32) // 65536 % bound


def images(shape, step):
    count = math.prod(shape)
    return (integers(count, step, 256).to(torch.float32) / 64 - 2).reshape(shape)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, blocks, width, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        layers, inputs = [], width
        for stage, count in enumerate(blocks):
            for block in range(count):
                layers.append(Bottleneck(inputs, width << stage, 2 if stage and not block else 1))
                inputs = 4 * (width << stage)
        self.layers, self.fc = nn.Sequential(*layers), nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.layers(x), 1), 1))


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        hidden = inputs * expand
        def part(i, o, kernel, step, groups):
            return [nn.Conv2d(i, o, kernel, step, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]
        wide = [*part(inputs, hidden, 1, 1, 1), nn.ReLU6()] if expand > 1 else []
        self.conv = nn.Sequential(*wide, *part(hidden, hidden, 3, stride, hidden), nn.ReLU6(), *part(hidden, outputs, 1, 1, 1))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNet(nn.Module):
    """MobileNet v2: rows of (expansion, channels, repeats, stride)."""

    def __init__(self, first, rows, last, classes):
        super().__init__()
        layers, inputs = [nn.Conv2d(3, first, 3, 2, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU6()], first
        for expand, channels, repeats, stride in rows:
            for i in range(repeats):
                layers.append(Inverted(inputs, channels, stride if i == 0 else 1, expand))
                inputs = channels
        layers += [nn.Conv2d(inputs, last, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU6()]
        self.features, self.classifier = nn.Sequential(*layers), nn.Linear(last, classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


class Attention(nn.Module):
    """Written out, as exporters see it; `mask` is added to the scores."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x, mask):
        b, t, h = x.shape
        q, k, v = (y.view(b, t, self.heads, h // self.heads).transpose(1, 2) for y in self.qkv(x).split(h, 2))
        scores = q @ k.transpose(2, 3) / math.sqrt(h // self.heads) + mask
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, h))


class Bert(nn.Module):
    def __init__(self, vocab, seq, hidden, heads, layers):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.layers = nn.ModuleList([nn.ModuleList([Attention(hidden, heads), nn.LayerNorm(hidden), nn.Linear(hidden, 4 * hidden),
                                                    nn.Linear(4 * hidden, hidden), nn.LayerNorm(hidden)]) for _ in range(layers)])
        self.head = nn.Linear(hidden, vocab)

    def forward(self, input_ids, attention_mask):
        mask = (1 - attention_mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        x = self.norm(self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1])))
        for attention, norm1, up, down, norm2 in self.layers:
            x = norm1(x + attention(x, mask))
            x = norm2(x + down(F.gelu(up(x))))
        return self.head(x)


class Gpt(nn.Module):
    def __init__(self, vocab, seq, hidden, heads, layers):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
        self.h = nn.ModuleList([nn.ModuleList([nn.LayerNorm(hidden), Attention(hidden, heads), nn.LayerNorm(hidden),
                                               nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)]) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(hidden)
        self.register_buffer("bias", torch.tril(torch.ones(seq, seq, dtype=torch.bool)))

    def forward(self, input_ids):
        t = input_ids.shape[1]
        x = self.wte(input_ids) + self.wpe(torch.arange(t))
        zero = torch.zeros([])
        mask = torch.where(self.bias[:t, :t], zero, torch.full([], torch.finfo(torch.float32).min))
        for norm1, attention, norm2, up, down in self.h:
            x = x + attention(norm1(x), mask)
            y = up(norm2(x))
            y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))))
            x = x + down(y)
        return self.ln_f(x) @ self.wte.weight.t()


class RmsNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


def rotate(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class LlamaBlock(nn.Module):
    def __init__(self, hidden, heads, groups, inner):
        super().__init__()
        d = hidden // heads
        self.heads, self.groups, self.d = heads, groups, d
        self.norm1, self.norm2 = RmsNorm(hidden), RmsNorm(hidden)
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, n * d, bias=False) for n in (heads, groups, groups, heads))
        self.gate, self.up, self.down = (nn.Linear(hidden, inner, bias=False), nn.Linear(hidden, inner, bias=False),
                                         nn.Linear(inner, hidden, bias=False))

    def forward(self, x, cos, sin, mask):
        b, t, h = x.shape
        y = self.norm1(x)
        q = self.q(y).view(b, t, self.heads, self.d).transpose(1, 2)
        k = self.k(y).view(b, t, self.groups, self.d).transpose(1, 2)
        v = self.v(y).view(b, t, self.groups, self.d).transpose(1, 2)
        q, k = q * cos + rotate(q) * sin, k * cos + rotate(k) * sin
        def repeat(z):
            return z[:, :, None].expand(b, self.groups, self.heads // self.groups, t, self.d).reshape(b, self.heads, t, self.d)
        scores = q @ repeat(k).transpose(2, 3) / math.sqrt(self.d) + mask
        x = x + self.o((scores.softmax(-1) @ repeat(v)).transpose(1, 2).reshape(b, t, h))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocab, hidden, heads, groups, layers):
        super().__init__()
        d = hidden // heads
        self.embed_tokens, self.norm = nn.Embedding(vocab, hidden), RmsNorm(hidden)
        self.layers = nn.ModuleList([LlamaBlock(hidden, heads, groups, 2 * hidden) for _ in range(layers)])
        self.lm_head = nn.Linear(hidden, vocab, bias=False)
        self.register_buffer("inv_freq", 1.0 / (10000 ** (torch.arange(0, d, 2).float() / d)))

    def forward(self, input_ids):
        t = input_ids.shape[1]
        angles = torch.arange(t).float()[:, None] * self.inv_freq[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        mask = torch.triu(torch.full((t, t), torch.finfo(torch.float32).min), diagonal=1)
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin(), mask)
        return self.lm_head(self.norm(x))


# Constructor, sample ([channels, height, width] or [seq]), classes or vocabulary, rows, rate. With a higher rate an activation
# of the MobileNet comes so near to a kink of ReLU6 that a change of 1e-6 in the weights, in PyTorch too, changes losses by 6e-4.
CASES = {
    "resnet": (lambda: ResNet([1, 1, 1], 4, 10), [3, 32, 32], 10, 4, 0.05),
    "mobilenet": (lambda: MobileNet(4, [(1, 4, 1, 1), (3, 6, 2, 2)], 16, 10), [3, 16, 16], 10, 4, 0.01),
    "bert": (lambda: Bert(50, 12, 16, 2, 2), [12], 50, 4, 0.05),
    "gpt": (lambda: Gpt(50, 12, 16, 2, 2), [12], 50, 4, 0.05),
    "llama": (lambda: Llama(50, 16, 4, 2, 2), [12], 50, 4, 0.05),
}

def batch(sample, classes, rows, step):
    if len(sample) == 1:
        return integers(rows * sample[0], step, classes).reshape(rows, *sample), integers(rows * sample[0], step + 500, classes)
    return images([rows, *sample], step), integers(rows, step + 500, classes)


# The ResNet and MobileNet v2 of torchvision, BERT base, GPT-2 and a Llama, by their numbers of layers and features.
FULL_CASES = {
    "resnet50": (lambda: ResNet([3, 4, 6, 3], 64, 1000), [3, 96, 96], 1000, 8, 0.001),
    "mobilenet_v2": (lambda: MobileNet(32, [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                            (6, 320, 1, 1)], 1280, 1000), [3, 96, 96], 1000, 8, 0.001),
    "bert_base": (lambda: Bert(30522, 32, 768, 12, 12), [32], 30522, 2, 0.001),
    "gpt2": (lambda: Gpt(50257, 1024, 768, 12, 12), [32], 50257, 2, 0.001),
    "llama": (lambda: Llama(32000, 768, 12, 4, 12), [32], 32000, 2, 0.001),
}


def train(stored, case, dtype, noise=None):
    """Ten steps from the weights of a file: the model and its losses. `noise`: draws relative changes of up to 1e-6."""
    make_model, sample, classes, rows, rate = case
    torch.manual_seed(1)
    model = make_model().train()
    model.load_state_dict({key: stored[key] for key in model.state_dict() if key in stored}, strict=False)
    model = model.to(dtype)
    if noise is not None:
        drawn = torch.Generator().manual_seed(noise)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + 1e-6 * (2 * torch.rand(parameter.shape, generator=drawn) - 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for step in range(STEPS):
        x, targets = batch(sample, classes, rows, step)
        if len(sample) > 1:
            x = x.to(dtype)
        logits = model(x, torch.ones_like(x)) if isinstance(model, Bert) else model(x)
        loss = F.cross_entropy(logits.reshape(-1, classes), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def make(folder, name, case, with_double=False):
    make_model, sample, classes, rows, rate = case
    torch.manual_seed(1)
    model = make_model().train()
    x, _ = batch(sample, classes, rows, 0)
    inputs, names = (x,), ["input_ids" if len(sample) == 1 else "images"]
    if isinstance(model, Bert):
        inputs, names = (x, torch.ones_like(x)), ["input_ids", "attention_mask"]
    path = folder / f"{name}.onnx"
    torch.onnx.export(model, inputs, str(path), opset_version=17, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, input_names=names, output_names=["logits"],
                      dynamic_axes={n: {0: "batch"} for n in [*names, "logits"]}, keep_initializers_as_inputs=False)
    # From what the file has: tracing the model has moved its running statistics.
    stored = {tensor.name: torch.tensor(numpy_helper.to_array(tensor)) for tensor in onnx.load(str(path)).graph.initializer}
    model, losses = train(stored, case, torch.float32)
    tensors = {}
    for key, value in [*model.named_parameters(), *((k, v) for k, v in model.named_buffers() if "running" in k)]:
        flat = value.detach().flatten()
        tensors[key] = [flat[i * flat.numel() // 8].item() for i in range(min(8, flat.numel()))]
    recorded = {"sample": sample, "classes": classes, "rows": rows, "rate": rate, "losses": losses, "tensors": tensors}
    if with_double:
        recorded["losses_in_double"] = exact = train(stored, case, torch.float64)[1]
        noisy = [train(stored, case, torch.float32, noise)[1] for noise in range(4)]
        recorded["noise"] = [max(abs(run[step] - exact[step]) for run in [losses, *noisy]) for step in range(STEPS)]
    (folder / f"{name}.json").write_text(json.dumps(recorded, indent=1) + "\n")
    print(name, [round(loss, 4) for loss in losses])


def main():
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        for name, case in FULL_CASES.items():
            make(Path(sys.argv[-1]), name, case, with_double=True)
        return
    for name, case in CASES.items():
        make(Path(__file__).resolve().parent, name, case)


if __name__ == "__main__":
    main()

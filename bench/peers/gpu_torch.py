"""Every family of `trireme bench train --device cuda` in PyTorch: bf16 by autocast, compiled, on random data.

Image networks but WRN and AlexNet are torchvision's, in channels-last memory. Nothing clips gradients and nothing drops out.
"""

import argparse
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional


class Rows(torch.autograd.Function):
    """rows[where], zeros where that is past the end. The gradient gathers too, by the inverse map: otherwise it would
    be added up with atomic additions, which are slower."""

    @staticmethod
    def pick(rows, where):
        return functional.pad(rows, (0, 0, 0, 1)).gather(1, where.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))

    @staticmethod
    def forward(ctx, rows, where, inverse):
        ctx.save_for_backward(inverse)
        return Rows.pick(rows, where)

    @staticmethod
    def backward(ctx, gradient):
        inverse, = ctx.saved_tensors
        picked = Rows.pick(gradient, inverse.flatten(1))
        return picked.view(*inverse.shape, gradient.shape[-1]).sum(2), None, None


class Experts(nn.Module):
    """The gate `mixtral` with a capacity: slots in each sequence, products of all experts in one batch. Returns the
    balance loss, too."""

    def __init__(self, a):
        super().__init__()
        self.experts, self.k = a.experts, a.top_k
        self.slots = math.ceil(a.capacity * a.top_k * a.seq / a.experts)
        self.router = nn.Parameter(torch.randn(a.hidden, a.experts) * 0.02)
        self.up = nn.Parameter(torch.randn(a.experts, a.hidden, 4 * a.hidden) * 0.02)
        self.down = nn.Parameter(torch.randn(a.experts, 4 * a.hidden, a.hidden) * 0.02)

    def forward(self, x):
        b, t, m = x.shape
        e, k, c = self.experts, self.k, self.slots
        with torch.autocast("cuda", enabled=False):
            shares = (x.float() @ self.router).softmax(-1)
        weights, chosen = shares.topk(k, -1)
        weights, chosen = weights / weights.sum(-1, keepdim=True), chosen.flatten(1)
        asked = functional.one_hot(chosen, e)
        place = (asked.cumsum(1) - 1).gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
        at = torch.where(place < c, chosen * c + place, e * c)  # a choice's slot; e * c: none
        choices = torch.arange(t * k, device=x.device).expand(b, -1)
        choice_of = torch.full((b, e * c + 1), t * k, device=x.device).scatter(1, at, choices)[:, :-1]
        rows = Rows.apply(x.bfloat16(), choice_of // k, at.view(b, t, k))
        rows = rows.view(b, e, c, m).transpose(0, 1).reshape(e, b * c, m)
        rows = torch.bmm(functional.gelu(torch.bmm(rows, self.up), approximate="tanh"), self.down)
        rows = rows.view(e, b, c, m).transpose(0, 1).reshape(b, e * c, m)
        y = (Rows.apply(rows, at, choice_of.unsqueeze(-1)).view(b, t, k, m) * weights.unsqueeze(-1)).sum(2)
        balance = 0.02 * e * (asked.float().mean(1) * shares.mean(1)).sum(-1).mean()
        return y, balance


class Gpt(nn.Module):
    """GPT-2: learned positions, norms first, tanh GELU, tied head. With experts: logits and the balance loss."""

    class Block(nn.Module):
        def __init__(self, a):
            super().__init__()
            self.heads = a.heads
            self.norm_1, self.norm_2 = nn.LayerNorm(a.hidden), nn.LayerNorm(a.hidden)
            self.qkv, self.project = nn.Linear(a.hidden, 3 * a.hidden), nn.Linear(a.hidden, a.hidden)
            self.experts = Experts(a) if a.experts else None
            if not self.experts:
                self.up, self.down = nn.Linear(a.hidden, 4 * a.hidden), nn.Linear(4 * a.hidden, a.hidden)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm_1(x)).chunk(3, -1))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(y.transpose(1, 2).reshape(b, t, c))
            if self.experts:
                y, balance = self.experts(self.norm_2(x))
                return x + y, balance
            return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh")), 0

    def __init__(self, a):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(a.vocab, a.hidden), nn.Embedding(a.seq, a.hidden)
        self.blocks = nn.ModuleList(Gpt.Block(a) for _ in range(a.layers))
        self.norm = nn.LayerNorm(a.hidden)

    def forward(self, ids):
        x, balance = self.tokens(ids) + self.positions.weight, 0
        for block in self.blocks:
            x, of_block = block(x)
            balance = balance + of_block
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return (logits, balance) if torch.is_tensor(balance) else logits


class Llama(nn.Module):
    """RMS norms, rotary positions, grouped keys, SwiGLU."""

    class Norm(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(size))

        def forward(self, x):
            return functional.rms_norm(x, self.weight.shape, self.weight, 1e-5)

    class Block(nn.Module):
        def __init__(self, a, cos, sin):
            super().__init__()
            size = a.hidden // a.heads
            self.a, self.size, self.cos, self.sin = a, size, cos, sin
            self.norm_1, self.norm_2 = Llama.Norm(a.hidden), Llama.Norm(a.hidden)
            linear = lambda i, o: nn.Linear(i, o, bias=False)
            self.q, self.o = linear(a.hidden, a.hidden), linear(a.hidden, a.hidden)
            self.k, self.v = linear(a.hidden, a.kv_heads * size), linear(a.hidden, a.kv_heads * size)
            self.gate, self.up = linear(a.hidden, a.feed_forward), linear(a.hidden, a.feed_forward)
            self.down = linear(a.feed_forward, a.hidden)

        def rotate(self, x):
            low, high = x.chunk(2, -1)
            cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
            return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)

        def forward(self, x):
            b, t, c = x.shape
            y = self.norm_1(x)
            q, k, v = (w(y).view(b, t, -1, self.size).transpose(1, 2) for w in (self.q, self.k, self.v))
            y = functional.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True,
                                                        enable_gqa=self.a.kv_heads != self.a.heads)
            x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
            y = self.norm_2(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    def __init__(self, a):
        super().__init__()
        size = a.hidden // a.heads
        angle = torch.outer(torch.arange(a.seq).float(), 10000 ** (-torch.arange(0, size, 2).float() / size)).cuda()
        self.tokens = nn.Embedding(a.vocab, a.hidden)
        self.blocks = nn.Sequential(*(Llama.Block(a, angle.cos(), angle.sin()) for _ in range(a.layers)))
        self.norm, self.head = Llama.Norm(a.hidden), nn.Linear(a.hidden, a.vocab, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tokens(ids))))


class Bert(nn.Module):
    """BERT as a masked language model: norms after each part, attention to both sides, tied head with a bias."""

    class Block(nn.Module):
        def __init__(self, a):
            super().__init__()
            self.heads = a.heads
            self.q, self.k, self.v, self.o = (nn.Linear(a.hidden, a.hidden) for _ in range(4))
            self.norm_1, self.norm_2 = nn.LayerNorm(a.hidden), nn.LayerNorm(a.hidden)
            self.up, self.down = nn.Linear(a.hidden, 4 * a.hidden), nn.Linear(4 * a.hidden, a.hidden)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (w(x).view(b, t, self.heads, -1).transpose(1, 2) for w in (self.q, self.k, self.v))
            y = functional.scaled_dot_product_attention(q, k, v)
            x = self.norm_1(x + self.o(y.transpose(1, 2).reshape(b, t, c)))
            return self.norm_2(x + self.down(functional.gelu(self.up(x), approximate="tanh")))

    def __init__(self, a):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(a.vocab, a.hidden), nn.Embedding(a.seq, a.hidden)
        self.types, self.norm = nn.Embedding(2, a.hidden), nn.LayerNorm(a.hidden)
        self.blocks = nn.Sequential(*(Bert.Block(a) for _ in range(a.layers)))
        self.transform, self.transform_norm = nn.Linear(a.hidden, a.hidden), nn.LayerNorm(a.hidden)
        self.bias = nn.Parameter(torch.zeros(a.vocab))

    def forward(self, ids):
        x = self.norm(self.tokens(ids) + self.positions.weight + self.types.weight[0])
        x = self.transform_norm(functional.gelu(self.transform(self.blocks(x)), approximate="tanh"))
        return functional.linear(x, self.tokens.weight, self.bias)


class Lstm(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens = nn.Embedding(a.vocab, a.hidden)
        self.lstm = nn.LSTM(a.hidden, a.hidden, a.layers, batch_first=True)
        self.head = nn.Linear(a.hidden, a.vocab)

    def forward(self, ids):
        return self.head(self.lstm(self.tokens(ids))[0])


class WideBlock(nn.Module):
    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.norm_1, self.norm_2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(filters)
        self.conv_1 = nn.Conv2d(inputs, filters, 3, stride, 1, bias=False)
        self.conv_2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        same = inputs == filters and stride == 1
        self.shortcut = None if same else nn.Conv2d(inputs, filters, 1, stride, bias=False)

    def forward(self, x):
        normed = functional.relu(self.norm_1(x))
        y = self.conv_2(functional.relu(self.norm_2(self.conv_1(normed))))
        return y + (x if self.shortcut is None else self.shortcut(normed))


def wide_resnet(a):
    """Zagoruyko and Komodakis' networks of 6n + 4 layers for small images."""
    filters, parts = 16, [nn.Conv2d(3, 16, 3, 1, 1, bias=False)]
    for stage in range(3):
        for block in range((a.layers - 4) // 6):
            wide = (16 * a.width) << stage
            parts.append(WideBlock(filters, wide, 2 if stage > 0 and block == 0 else 1))
            filters = wide
    return nn.Sequential(*parts, nn.BatchNorm2d(filters), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(filters, a.classes))


def image_network(a):
    import torchvision.models as zoo
    if a.family == "wide_resnet":
        return wide_resnet(a)
    if a.family == "swin":
        return zoo.SwinTransformer(patch_size=[4, 4], embed_dim=96, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24],
                                   window_size=[7, 7], stochastic_depth_prob=0.0, num_classes=a.classes)
    if a.family == "vgg":
        return getattr(zoo, f"vgg{a.layers}")(num_classes=a.classes, dropout=0.0)
    if a.family == "alexnet":
        return zoo.alexnet(num_classes=a.classes, dropout=0.0)
    return getattr(zoo, f"resnet{a.layers}")(num_classes=a.classes)


TOKENS = {"gpt": Gpt, "llama": Llama, "bert": Bert, "lstm": Lstm}


def data(a):
    if a.family in TOKENS:
        ids, targets = (torch.randint(a.vocab, (a.batch, a.seq), device="cuda") for _ in range(2))
        if a.family == "bert":
            targets[torch.rand(targets.shape, device="cuda") > 0.15] = -100
        return ids, targets
    images = torch.randn(a.batch, 3, a.image, a.image, device="cuda").to(memory_format=torch.channels_last)
    return images, torch.randint(a.classes, (a.batch,), device="cuda")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", required=True)
    parser.add_argument("--optimizer", choices=("adamw", "momentum"), default="adamw")
    parser.add_argument("--compile", default="reduce-overhead", help="no, default, reduce-overhead, max-autotune")
    for name, default in dict(layers=12, heads=12, kv_heads=0, hidden=768, feed_forward=0, vocab=50304, seq=1024,
                              batch=32, image=224, classes=1000, width=1, experts=0, top_k=2, steps=15, warmup=6).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    parser.add_argument("--capacity", type=float, default=1.25, help="of experts (gpt), as model.moe.capacity")
    a = parser.parse_args()
    a.kv_heads = a.kv_heads or a.heads

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    if a.family in TOKENS:
        model = TOKENS[a.family](a).cuda()
    else:
        model = image_network(a).cuda().to(memory_format=torch.channels_last)
    if a.optimizer == "adamw":
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
    compiled = model if a.compile == "no" else torch.compile(
        model, mode=None if a.compile == "default" else a.compile)
    inputs, targets = data(a)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            found = compiled(inputs)
            logits, balance = found if isinstance(found, tuple) else (found, 0)
            loss = functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
        (loss + balance).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    seconds = []
    for index in range(a.warmup + a.steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = step()
        torch.cuda.synchronize()
        if index >= a.warmup:
            seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds)
    units = a.batch * (a.seq if a.family in TOKENS else 1)
    print(json.dumps({"peer": f"PyTorch {torch.__version__}", "compile": a.compile, "median_seconds": median,
                      "parameters": sum(p.numel() for p in model.parameters()),
                      "per_second": units / median, "peak_bytes": torch.cuda.max_memory_allocated(),
                      "last_loss": loss.item()}))


if __name__ == "__main__":
    main()

"""A GPT-2 of any size, trained by PyTorch on random tokens: the peer of `trireme bench train --preset gpt`.

The same model (learned positions, LayerNorm first, tanh GELU, head tied to the embedding), the same
AdamW and the same clipping of the gradient's norm. Uses fused attention where this PyTorch has it.
"""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional

import measure


class Attention(nn.Module):
    def __init__(self, hidden, heads, tokens):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(hidden, 3 * hidden)
        self.c_proj = nn.Linear(hidden, hidden)
        # Made once; without fused attention, building it at every step would be PyTorch's loss alone.
        self.register_buffer("hidden_keys", torch.ones(tokens, tokens, dtype=torch.bool).triu(1))

    def forward(self, x):
        batch, tokens, hidden = x.shape
        shape = (batch, tokens, self.heads, hidden // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=-1))
        if hasattr(functional, "scaled_dot_product_attention"):
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(shape[-1]))
            y = scores.masked_fill(self.hidden_keys, -math.inf).softmax(-1) @ v
        return self.c_proj(y.transpose(1, 2).reshape(batch, tokens, hidden))


class Block(nn.Module):
    def __init__(self, hidden, heads, tokens):
        super().__init__()
        self.ln_1 = nn.LayerNorm(hidden)
        self.attn = Attention(hidden, heads, tokens)
        self.ln_2 = nn.LayerNorm(hidden)
        self.c_fc = nn.Linear(hidden, 4 * hidden)
        self.c_proj = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.wte = nn.Embedding(a.vocab, a.hidden)
        self.wpe = nn.Parameter(torch.randn(a.seq, a.hidden) * 0.02)
        self.blocks = nn.Sequential(*(Block(a.hidden, a.heads, a.seq) for _ in range(a.layers)))
        self.ln_f = nn.LayerNorm(a.hidden)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.ln_f(self.blocks(self.wte(ids) + self.wpe))
        logits = functional.linear(x, self.wte.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def add_arguments(parser):
    for name, default in (("layers", 6), ("heads", 6), ("hidden", 384), ("vocab", 256), ("seq", 256), ("batch", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    measure.add_arguments(parser)


def make_step(a, model, batch):
    """A function that does one step on `batch` rows of random tokens."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    ids = torch.randint(a.vocab, (batch, a.seq))
    targets = torch.randint(a.vocab, (batch, a.seq))

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    a = parser.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = Gpt(a)
    measure.measure(make_step(a, model, a.batch), a, "tokens", a.batch * a.seq,
                    sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main()

"""Trains a GPT-2 with PyTorch on the text, the batches, the rates and from the weights of a run of Trireme.

    trireme train SETTINGS --train.steps=1 --optim.lr=0 --run.dir=start && trireme export start --to weights
    trireme train SETTINGS --run.dir=run
    bench/peers/gpt_text_torch.py --weights weights --run run --text input.txt --csv losses.csv --svg losses.svg

SETTINGS are those of docs/cuda_experiments.md. Windows of bytes are drawn as trireme/data does, so that both see the
same rows in every step; what is left between the two losses is the order of sums and the rounding to 16 bits.
"""

import argparse
import csv
import json
import pathlib
import sys

import numpy
import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "parity"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "exchange_tables"))
import gpt_torch
import philox
import plot

VALIDATION = 0.1  # data.validation_fraction


def uniform_integer(seed, stream, index, bound):
    """As in trireme/base/rng.h: one block of four words for each index."""
    x = [index % 2**32, index >> 32, stream % 2**32, stream >> 32]
    k0, k1 = seed % 2**32, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ k0, b % 2**32, (a >> 32) ^ x[3] ^ k1, a % 2**32]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return ((x[0] << 32 | x[1]) * bound) >> 64


def epoch_stream(use, epoch):
    return (philox.stream_id(use) + epoch * 0x9E3779B97F4A7C15) % 2**64


class Windows:
    """The rows of trireme/data/token_windows.h in the order of epoch_order.h."""

    def __init__(self, path, seq, seed):
        text = numpy.frombuffer(pathlib.Path(path).read_bytes(), dtype=numpy.uint8)
        held_out = int(len(text) * VALIDATION + 0.5)
        self.tokens, self.seq, self.seed = text[:len(text) - held_out].astype(numpy.int64), seq, seed
        self.size = max(1, (len(self.tokens) - seq) // seq)
        self.epoch = -1

    def start(self, epoch):
        self.epoch = epoch
        places = min(self.seq, len(self.tokens) - self.size * self.seq)
        self.offset = uniform_integer(self.seed, epoch_stream("data.offset", epoch), 0, places)
        self.order = list(range(self.size))
        key = epoch_stream("data.shuffle", epoch)
        for i in range(self.size, 1, -1):
            j = uniform_integer(self.seed, key, i - 1, i)
            self.order[i - 1], self.order[j] = self.order[j], self.order[i - 1]

    def row(self, place):
        if place // self.size != self.epoch:
            self.start(place // self.size)
        first = self.offset + self.order[place % self.size] * self.seq
        return self.tokens[first:first + self.seq + 1]

    def batch(self, step, rows):
        both = numpy.stack([self.row(step * rows + i) for i in range(rows)])
        return torch.from_numpy(both[:, :-1].copy()), torch.from_numpy(both[:, 1:].copy())


def load(model, folder):
    """Weights of GPT-2 in Hugging Face's names, which has those of linear layers as [in, out]."""
    from safetensors.torch import load_file
    given = load_file(str(pathlib.Path(folder) / "model.safetensors"))
    given = {name.removeprefix("transformer."): value for name, value in given.items()}
    state = {"wte.weight": given["wte.weight"], "wpe": given["wpe.weight"],
             "ln_f.weight": given["ln_f.weight"], "ln_f.bias": given["ln_f.bias"]}
    for layer in range(len(model.blocks)):
        for ours, theirs in (("ln_1", "ln_1"), ("ln_2", "ln_2"), ("attn.c_attn", "attn.c_attn"),
                             ("attn.c_proj", "attn.c_proj"), ("c_fc", "mlp.c_fc"), ("c_proj", "mlp.c_proj")):
            weight = given[f"h.{layer}.{theirs}.weight"]
            state[f"blocks.{layer}.{ours}.weight"] = weight.t() if weight.dim() == 2 else weight
            state[f"blocks.{layer}.{ours}.bias"] = given[f"h.{layer}.{theirs}.bias"]
    missing, unknown = model.load_state_dict(state, strict=False)
    assert not unknown and all(name.endswith("hidden_keys") for name in missing), (missing, unknown)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    gpt_torch.add_arguments(parser)
    for name in ("weights", "run", "text", "csv", "svg"):
        parser.add_argument(f"--{name}", required=name in ("weights", "run", "text"))
    parser.add_argument("--seed", type=int, default=1, help="train.seed of the run")
    a = parser.parse_args()
    ours = [json.loads(line) for line in (pathlib.Path(a.run) / "metrics.jsonl").read_text().splitlines()]
    ours = [one for one in ours if "loss" in one and "lr" in one]
    torch.backends.cuda.matmul.allow_tf32 = True
    model = gpt_torch.Gpt(a).cuda()
    load(model, a.weights)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  betas=(0.9, 0.95), eps=1e-8, fused=True)
    windows, compiled, losses = Windows(a.text, a.seq, a.seed), torch.compile(model), []
    for step, one in enumerate(ours):
        ids, targets = windows.batch(step, a.batch)
        for group in optimizer.param_groups:
            group["lr"] = one["lr"]
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(ids.cuda(), targets.cuda())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    found = [one["loss"] for one in ours]
    for last in [n for n in (1, 10, 50, 100, 200, 300, 400, 500) if n <= len(found)]:
        window = slice(max(0, last - 20), last)
        mean = lambda values: sum(values[window]) / len(values[window])
        far = max(abs(p - q) for p, q in zip(found[window], losses[window]))
        print(f"step {last:4d}: Trireme {mean(found):.4f}, PyTorch {mean(losses):.4f}, "
              f"largest distance in the twenty before {far:.4f}", flush=True)
    if a.csv:
        with open(a.csv, "w", newline="") as file:
            csv.writer(file).writerows([("step", "trireme", "pytorch"), *zip(range(1, len(found) + 1), found, losses)])
    if a.svg:
        curves = {name: list(enumerate(values, 1)) for name, values in (("Trireme", found), ("PyTorch", losses))}
        pathlib.Path(a.svg).write_text(plot.curves(curves, "step", "training loss"))


if __name__ == "__main__":
    main()

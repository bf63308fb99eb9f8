#!/usr/bin/env python3
"""Trains each case in PyTorch and records what came out in golden/CASE.json, for parity_test to compare with.

    python3 make_golden.py [--double] [--out FOLDER] [CASE...]

A golden holds the settings, the losses and gradient norms of every step, an evaluation after the last one and,
of each tensor then, its norm and some of its elements. It holds no weights to start from and no batches: both sides compute
them (philox.py). --double computes in f64 instead of f32: the difference between the two is PyTorch's own
rounding, below which nothing can be compared.
"""
import argparse
import json
import math
import os
import platform

import numpy
import torch
from torch.nn import functional as F

import philox
from models import MODELS
from optimizers import make_optimizer

SEED = 7
BATCHES = 3  # different ones; a run cycles through them, so that it learns something

# eps of Adam is 1e-5: at 1e-8, where a gradient is zero but for rounding (the bias of the keys: a softmax does
# not see it), the update would be rounding made large, different on every machine.
ADAM = dict(beta1=0.9, beta2=0.95, eps=1e-5, weight_decay=0.1)
GPT = dict(family="gpt", layers=2, heads=3, hidden=36, vocab=61, seq=16)
LLAMA = dict(family="llama", layers=2, heads=4, kv_heads=2, hidden=32, feed_forward=80, vocab=53, seq=12,
             rope_base=10000.0)
IMAGE = dict(classes=10)

CASES = {
    "gpt": dict(model=GPT, optim=dict(kind="adamw", lr=3e-3, **ADAM), clip_norm=1.0, rows=4, sample=[16]),
    # Shorter sequences than the model has positions, and targets that do not count, more in later rows.
    "gpt_ignored": dict(model=GPT, optim=dict(kind="adamw", lr=3e-3, **ADAM), rows=4, sample=[11], ignored=0.8),
    "gpt_lamb": dict(model=GPT, optim=dict(kind="lamb", lr=1e-2, **ADAM), rows=4, sample=[16]),
    "llama": dict(model=LLAMA, optim=dict(kind="adamw", lr=3e-3, **ADAM), rows=5, sample=[12]),
    # Four microbatches with different numbers of targets; PyTorch takes all rows at once.
    "llama_accumulated": dict(model={**LLAMA, "kv_heads": 1}, optim=dict(kind="adamw", lr=3e-3, **ADAM),
                              clip_norm=0.5, accumulate=4, rows=2, sample=[12], ignored=0.9),
    "lstm": dict(model=dict(family="lstm", layers=2, hidden=20, vocab=29, seq=9),
                 optim=dict(kind="adam", lr=5e-3, **{**ADAM, "weight_decay": 1e-3}), clip_norm=0.2, rows=6,
                 sample=[9]),
    "mlp": dict(model=dict(family="mlp", layers=3, hidden=50, **IMAGE),
                optim=dict(kind="nesterov", lr=0.1, momentum=0.9, weight_decay=5e-4), label_smoothing=0.1,
                rows=16, sample=[1, 9, 7]),
    "lenet": dict(model=dict(family="lenet", **IMAGE), optim=dict(kind="sgd", lr=0.1, weight_decay=1e-3),
                  rows=8, sample=[1, 28, 28]),
    "lenet_lars": dict(model=dict(family="lenet", **IMAGE),
                       optim=dict(kind="lars", lr=0.5, momentum=0.9, weight_decay=1e-2, trust=0.02), rows=8,
                       sample=[3, 28, 28]),
    "resnet20": dict(model=dict(family="resnet", layers=20, **IMAGE),
                     optim=dict(kind="momentum", lr=0.01, momentum=0.9, weight_decay=1e-4), rows=8,
                     sample=[3, 16, 16]),
    # The form for large images, in which shortcuts are convolutions.
    "resnet18": dict(model=dict(family="resnet", layers=18, **IMAGE),
                     optim=dict(kind="momentum", lr=0.002, momentum=0.9, weight_decay=1e-4), rows=4,
                     sample=[3, 64, 64], steps=2),
    "wide_resnet16": dict(model=dict(family="wide_resnet", layers=16, channels=4, width=2, **IMAGE),
                          optim=dict(kind="nesterov", lr=0.02, momentum=0.9, weight_decay=5e-4), rows=8,
                          sample=[3, 16, 16], samples=32),
    # The form for small images: 3x3 convolutions and pools of 2x2 at the start.
    "alexnet_small": dict(model=dict(family="alexnet", channels=6, feed_forward=40, **IMAGE),
                          optim=dict(kind="momentum", lr=0.02, momentum=0.9, weight_decay=5e-4), rows=8,
                          sample=[3, 20, 16]),
    "alexnet": dict(model=dict(family="alexnet", channels=4, feed_forward=24, **IMAGE),
                    optim=dict(kind="adam", lr=1e-3, **ADAM), rows=4, sample=[3, 67, 71], samples=32),
    "vgg11": dict(model=dict(family="vgg", layers=11, channels=4, feed_forward=24, **IMAGE),
                  optim=dict(kind="momentum", lr=0.01, momentum=0.9, weight_decay=5e-4), rows=6,
                  sample=[3, 32, 32], samples=32),
    # Sequences are shorter than the position table; few targets count, fewest in later rows.
    "bert": dict(model=dict(family="bert", layers=2, heads=3, hidden=36, feed_forward=50, vocab=61, seq=16),
                 optim=dict(kind="adamw", lr=3e-3, **ADAM), clip_norm=1.0, rows=4, sample=[13], ignored=0.85),
    # Of 16x8 patches: windows of 4x4 in the first two stages (shifted in the first), then 2x2 and 1x1.
    "swin": dict(model=dict(family="swin", layers=8, heads=2, hidden=12, patch=2, window=4, **IMAGE),
                 optim=dict(kind="adamw", lr=2e-3, **ADAM), rows=4, sample=[3, 32, 16], samples=24),
    # Sources of 1 to 11 tokens.
    "seq2seq": dict(model=dict(family="seq2seq", layers=2, heads=2, hidden=24, feed_forward=40, vocab=31, seq=9,
                               source_seq=11),
                    optim=dict(kind="adamw", lr=3e-3, **ADAM), clip_norm=1.0, label_smoothing=0.1, rows=6,
                    sample=[11, 9], ignored=0.7, samples=16),
    "lstm_seq2seq": dict(model=dict(family="lstm_seq2seq", layers=2, hidden=20, vocab=31, seq=9, source_seq=11),
                         optim=dict(kind="adamw", lr=3e-3, **ADAM), clip_norm=1.0, rows=6, sample=[11, 9], ignored=0.7,
                         samples=16),
}
# `samples` is the number of elements of each tensor that a golden stores.
DEFAULTS = dict(clip_norm=0.0, label_smoothing=0.0, accumulate=1, ignored=0.0, steps=10, samples=64)


def make_batch(case, index, dtype):
    """Input and target. Image samples are [channels, height, width], token samples [time], pairs [source time, time]:
    then the input is the source, the lengths of its rows, and what the decoder reads."""
    rows, sample, model = case["rows"] * case["accumulate"], case["sample"], case["model"]
    if len(sample) == 3:
        images = philox.weights(SEED, f"images.{index}", [rows, *sample], 0.0, 1.0)
        labels = philox.integers(SEED, f"labels.{index}", [rows], model["classes"])
        return torch.from_numpy(images).to(dtype), torch.from_numpy(labels)
    tokens = philox.integers(SEED, f"tokens.{index}", [rows, sample[-1] + 1], model["vocab"])
    targets = tokens[:, 1:].copy()
    # The chance of not counting grows from row to row up to case["ignored"], so that rows are uneven.
    chance = case["ignored"] * numpy.arange(rows)[:, None] / max(1, rows - 1)
    targets[philox.uniform(SEED, f"ignored.{index}", targets.shape) < chance] = -1
    inputs = torch.from_numpy(tokens[:, :-1].copy())
    if len(sample) == 2:
        source = philox.integers(SEED, f"source.{index}", [rows, sample[0]], model["vocab"])
        lengths = 1 + philox.integers(SEED, f"lengths.{index}", [rows], sample[0])
        inputs = torch.from_numpy(source), torch.from_numpy(lengths), inputs
    return inputs, torch.from_numpy(targets)


def first_rows(tensors, rows):
    return tuple(first_rows(one, rows) for one in tensors) if isinstance(tensors, tuple) else tensors[:rows]


def learning_rate(case, step):
    """Rises over four steps: rules that keep the rate in their velocity must show it."""
    return case["optim"]["lr"] * min(1.0, (step + 1) / 4)


def tensor_record(value, start, samples):
    """What a golden says of a tensor: evenly spread elements, norm, and how far it went from its start."""
    flat = value.detach().to(torch.float64).flatten()
    count = min(samples, flat.numel())
    where = [i * flat.numel() // count for i in range(count)]
    return {"norm": flat.norm().item(), "moved": (flat - start.to(torch.float64).flatten()).norm().item(),
            "largest": flat.abs().max().item(), "samples": [float(f"{flat[i].item():.8g}") for i in where]}


def train(name, dtype):
    case = {**DEFAULTS, **CASES[name]}
    options = {**case["model"], "image": case["sample"]}
    logits_of, parameters_of, buffers_of = MODELS[case["model"]["family"]]
    spec = parameters_of(options)
    start = {key: torch.from_numpy(philox.weights(SEED, key, *init)).to(dtype) for key, init in spec.items()}
    parameters = {key: value.clone().requires_grad_() for key, value in start.items()}
    buffers = buffers_of(options)
    for key in parameters:
        if key.replace(".weight", ".bias") in parameters and ("bn" in key or "downsample.1" in key):
            norm, size = key.rsplit(".", 1)[0], parameters[key].shape
            buffers[norm + ".running_mean"], buffers[norm + ".running_var"] = torch.zeros(size), torch.ones(size)
    buffers = {key: value.to(dtype) for key, value in buffers.items()}
    start.update({key: value.clone() for key, value in buffers.items()})

    optimizer = make_optimizer(case["optim"]["kind"], list(parameters.values()), case["optim"])
    losses, norms, rates = [], [], []
    for step in range(case["steps"]):
        inputs, targets = make_batch(case, step % BATCHES, dtype)
        logits = logits_of(parameters, options, inputs, buffers, True)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-1,
                               label_smoothing=case["label_smoothing"])
        for p in parameters.values():
            p.grad = None
        loss.backward()
        limit = case["clip_norm"] or math.inf
        norm = torch.nn.utils.clip_grad_norm_(list(parameters.values()), limit)
        rates.append(learning_rate(case, step))
        for group in optimizer.param_groups:
            group["lr"] = rates[-1]
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())

    # The trained model on as many rows as a microbatch has, with running statistics.
    inputs, targets = first_rows(make_batch(case, 0, dtype), case["rows"])
    with torch.no_grad():
        logits = logits_of(parameters, options, inputs, buffers, False)
    logits, targets = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    evaluation = {"loss": F.cross_entropy(logits, targets, ignore_index=-1).item(),
                  "count": (targets >= 0).sum().item(), "correct": (logits.argmax(1) == targets).sum().item()}

    tensors = {}
    for key, value in {**parameters, **buffers}.items():
        # Every buffer starts as one number.
        shape, shift, scale = spec.get(key) or (tuple(value.shape), start[key].flatten()[0].item(), 0.0)
        tensors[key] = {"shape": list(shape), "shift": shift, "scale": scale,
                        **tensor_record(value, start[key], case["samples"])}
    optim = {key: value for key, value in case["optim"].items() if key != "lr"}
    return {"made_with": f"torch {torch.__version__}, numpy {numpy.__version__}, {platform.machine()}",
            "seed": SEED, "batches": BATCHES, "ignored": case["ignored"], "model": case["model"],
            "train": {key: case[key] for key in ("accumulate", "clip_norm", "label_smoothing")},
            "optim": optim, "rows": case["rows"], "sample": case["sample"], "rates": rates, "losses": losses,
            "norms": norms, "evaluation": evaluation, "tensors": tensors}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--double", action="store_true", help="compute in f64")
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
    parser.add_argument("cases", nargs="*", metavar="CASE", help="all: " + ", ".join(CASES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the order of additions, and so the last bits, depend on it
    dtype = torch.float64 if arguments.double else torch.float32
    torch.set_default_dtype(dtype)
    for name in arguments.cases or CASES:
        golden = train(name, dtype)
        with open(os.path.join(arguments.out, name + ".json"), "w") as file:
            fields = [f'"{key}": {json.dumps(value)}' for key, value in golden.items() if key != "tensors"]
            rows = [f'  "{key}": {json.dumps(value)}' for key, value in golden["tensors"].items()]
            file.write("{" + ",\n".join(fields) + ',\n"tensors": {\n' + ",\n".join(rows) + "\n}}\n")
        print(f"{name}: loss {golden['losses'][0]:.4f} to {golden['losses'][-1]:.4f}, gradient norm "
              f"{min(golden['norms']):.3g} to {max(golden['norms']):.3g}")


if __name__ == "__main__":
    main()

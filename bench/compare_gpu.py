#!/usr/bin/env python3
"""Trains every family on one GPU with Trireme and with PyTorch, in turns, and prints one table.

  bench/compare_gpu.py [--work llama_1b,swin_t,…] [--rounds 5] [--compile reduce-overhead] [--json FILE]

Each round runs each work once with Trireme and once with PyTorch, so that a GPU that slows down slows both.
Medians over the rounds are compared. Both train in bf16 on random data with the same optimizer, without
clipping and without dropout; models with different numbers of parameters are not compared.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from compare_torch import find_python, find_trireme

HERE = Path(__file__).resolve().parent


def tokens(family, layers, heads, hidden, vocab, seq, batch, **more):
    return dict(family=family, layers=layers, heads=heads, hidden=hidden, vocab=vocab, seq=seq, batch=batch, **more)


def images(family, layers, batch, image=224, classes=1000, **more):
    return dict(family=family, layers=layers, batch=batch, image=image, classes=classes, **more)


LLAMA = dict(family="llama", layers=16, heads=32, hidden=2048, feed_forward=8192, vocab=32000, seq=2048, batch=4)
WORKS = {
    "gpt_124m": tokens("gpt", 12, 12, 768, 50304, 1024, 32),
    "gpt_355m": tokens("gpt", 24, 16, 1024, 50304, 1024, 16),
    "gpt_1.5b": tokens("gpt", 48, 25, 1600, 50304, 1024, 8),
    "gpt_8_experts": tokens("gpt", 12, 16, 1024, 50304, 1024, 16, experts=8, top_k=2, capacity=1.25),
    "gpt_10m": tokens("gpt", 6, 6, 384, 256, 256, 8),
    "llama_1b": dict(LLAMA, kv_heads=8),
    "llama_1b_32": dict(LLAMA, kv_heads=32),
    "bert_base": tokens("bert", 12, 12, 768, 30592, 512, 32),
    "lstm": tokens("lstm", 2, 1, 1024, 10240, 64, 64),
    "resnet_50": images("resnet", 50, 128, optimizer="momentum"),
    "wrn_28_10": images("wide_resnet", 28, 128, image=32, classes=10, width=10, optimizer="momentum"),
    "vgg_16": images("vgg", 16, 64, optimizer="momentum"),
    "alexnet": images("alexnet", 8, 256, optimizer="momentum"),
    "swin_t": images("swin", 12, 128),
}


def run(command, seconds):
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def ours(trireme, work, a):
    command = [trireme, "bench", "train", "--device", "cuda", "--train.precision=bf16", "--train.clip_norm=0",
               f"--steps={a.steps}", f"--warmup={a.warmup}", "--peak=1e15", "--model.dropout=0",
               f"--model.family={work['family']}", f"--train.batch={work['batch']}",
               f"--optim.kind={work.get('optimizer', 'adamw')}", "--optim.lr=0.0001"]
    for key in ("layers", "heads", "kv_heads", "hidden", "feed_forward", "vocab", "seq", "classes", "width"):
        if key in work and not (key == "layers" and work["family"] == "alexnet"):
            command.append(f"--model.{key}={work[key]}")
    command += [f"--model.moe.{key}={work[key]}" for key in ("experts", "top_k", "capacity") if key in work]
    if "image" in work:
        command.append(f"--image=3x{work['image']}x{work['image']}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        run(command + ["--json", str(path)], a.seconds)
        found = json.loads(path.read_text())[0]
    rate = found.get("tokens_per_second") or found["samples_per_second"]
    return dict(parameters=found["parameters"], per_second=rate, bytes=found["planned_peak_bytes"])


def peers(python, work, a):
    command = [python, str(HERE / "peers/gpu_torch.py"), f"--steps={a.steps}", f"--warmup={a.warmup}",
               f"--compile={a.compile}"]
    command += [f"--{key.replace('_', '-')}={value}" for key, value in work.items()]
    found = json.loads(run(command, a.seconds).strip().splitlines()[-1])
    return dict(parameters=found["parameters"], per_second=found["per_second"], bytes=found["peak_bytes"],
                peer=found["peer"])


def median(runs, key):
    return statistics.median(one[key] for one in runs)


def line(name, mine, others):
    found = f"{name:<12} {mine[0]['parameters'] / 1e6:>8.1f}M"
    for runs in (mine, others):
        if not runs:
            return found + "  no peer"
        found += f" {median(runs, 'per_second'):>11.0f} {median(runs, 'bytes') / 2**30:>6.1f}"
    ratios = [m["per_second"] / o["per_second"] for m, o in zip(mine, others)]
    return found + f" {statistics.median(ratios):>7.3f}  {min(ratios):.3f} to {max(ratios):.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default=",".join(WORKS), help="which, by name; all: " + ", ".join(WORKS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--compile", default="reduce-overhead", help="PyTorch's mode: no, default, reduce-overhead, max-autotune")
    parser.add_argument("--seconds", type=int, default=300, help="longest time of one run")
    parser.add_argument("--trireme", help="the command; found in build/release otherwise")
    parser.add_argument("--json", help="write all results to this file")
    a = parser.parse_args()
    unknown = [name for name in a.work.split(",") if name not in WORKS]
    if unknown:
        sys.exit(f"compare_gpu: there is no work {', '.join(unknown)}; known are {', '.join(WORKS)}")
    trireme, python = a.trireme or find_trireme(HERE.parent), find_python()

    found = {name: ([], []) for name in a.work.split(",")}
    for number in range(a.rounds):
        for name, (mine, others) in found.items():
            for runs, measure in ((mine, lambda: ours(trireme, WORKS[name], a)),
                                  (others, lambda: peers(python, WORKS[name], a))):
                try:
                    runs.append(measure())
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    print(f"compare_gpu: {name}: {error}", file=sys.stderr, flush=True)
            if mine and others and mine[0]["parameters"] != others[0]["parameters"]:
                print(f"compare_gpu: {name}: {mine[0]['parameters']} and {others[0]['parameters']} parameters are "
                      "not the same model", file=sys.stderr)
            if mine:
                print(f"round {number + 1}/{a.rounds}  {line(name, mine[-1:], others[-1:])}", file=sys.stderr, flush=True)
            if a.json:
                Path(a.json).write_text(json.dumps(found, indent=1) + "\n")

    print(f"{'':<12} {'':>9} {'Trireme/s':>11} {'GiB':>6} {'PyTorch/s':>11} {'GiB':>6} {'ratio':>7}  range of {a.rounds} rounds")
    for name, (mine, others) in found.items():
        if mine:
            print(line(name, mine, others))


if __name__ == "__main__":
    main()

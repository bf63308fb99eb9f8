#!/usr/bin/env python3
"""Trains the same GPT on several ranks with Trireme and with PyTorch's DDP over gloo, in turns; prints ratios.

  bench/compare_ddp.py [--ranks 2] [--rounds 3] [--only data,zero1] [--json FILE]

Contenders, all at the same global batch: DDP with one thread a rank (as it is, and with OpenBLAS told which CPU
this is; the faster one is the peer), `trireme bench train -n RANKS` under each plan with one thread a rank, and
one rank with as many threads. Each round runs every contender once. A ratio is the median over the rounds of
the ratio within a round: on a shared machine neighbours in time have the same luck, far ones have not.
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
from pathlib import Path

import compare_torch as common

RATE = "tokens_per_second"
PLANS = ("data", "zero1", "zero2", "zero3", "megatron")


def run_trireme(trireme, arguments):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        common.run_command([trireme, "bench", "train", "--preset", "gpt", "--json", str(path)] + arguments)
        return json.loads(path.read_text())[0]


def contenders(a, trireme, python, flags):
    steps = ["--steps", str(a.steps), "--warmup", str(a.warmup)]
    ranks = str(a.ranks)
    found = {}
    if python:
        peer = lambda environment: common.run_peer(python, "gpt_ddp_torch.py", steps + ["--ranks", ranks, "--threads", "1"],
                                                   environment)
        found["ddp"] = lambda: peer({})
        if named := common.core_type(flags):
            found[f"ddp, OPENBLAS_CORETYPE={named}"] = lambda: peer({"OPENBLAS_CORETYPE": named})
    found["one rank"] = lambda: run_trireme(trireme, steps + [f"--train.threads={ranks}"])
    for plan in PLANS:
        found[plan] = lambda plan=plan: run_trireme(
            trireme, steps + ["-n", ranks, "--plan", plan, "--train.threads=1"])
    return found


def ratio(runs, name, other):
    """Median over the rounds of how much faster `name` was than `other`."""
    return statistics.median(a[RATE] / b[RATE] for a, b in zip(runs[name], runs[other]))


def exposed(run):
    return run.get("exposed_communication_seconds", 0) / run["median_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="steps that are timed in each run")
    parser.add_argument("--warmup", type=int, default=1, help="steps before them")
    parser.add_argument("--only", help="some of the contenders, by commas: ddp, one rank, data, zero1, …")
    parser.add_argument("--trireme", help="the command; found in build/release otherwise")
    parser.add_argument("--json", help="write the results to this file")
    a = parser.parse_args()

    only = a.only.split(",") if a.only else None
    model, flags = common.cpu_info()
    python = common.find_python() if not only or "ddp" in only else None
    found = contenders(a, a.trireme or common.find_trireme(common.HERE.parent), python, flags)
    if only:
        found = {name: run for name, run in found.items() if name.split(",")[0] in only}
    runs = {name: [] for name in found}
    for number in range(a.rounds):
        for name, run in found.items():
            runs[name].append(run())
            print(f"round {number + 1}/{a.rounds}  {name}: {runs[name][-1][RATE]:.0f} tokens/s", file=sys.stderr, flush=True)

    sizes = {run["parameters"] for each in runs.values() for run in each}
    if len(sizes) != 1:
        sys.exit(f"compare_ddp: {sizes} parameters: not the same model")
    peers = [name for name in runs if name.startswith("ddp")]
    peer = max(peers, key=lambda name: statistics.median(run[RATE] for run in runs[name]), default=None)
    against = [name for name in (peer, "one rank", "data") if name in runs]
    print(f"gpt, {sizes.pop() / 1e6:.1f}M parameters, f32, {a.ranks} ranks of 1 thread; {model}, "
          f"{platform.system()} {platform.release()}; {a.rounds} rounds\n")
    print(f"{'':<32} {'tokens/s':>9} {'exposed':>8}  ratio to " + ", ".join(against))
    rows = []
    for name, each in runs.items():
        rate = statistics.median(run[RATE] for run in each)
        share = statistics.median(exposed(run) for run in each)
        ratios = {other: ratio(runs, name, other) for other in against}
        print(f"{name:<32} {rate:>9.0f} {100 * share:>7.2f}%  " + "  ".join(f"{r:.3f}" for r in ratios.values()))
        rows.append({"benchmark": "compare_ddp", "name": name, "ranks": a.ranks, "cpu": model, RATE: rate,
                     "exposed_communication_share": share, "peer": peer, "ratio": ratios.get(peer),
                     "ratios": ratios, "rounds": [run[RATE] for run in each]})
    if a.json:
        Path(a.json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()

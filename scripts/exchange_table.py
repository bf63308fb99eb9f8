"""Trains a small GPT on the default text with methods of exchange, ranks on this machine, and makes the table of
docs/exchange.md of it: loss after so many steps, bytes a step. Run from the repository's root:

    python3 scripts/exchange_table.py [--trireme build/release/trireme/cli/trireme] [--steps 200] [--ranks 4]
                                      [--seeds 1,2,3] [FILE]

With FILE the table is put below its mark there; else it is printed.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MARK = "<!-- made by scripts/exchange_table.py; do not edit below -->\n"

ADAMW = ["--optim.kind=adamw", "--optim.lr=0.002"]
MOMENTUM = ["--optim.kind=momentum", "--optim.lr=0.3"]
SGD = ["--optim.kind=sgd", "--optim.lr=0.3"]

# Name, exchange, settings. The first of each optimizer is what the others are to come near to.
ARMS = [
    ("dense, adamw", None, ADAMW),
    ("bf16 on the wire", {"method": "all_reduce", "wire": "bf16"}, ADAMW),
    ("power_sgd, rank 2", {"method": "power_sgd", "rank": 2}, ADAMW),
    ("top_k 1 %", {"method": "top_k", "ratio": 0.01}, ADAMW),
    ("top_k 1 %, without feedback", {"method": "top_k", "ratio": 0.01, "feedback": False}, ADAMW),
    ("one_bit", {"method": "one_bit"}, ADAMW),
    ("threshold 0.001", {"method": "threshold", "threshold": 0.001}, ADAMW),
    ("terngrad", {"method": "terngrad"}, ADAMW),
    ("qsgd, 4 bits", {"method": "qsgd"}, ADAMW),
    ("dense, momentum", None, MOMENTUM),
    ("dgc 1 %", {"method": "dgc", "ratio": 0.01}, SGD),
    ("top_k 1 % + sgd (no momentum)", {"method": "top_k", "ratio": 0.01}, SGD),
    ("signum", {"method": "signum"}, ["--optim.kind=sgd", "--optim.lr=0.0005", "--optim.weight_decay=0",
                                      "--train.clip_norm=0"]),
]


def train(arguments, exchange, settings, seed):
    """(loss over the last tenth of the steps, bytes that a rank sends in a step)"""
    with tempfile.TemporaryDirectory() as folder:
        plan = {"mesh": f"data:{arguments.ranks}", "algorithm": "ring"}
        if exchange:
            plan["exchange"] = exchange
        path = Path(folder) / "plan.json"
        path.write_text(json.dumps(plan))
        run = Path(folder) / "run"
        model = ["--train.batch=16", "--model.layers=2", "--model.hidden=64", "--model.heads=4", "--model.seq=64", *settings]
        call(arguments, ["train", "-n", str(arguments.ranks), "--plan", str(path), f"--run.dir={run}",
                         f"--train.steps={arguments.steps}", f"--train.seed={seed}", "--train.threads=1",
                         "--lr_schedule.warmup_steps=20", *model])
        program = call(arguments, ["inspect", "program", "--plan", str(path), "--segment", "none", *model])
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "step_seconds" in line]
    step = next(line for line in program.splitlines() if line.startswith("# step "))
    return statistics.mean(losses[-max(1, len(losses) // 10):]), float(step.split()[-1])


def call(arguments, words):
    done = subprocess.run([arguments.trireme, *words], capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default="build/release/trireme/cli/trireme")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seeds", default="1")
    parser.add_argument("file", nargs="?")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    rows, dense = [], None
    for name, exchange, settings in ARMS:
        found = [train(arguments, exchange, settings, seed) for seed in seeds]
        losses, sent = [loss for loss, _ in found], found[0][1]
        dense = dense or sent
        spread = f" ± {(max(losses) - min(losses)) / 2:.3f}" if len(losses) > 1 else ""
        rows.append(f"| {name} | {statistics.mean(losses):.3f}{spread} | {sent / 1024:.1f} | {dense / sent:.1f} |")
        print(rows[-1], file=sys.stderr, flush=True)
    text = (f"A GPT of 2 layers, 64 wide, on the default text, {arguments.ranks} ranks, {arguments.steps} steps of 16 "
            f"windows of 64 tokens, seeds {arguments.seeds}; loss is the mean over the last tenth of the steps, in "
            "training.\n\n"
            "| method | loss | KiB sent by a rank in a step | times less |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    if not arguments.file:
        print(text)
        return
    path = Path(arguments.file)
    before, mark, _ = path.read_text().partition(MARK)
    if not mark:
        sys.exit(f"{path} has no line {MARK}")
    path.write_text(before + MARK + "\n" + text)


if __name__ == "__main__":
    main()

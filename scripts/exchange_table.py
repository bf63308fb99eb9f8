"""Trains a small GPT on the default text with methods of exchange, ranks on this machine, and makes the table of
docs/exchange.md of it: loss after so many steps, bytes a step. Run from the repository's root:

    python3 scripts/exchange_table.py [--trireme build/release/trireme/cli/trireme] [--steps 200] [--ranks 4]
                                      [--seeds 1,2,3] [--link LINK [--loss 3.2]] [FILE]

With --link it is another table: how long some of them take to a loss over that link (docs/launching.md), with what
`trireme inspect exchange` said before. With FILE the table is put at its mark there; else it is printed.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MARK = "<!-- made by scripts/exchange_table.py; do not edit below -->\n"

LINK_MARKS = ("<!-- made by scripts/exchange_table.py --link home; do not edit -->\n", "<!-- end of what it made -->\n")

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

# With the first word of their row in `trireme inspect exchange`.
LINK_ARMS = [
    ("dense", None, "dense"),
    ("power_sgd, rank 2", {"method": "power_sgd", "rank": 2}, "power_sgd"),
    ("terngrad", {"method": "terngrad"}, "terngrad"),
    ("local, 8 steps", {"method": "local", "steps": 8}, "local"),
]
MODEL = ["--train.batch=16", "--model.layers=2", "--model.hidden=64", "--model.heads=4", "--model.seq=64"]
# Large enough that its bytes count beside the latency of a slow link.
LINK_MODEL = ["--train.batch=16", "--model.layers=2", "--model.hidden=128", "--model.heads=4", "--model.seq=64"]
FEW = 10  # steps over which a loss is averaged


def time_to_loss(arguments, exchange):
    """(seconds and steps until the mean loss of FEW steps is arguments.loss or less, median seconds of a step)"""
    with tempfile.TemporaryDirectory() as folder:
        path, run = Path(folder) / "plan.json", Path(folder) / "run"
        path.write_text(json.dumps({"mesh": f"data:{arguments.ranks}", **({"exchange": exchange} if exchange else {})}))
        call(arguments, ["train", "-n", str(arguments.ranks), "--plan", str(path), f"--run.dir={run}", "--link",
                         arguments.link, f"--train.steps={arguments.steps}", "--train.seed=1", "--train.threads=1",
                         "--lr_schedule.warmup_steps=20", "--train.eval_every=0", "--run.sample_tokens=0",
                         "--run.checkpoint_every=0", *LINK_MODEL, *ADAMW])
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "step_seconds" in line]
    median = statistics.median(line["step_seconds"] for line in lines)
    for i in range(FEW, len(lines) + 1):
        if statistics.mean(line["loss"] for line in lines[i - FEW:i]) <= arguments.loss:
            return lines[i - 1]["seconds"], i, median
    return None, len(lines), median


def link_table(arguments):
    said = call(arguments, ["inspect", "exchange", "-n", str(arguments.ranks), "--link", arguments.link,
                            "--train.threads=1", *LINK_MODEL, *ADAMW])
    predicted = {row.split("|")[1].split()[0]: row.split("|")[6].strip() for row in said.splitlines()
                 if row.startswith("| ") and len(row.split("|")) > 6}
    rows = []
    for name, exchange, method in LINK_ARMS:
        seconds, steps, median = time_to_loss(arguments, exchange)
        when = f"{seconds:.1f} | {steps}" if seconds else f"not in {steps} steps |"
        rows.append(f"| {name} | {when} | {1e3 * median:.0f} | {predicted[method]} |")
        print(rows[-1], file=sys.stderr, flush=True)
    return (f"A GPT of 2 layers, 128 wide, with AdamW on the default text, {arguments.ranks} ranks, `--link {arguments.link}`, until the mean training loss of "
            f"{FEW} steps is {arguments.loss} or less; of `local`, rank 0's.\n\n"
            "| method | seconds to that loss | steps | ms a step, median | ms a step, predicted |\n|---|---|---|---|---|\n"
            + "\n".join(rows) + "\n")


def put_between(path, marks, text):
    before, begin, rest = path.read_text().partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        sys.exit(f"{path} has not the lines {marks}")
    path.write_text(before + begin + "\n" + text + "\n" + end + after)


def train(arguments, exchange, settings, seed):
    """(loss over the last tenth of the steps, bytes that a rank sends in a step)"""
    with tempfile.TemporaryDirectory() as folder:
        plan = {"mesh": f"data:{arguments.ranks}", "algorithm": "ring"}
        if exchange:
            plan["exchange"] = exchange
        path = Path(folder) / "plan.json"
        path.write_text(json.dumps(plan))
        run = Path(folder) / "run"
        model = [*MODEL, *settings]
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
    parser.add_argument("--link")
    parser.add_argument("--loss", type=float, default=3.2)
    parser.add_argument("file", nargs="?")
    arguments = parser.parse_args()
    if arguments.link:
        text = link_table(arguments)
        if arguments.file:
            put_between(Path(arguments.file), LINK_MARKS, text)
        else:
            print(text)
        return
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

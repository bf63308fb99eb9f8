#!/usr/bin/env python3
"""Compares predicted steps with measured ones over an emulated link, for several ways in which replicas agree.

The prediction is `trireme inspect exchange --link` (the simulator's clock, with what one rank alone computes) and, for
bytes, `trireme simulate`. The measurement is `trireme train --link` with four ranks on this machine: the wall time of
whole periods after the first steps, the agreement to stop included. Methods take turns in every round, so that a
machine that is busy for a while does not disturb one of them alone. The link is slow on purpose: ranks should mostly
wait, because more ranks than cores compute slower than one rank alone.

Bytes are those of rank 0. Predicted ones are the average of ranks whose parts of a collective differ by an element; measured
ones of a delayed sum belong to the step in which they leave, so a few of them fall on the other side of what is timed.

    bench/check_links.py build/release/trireme/cli/trireme --rounds 5 --json links.json
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODEL = ["--model.layers=2", "--model.hidden=192", "--model.heads=2", "--model.seq=8", "--train.batch=8", "--train.threads=1",
         "--train.clip_norm=0", "--optim.kind=sgd", "--optim.lr=0.01"]
# Name, the plan's exchange, the steps after which everything repeats itself.
METHODS = [
    ("dense", None, 1),
    ("top_k", {"method": "top_k", "ratio": 0.05}, 1),
    ("power_sgd", {"method": "power_sgd", "rank": 4}, 1),
    ("local", {"method": "local", "steps": 4}, 4),
    ("delayed", {"method": "delayed", "delay": 4, "period": 2}, 4),
    ("d_psgd", {"method": "d_psgd"}, 1),
    ("server", {"method": "server"}, 1),
    ("async_server", {"method": "async_server"}, 1),
]


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def plan_of(options, exchange):
    plan = {"mesh": f"data:{options.ranks}", "algorithm": options.algorithm}
    return json.dumps(plan | ({"exchange": exchange} if exchange else {}))


def predicted_ms(options, exchange):
    """Of a step, by `inspect exchange`: (milliseconds computed, milliseconds in all)"""
    said = run([options.trireme, "inspect", "exchange", "--link", options.link, *MODEL, "--model.vocab=256", "--plan",
                plan_of(options, exchange)])
    lines = [[cell.strip() for cell in line.split("|")] for line in said.splitlines() if line.startswith("|")]
    rows = {line[1]: line for line in lines[2:]}
    row = rows["the plan's own" if exchange else "dense"]
    return [float(row[lines[0].index(column)]) for column in ("ms computed", "ms a step")]


def predicted_bytes(options, exchange, folder):
    """That rank 0 sends in a step, by `simulate`"""
    path = folder / "simulated.json"
    run([options.trireme, "simulate", *MODEL, "--model.vocab=256", "--plan", plan_of(options, exchange), "--cluster", "v100",
         "--hosts", 1, "--all-ranks", "--json", path])
    return next(rank["bytes_sent"] for rank in json.loads(path.read_text())[0]["per_rank"] if rank["rank"] == 0)


def measured(options, exchange, period, folder):
    """(milliseconds a step, bytes that rank 0 sends in one), of whole periods"""
    skipped = max(4, 2 * period)
    steps = skipped + max(period, options.steps // period * period)
    run([options.trireme, "train", *MODEL, "--data.tokenizer=bytes", f"--train.steps={steps}", "--train.eval_every=0",
         "--run.checkpoint_every=0", "--run.resume=never", "--train.compare_every=0", f"--run.dir={folder / 'run'}", "-n",
         options.ranks, "--link", options.link, "--plan", plan_of(options, exchange)])
    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "loss" in line and "rank" not in line]
    # The last step has no agreement to stop behind it.
    timed = lines[skipped - 1:]
    seconds = timed[-1]["seconds"] - timed[0]["seconds"]
    return 1e3 * seconds / (len(timed) - 1), statistics.mean(line["bytes_sent"] for line in timed[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme", type=pathlib.Path)
    parser.add_argument("--link", default="latency=5ms,bandwidth=100Mbit")
    parser.add_argument("--algorithm", default="ring", help="of collectives; another one may send other bytes over the link than "
                        "on the cluster that `simulate` counts them for")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12, help="timed in a round")
    parser.add_argument("--only", help="methods, separated by commas")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    chosen = [one for one in METHODS if not options.only or one[0] in options.only.split(",")]
    predictions, rounds = {name: [] for name, _, _ in chosen}, {name: [] for name, _, _ in chosen}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        promised = {name: predicted_bytes(options, exchange, folder) for name, exchange, _ in chosen}
        for number in range(options.rounds):
            for name, exchange, period in chosen:
                predictions[name].append(predicted_ms(options, exchange))
                rounds[name].append(measured(options, exchange, period, folder))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    print(f"{options.ranks} ranks, --link {options.link}, {options.rounds} rounds of {options.steps} steps, medians\n")
    print("| exchange | ms computed | predicted ms | measured ms | error | bytes predicted | bytes measured |\n|---|---|---|---|---|---|---|")
    table = []
    for name, exchange, _ in chosen:
        computed, ms = (statistics.median(column) for column in zip(*predictions[name]))
        found, sent = (statistics.median(column) for column in zip(*rounds[name]))
        print(f"| {name} | {computed:.1f} | {ms:.1f} | {found:.1f} | {100 * (ms / found - 1):+.1f} % | {promised[name]:.0f} | {sent:.0f} |")
        table.append({"exchange": exchange or "dense", "computed_seconds": computed / 1e3, "predicted_seconds": ms / 1e3,
                      "median_seconds": found / 1e3, "rounds_seconds": [one / 1e3 for one, _ in rounds[name]],
                      "predicted_bytes": promised[name], "bytes": sent, "ranks": options.ranks, "link": options.link})
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()

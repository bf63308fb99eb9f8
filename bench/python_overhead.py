"""What a step costs more from Python: one small GPT on one rank, in `trireme train`, in tr.train without and with a
callback, and in a Trainer that is given arrays. Ratios of medians; the runs alternate, so that a busy machine slows all alike.

    PYTHONPATH=build/release/python /usr/bin/python3 bench/python_overhead.py build/release/trireme/cli/trireme [--runs 5] [--steps 60]
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import trireme as tr

MODEL = {"model.layers": 4, "model.heads": 4, "model.hidden": 128, "model.seq": 128, "model.vocab": 256}
TRAIN = {"train.batch": 8, "train.steps": 60, "train.threads": 1, "train.eval_every": 0, "run.sample_tokens": 0,
         "run.checkpoint_every": 0}


def step_seconds(folder):
    """The median of a run, without its first steps."""
    return statistics.median(line["step_seconds"] for line in tr.metrics(folder)[5:] if "step_seconds" in line)


def of_command(trireme, settings, folder):
    arguments = [f"--{name}={value}" for name, value in {**settings, "run.dir": folder}.items()]
    subprocess.run([trireme, "train", *arguments], check=True, capture_output=True)
    return step_seconds(folder)


def of_train(settings, folder, **callbacks):
    tr.train({**settings, "run.dir": folder}, **callbacks)
    return step_seconds(folder)


def of_trainer():
    trainer = tr.Trainer(tr.Config(None, MODEL), rows=TRAIN["train.batch"], train={"threads": 1})
    ids = np.random.default_rng(0).integers(0, 256, (TRAIN["train.batch"], 129))
    seconds = []
    for _ in range(TRAIN["train.steps"]):
        begin = time.perf_counter()
        trainer.step(ids=ids[:, :-1], targets=ids[:, 1:])
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[5:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trireme", help="the command")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=TRAIN["train.steps"], help="of each run")
    arguments = parser.parse_args()
    TRAIN["train.steps"] = arguments.steps
    ways = {"trireme train": [], "tr.train": [], "tr.train, with stepped=": [], "Trainer.step": []}
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text("".join(f"row {i} of many rows, {i * i % 97} by {i % 13}\n" for i in range(4000)))
        settings, losses = {**MODEL, **TRAIN, "data.path": str(text)}, []
        for number in range(arguments.runs):
            ways["trireme train"].append(of_command(arguments.trireme, settings, f"{folder}/command{number}"))
            ways["tr.train"].append(of_train(settings, f"{folder}/train{number}"))
            ways["tr.train, with stepped="].append(
                of_train(settings, f"{folder}/stepped{number}", stepped=lambda m: losses.append(m.loss)))
            ways["Trainer.step"].append(of_trainer())
    print("| steps by | milliseconds | ratio |\n|---|---|---|")
    base = statistics.median(ways["trireme train"])
    for way, seconds in ways.items():
        middle = statistics.median(seconds)
        print(f"| {way} | {1e3 * middle:.2f} | {middle / base:.3f} |")


if __name__ == "__main__":
    main()

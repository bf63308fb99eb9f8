"""Trains two image classifiers and a language model, measures them, and places and runs a workflow of them here.

    python3 examples/workflows/read_and_tell.py --mnist FOLDER --text FILE [--trireme PROGRAM] [--folder runs/read_and_tell]

A small network looks at each image at the edge, a larger one in the cloud, and a language model goes on from what both read.
Edge and cloud are processes of this machine: boxes are 1000 times slower than it, and the link between them is emulated.
docs/placement.md shows the output.
"""

import argparse
import subprocess
from pathlib import Path

HEAD = """accuracy = 0
load = 0.8
tiers = ["edge", "cloud"]
[[link]]
from = "edge"
to = "cloud"
price_per_gigabyte = 0.1
speed = "latency=20ms,bandwidth=8Mbit"
[[worker]]
name = "box"
tier = "edge"
price_per_hour = 0.1
count = 20
[[worker]]
name = "gpu"
tier = "cloud"
price_per_hour = 2
count = 10
[[source]]
name = "camera"
rate = 40
kilobytes = 0.7734375
held_out = "small"
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", required=True, help="the folder of the four IDX files")
    parser.add_argument("--text", required=True, help="a text to learn from")
    parser.add_argument("--trireme", default="trireme")
    parser.add_argument("--folder", default="runs/read_and_tell", type=Path)
    parser.add_argument("--steps", default=500, type=int, help="of each model's training")
    parser.add_argument("--requests", default=400, type=int)
    given = parser.parse_args()

    def trireme(*arguments):
        done = subprocess.run([given.trireme, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        return done.stdout

    folder = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    images = ["--model.family=mlp", f"--data.path={given.mnist}", "--data.kind=mnist", "--train.batch=64", "--train.threads=1"]
    text = ["--model.family=gpt", "--model.layers=2", "--model.heads=2", "--model.hidden=64", "--model.seq=64",
            f"--data.path={given.text}", "--train.batch=16", "--train.threads=1"]
    for name, settings in ("small", [*images, "--model.hidden=8", "--optim.lr=0.01"]), \
            ("large", [*images, "--model.hidden=256", "--optim.lr=0.002"]), ("words", [*text, "--optim.lr=0.003"]):
        if not (folder / name / "checkpoints").exists():
            trireme("train", *settings, f"--train.steps={given.steps}", f"--run.dir={folder / name}")

    def variant(name, *workers, extra=()):
        flags = [flag for worker in workers for flag in ("--worker", worker)]
        measured = trireme("profile", "--inference", folder / name, *flags, "--batches", 20, *extra)
        # Runs are relative to the workflow's file.
        return measured.replace(f'run = "{folder / name}"', f'run = "{name}"')

    workflow = folder / "workflow.toml"
    workflow.write_text(
        HEAD + '[[op]]\nname = "glance"\ninputs = ["camera"]\n' + variant("small", "box=1000", "gpu=100")
        + '[[op]]\nname = "look"\ninputs = ["camera"]\n' + variant("large", "gpu=100")
        + '[[op]]\nname = "tell"\ninputs = ["glance", "look"]\n'
        + variant("words", "gpu=25", extra=["--tokens", 8, "--inputs", "0,0"]))
    print(trireme("place", workflow, "--run", "--requests", given.requests, "--json", folder / "run.json",
                  "--answers", folder / "answers.jsonl", "-o", folder / "placement.json"), end="")


if __name__ == "__main__":
    main()

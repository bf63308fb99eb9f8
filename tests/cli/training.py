"""What tests of `trireme train` share: a folder with a text to learn from, and runs in it."""

import json
import random
import subprocess
import tempfile
import unittest
from pathlib import Path


def write_words(path):
    path.write_text(" ".join(random.Random(1).choices(["oar", "mast", "keel", "bank", "row", "pull"], k=4000)))


def read_metrics(run):
    """The lines of training steps, in order."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if "loss" in line]


class Training(unittest.TestCase):
    trireme = "trireme"
    settings = []  # of every run of a test

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.text = self.folder / "text.txt"
        write_words(self.text)

    def command(self, run, *arguments):
        return [self.trireme, "train", *self.settings, f"--data.path={self.text}", f"--run.dir={self.folder / run}",
                *arguments]

    def train(self, run, *arguments, before=(), code=0):
        """What it says. `before`: a launcher to run it under."""
        done = subprocess.run([*before, *self.command(run, *arguments)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def losses(self, run):
        return {line["step"]: line["loss"] for line in read_metrics(self.folder / run)}

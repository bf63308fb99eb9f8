"""What tests of `trireme train` share: a folder with a text to learn from, and runs in it."""

import json
import os
import random
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from checkpoint_files import read_checkpoint


def write_words(path):
    path.write_text(" ".join(random.Random(1).choices(["oar", "mast", "keel", "bank", "row", "pull"], k=4000)))


def write_cifar(folder, rows):
    """CIFAR-10 as its authors write it: a label, and 3x32x32 pixels; of noise, with `rows` in each file."""
    folder.mkdir()
    noise = random.Random(1)
    for part in ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]:
        (folder / f"{part}.bin").write_bytes(
            b"".join(bytes([i % 10]) + noise.randbytes(3072) for i in range(rows)))


def read_metrics(run):
    """The lines of training steps, in order."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if "loss" in line]


def rank_pids(launcher):
    """Of a launcher's ranks, by their number. Threads and ranks may end while they are looked at."""
    def read(path):
        try:
            return path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return b""

    pids = {}
    for task in Path(f"/proc/{launcher}/task").iterdir():
        for pid in map(int, read(task / "children").split()):
            for variable in read(Path(f"/proc/{pid}/environ")).split(b"\0"):
                if variable.startswith(b"TRIREME_RANK="):
                    pids[int(variable.split(b"=")[1])] = pid
    return pids


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


class LossyTraining(Training):
    """Of jobs in the background that lose ranks."""

    def start(self, run, *arguments):
        process = subprocess.Popen(self.command(run, *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def wait_until(self, what, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, f"no {what} within a minute")
            time.sleep(0.005)

    def lines(self, run):
        path = self.folder / run / "metrics.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    def ranks_of(self, process, ranks, before=()):
        """The processes of a job's ranks when there are so many other than those before."""
        found = {}

        def are_there():
            try:
                found.clear()
                found.update(rank_pids(process.pid))
                return len(found) == ranks and not set(found.values()) & set(before)
            except (FileNotFoundError, ProcessLookupError):  # one that is ending
                return False
        self.wait_until("start of ranks", are_there)
        return dict(found)

    def lose(self, process, run, rank, number, steps, before=(), ranks=2):
        """Sends a signal to one rank when ranks other than those before have made so many steps. Returns the ranks."""
        pids, there = self.ranks_of(process, ranks, before), self.lines(run)
        self.wait_until(f"step in {run}", lambda: self.lines(run) >= there + steps)
        os.kill(pids[rank], number)
        return pids.values()


class PlannedTraining(Training):
    """Of several ranks with a plan, also in the background."""

    def plan(self, exchange=None, ranks=4, **more):
        path = self.folder / f"plan{ranks}.json"
        path.write_text(json.dumps({"mesh": f"data:{ranks}", **({"exchange": exchange} if exchange else {}), **more}))
        return ["--plan", str(path)]

    def start(self, run, *arguments):
        process = subprocess.Popen(self.command(run, *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for_steps(self, run, steps, process):
        deadline = time.monotonic() + 60
        log = self.folder / run / "metrics.jsonl"
        while not log.exists() or log.read_text().count("\n") < steps:
            self.assertIsNone(process.poll(), "it ended before")
            self.assertLess(time.monotonic(), deadline, "no steps")
            time.sleep(0.02)

    def states(self, run):
        """Weights and the optimizer's, of the last checkpoint."""
        found = [path.parent for path in (self.folder / run / "checkpoints").glob("*/model*.safetensors")]
        self.assertTrue(found)
        return read_checkpoint(max(found))

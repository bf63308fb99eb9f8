"""What the tests of the package share: where things are, text to train on, and settings of small models.

A test is run by ctest; alone: PYTHONPATH=build/release/python /usr/bin/python3 tests/python/X_test.py . TRIREME REFERENCE,
with the command and build/release/tests/python/python_reference.
"""

import os
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE, TRIREME, REFERENCE = Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
SECONDS = 300

SMALL = {"model.layers": 2, "model.heads": 2, "model.hidden": 32, "model.seq": 16, "train.batch": 8, "train.steps": 12,
         "train.threads": 1, "train.eval_every": 0, "run.sample_tokens": 0}


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def launched(script, ranks=2):
    """What each rank of a script says, started as torchrun starts ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(ranks):
        variables = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": str(port), "TRIREME_SECRET": "c2VjcmV0" * 8}
        variables["PYTHONPATH"] += f":{Path(__file__).parent}"
        processes.append(subprocess.Popen([sys.executable, "-c", script], env=variables, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=SECONDS) for process in processes]
    if any(process.returncode for process in processes):
        raise AssertionError(f"{[process.returncode for process in processes]}: {said}")
    return [out for out, _ in said]


def arguments(settings):
    return [f"--{name}={value}" for name, value in settings.items()]


class Folder(unittest.TestCase):
    """Tests in a folder of their own, with a text."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="trireme-python-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        Path("text.txt").write_text("".join(f"row {i} of many rows, {i * i % 97} by {i % 13}\n" for i in range(600)))

    def small(self, name, **more):
        """Settings of a small run in the folder `name`; `train__steps=3` is train.steps."""
        return {**SMALL, "data.path": "text.txt", "run.dir": name,
                **{key.replace("__", "."): value for key, value in more.items()}}


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)

"""What tests of `trireme simulate`, `profile` and `plan` share: a folder, a small machine's cluster file, and commands."""

import subprocess
import tempfile
import unittest
from pathlib import Path

SMALL = ["--model.layers=4", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--model.vocab=256",
         "--train.batch=8", "--train.threads=1"]

MACHINE = """
name = "two cores"
[[device]]
name = "core"
kind = "cpu"
memory_bytes = 4e9
bytes_per_second = 8e9
flops_per_second = {f32 = 40e9}
[[host]]
device = "core"
devices = 2
inside = "memory"
[[link]]
name = "memory"
alpha_seconds = 2e-6
bytes_per_second = 4e9
"""


class ClusterCommands(unittest.TestCase):
    trireme = "trireme"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def machine(self, text=MACHINE):
        """The path of a cluster file."""
        path = self.folder / "machine.toml"
        path.write_text(text)
        return str(path)

    def run_command(self, *arguments, code=0):
        """What it says."""
        done = subprocess.run([self.trireme, *arguments], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

"""The command line itself: versions, help, refusals, and what progress looks like on a terminal and in a file.

Run by ctest; alone: python3 tests/cli/front_test.py build/release/trireme/cli/trireme.
"""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import unittest
from pathlib import Path

from training import Training

MPIRUN = str(Path(__file__).parent.parent / "multirank" / "mpirun.sh")

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=16", "--model.seq=8", "--train.batch=4",
         "--train.threads=1", "--run.sample_tokens=0", "--train.steps=12"]


def on_a_terminal(command, columns):
    """What the command writes to a terminal of that width."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(command, stdout=inside, stderr=inside, env={**os.environ, "TERM": "xterm"})
    os.close(inside)
    written = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(terminal)
    return process.wait(timeout=60), written.decode()


class Front(Training):
    settings = SMALL

    def run_command(self, *arguments, code=0):
        done = subprocess.run([self.trireme, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_version(self):
        for word in ["--version", "version"]:
            self.assertRegex(self.run_command(word), r"^trireme \d+\.\d+(\.\d+)?\n$")

    def test_help_says_each_setting_once(self):
        text = self.run_command("train", "--help")
        self.assertEqual(text.count("Settings ("), 1)
        self.assertEqual(text.count("--train.batch="), 1)

    def test_no_ranks_are_refused(self):
        for count in ["0", "-1"]:
            text = self.train("run", "-n", count, code=2)
            self.assertIn("ranks", text)
        self.assertFalse((self.folder / "run").exists())

    def test_too_many_threads_are_refused(self):
        self.assertIn("4096 threads", self.train("run", "--train.threads=4096", code=1))

    def test_a_path_in_a_file_is_taken_from_its_folder(self):
        (self.folder / "my.toml").write_text('[data]\npath = "text.txt"\n')
        self.run_command("train", str(self.folder / "my.toml"), *SMALL, f"--run.dir={self.folder / 'run'}")
        # And the settings that a run leaves behind start it again from anywhere.
        text = self.run_command("train", str(self.folder / "run/config.toml"), "--train.steps=13",
                                f"--run.dir={self.folder / 'again'}")
        self.assertIn("step 13/13", text)

    def test_a_finished_run_says_so(self):
        self.assertIn("finished: 12 steps", self.train("run"))
        text = self.train("run")
        self.assertIn("this run is finished: 12 of 12 steps are done", text)
        self.assertNotIn("steps 13 to 12", text)

    def test_progress_fits_the_terminal(self):
        for columns in [30, 72, 200]:
            code, text = on_a_terminal(self.command(f"run{columns}"), columns)
            self.assertEqual(code, 0, text)
            drawn = re.findall(r"\r\x1b\[K([^\r\n]*)", text)
            self.assertEqual(len(drawn), 12, text)
            for line in drawn:
                self.assertLess(len(line), columns)
                self.assertIn("step ", line)
        self.assertIn("█", drawn[-1])  # where there is room
        self.assertIn("ETA", drawn[-1])

    def test_progress_in_a_file_is_plain(self):
        text = self.train("run")
        self.assertEqual(len(re.findall(r"^step \d+/12  loss .*ETA", text, re.M)), 12)
        self.assertNotIn("\x1b", text)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_progress_under_mpirun_is_plain(self):
        # Open MPI gives its ranks a terminal each.
        text = self.train("run", before=["env", "TERM=xterm", MPIRUN, "mpirun", "2"])
        self.assertIn("step 12/12", text)
        self.assertNotIn("\x1b", text)


if __name__ == "__main__":
    Front.trireme = sys.argv.pop(1)
    unittest.main()

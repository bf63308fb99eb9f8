"""The command line itself: versions, help, refusals, and what progress looks like on a terminal and in a file.

Run by ctest; alone: python3 tests/cli/front_test.py build/release/trireme/cli/trireme.
"""

import fcntl
import os
import pty
import re
import shutil
import signal
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

    def test_a_file_to_begin_with(self):
        def init(*arguments):
            return subprocess.run([Path(self.trireme).resolve(), "config", "init", *arguments], capture_output=True, text=True, cwd=self.folder)
        done = init("--model.family=resnet", "--train.steps=0")
        self.assertEqual((done.returncode, done.stdout), (2, ""))  # no setting can be that
        done = init(*SMALL)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("trireme train trireme.toml", done.stdout)
        written = (self.folder / "trireme.toml").read_text()
        self.assertEqual(init(*SMALL, "-").stdout, written)
        again = init("--train.steps=3")
        self.assertEqual(again.returncode, 1)
        self.assertIn("trireme.toml is there already", again.stderr)
        self.assertEqual((self.folder / "trireme.toml").read_text(), written)
        self.settings = []
        self.train("run", str(self.folder / "trireme.toml"))
        self.assertEqual(sorted(self.losses("run")), list(range(1, 13)))

    def test_no_ranks_are_refused(self):
        for count in ["0", "-1"]:
            text = self.train("run", "-n", count, code=2)
            self.assertIn("ranks", text)
        self.assertFalse((self.folder / "run").exists())

    def test_settings_that_do_not_exist(self):
        for argument, meant in [("--train.stps=5", "train.steps"), ("--steps=5", "--train.steps"),
                                ("--lr", "--optim.lr"), ("--optim.lr=fast", "expected a number")]:
            text = self.train("run", argument, code=2)
            self.assertIn(meant, text)
        self.assertFalse((self.folder / "run").exists())

    def test_refused_runs_leave_nothing(self):
        nothing = str(self.folder / "nothing")
        for refused in [["--run.resume=always"], [f"--data.path={nothing}"], [f"--train.init_from={nothing}"],
                        ["--train.device=cuda_"], ["--model.seq=100000"]]:
            for ranks in [[], ["-n", "2"]]:
                trace = self.folder / "trace.json"
                done = subprocess.run(self.command("deep/run", *refused, *ranks, f"--trace={trace}"),
                                      capture_output=True, text=True, timeout=60)
                self.assertIn(done.returncode, [1, 2], done.stdout + done.stderr)
                self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["text.txt"], refused)
        # Nor does one that has no folder of its own.
        done = subprocess.run([self.trireme, "train", *SMALL, f"--data.path={nothing}", "-n", "2"], cwd=self.folder,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["text.txt"])

    def test_refused_runs_move_nothing(self):
        self.train("run")
        self.train("run", "--run.resume=never", f"--train.init_from={self.folder / 'nothing'}", code=1)
        self.assertFalse((self.folder / "run/earlier-1").exists())
        self.assertIn("this run is finished", self.train("run"))

    def test_the_data_is_named(self):
        self.assertIn(f"from {self.text}\n", self.train("run"))

    def test_an_error_of_all_ranks_is_told_once(self):
        nothing = str(self.folder / "nothing.txt")
        text = self.train("run", f"--data.path={nothing}", "-n", "3", code=1)
        self.assertEqual(text.count("nothing.txt does not exist"), 1, text)
        self.assertNotIn("exit code", text)
        # Alone it says the same.
        self.assertIn("trireme train: data.path: ", self.train("run", f"--data.path={nothing}", code=1))

    def test_output_that_can_not_be_written(self):
        graph = [self.trireme, "inspect", "graph"]
        with open("/dev/full", "wb") as full:
            done = subprocess.run(graph, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "trireme inspect: the output could not be written: No space left on device\n")
        # `| head` ends it without a word, whatever SIGPIPE does.
        for ignored, codes in [(False, [-signal.SIGPIPE]), (True, [1])]:
            process = subprocess.Popen(graph, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       restore_signals=not ignored)
            process.stdout.close()
            text = process.stderr.read()
            process.stderr.close()
            self.assertIn(process.wait(timeout=60), codes)
            self.assertEqual(text, "")

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

    def test_what_is_said_of_a_failure_has_a_line_of_its_own(self):
        # On the terminal on which the progress is drawn.
        tokens = self.folder / "tokens.bin"
        for ranks in [[], ["-n", "2"]]:
            tokens.write_bytes(struct.pack("<4000H", *[7] * 4000))
            terminal, inside = pty.openpty()
            process = subprocess.Popen(self.command("run", f"--data.path={tokens}", "--model.vocab=50",
                                                    "--train.steps=1000000", *ranks),
                                       stdout=inside, stderr=inside, env={**os.environ, "TERM": "xterm"})
            os.close(inside)
            written = b""
            while True:
                try:
                    written += os.read(terminal, 65536)
                except OSError:  # the other end is closed
                    break
                if b"step 5/" in written and tokens.stat().st_size > 100:
                    os.truncate(tokens, 100)
            os.close(terminal)
            self.assertEqual(process.wait(timeout=60), 1)
            text = written.decode()
            self.assertRegex(text, r"(\n|\r\x1b\[K)(\[rank \d\] )?trireme train: .*tokens.bin: has 100 bytes")
            shutil.rmtree(self.folder / "run")

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

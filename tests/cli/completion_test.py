"""Completion in real shells: what is typed on a terminal before TAB, and what stands there after it.

Run by ctest; alone: python3 tests/cli/completion_test.py build/release/trireme/cli/trireme.
"""

import os
import pty
import re
import select
import shutil
import sys
import time
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "packaging/completion.bash"
TRIREME = Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/trireme/cli/trireme").resolve()
SECONDS = 60


class Shell:
    """An interactive shell with the completion. TAB answers slowly on a busy machine, so each one is waited for."""

    def __init__(self, *command, setup=""):
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.environ.update(TERM="dumb", PS1="> ", PATH=f"{TRIREME.parent}:{os.environ['PATH']}")
            os.execvp(command[0], command)
        self.write(f"{setup}source '{SCRIPT}'; echo rea''dy\n")
        self.read(rb"ready\r\n")

    def write(self, text):
        os.write(self.terminal, text.encode())

    def read(self, pattern):
        seen, end = b"", time.monotonic() + SECONDS
        while not re.search(pattern, seen):
            if time.monotonic() > end or not select.select([self.terminal], [], [], SECONDS)[0]:
                raise AssertionError(f"no {pattern} within {SECONDS} s: {seen}")
            seen += os.read(self.terminal, 4096)
        return seen

    def complete(self, typed):
        """The line after TAB. Shells take keys one after another: what follows TAB waits until it is done."""
        self.write(f"{typed}\t\x01echo '[\x05]'\n")  # to the line's begin, then to its end
        found = re.findall(rb"\n\[(.*?)\]\r\n", self.read(rb"\n\[.*\]\r\n"))
        return found[-1].decode()

    def close(self):
        os.close(self.terminal)
        os.wait()


class Completion(unittest.TestCase):
    def check(self, shell):
        self.addCleanup(shell.close)
        for typed, completed in (("trireme tra", "trireme train"),
                                 ("trireme inspect sch", "trireme inspect schedule"),
                                 ("trireme config in", "trireme config init"),
                                 ("trireme bench collectives --cal", "trireme bench collectives --calibrate"),
                                 ("trireme train --restar", "trireme train --restarts"),
                                 ("trireme train --train.prec", "trireme train --train.precision="),
                                 ("trireme train --train.precision=bf", "trireme train --train.precision=bf16"),
                                 ("trireme train --model.family=sw", "trireme train --model.family=swin"),
                                 ("trireme train --model.tie_embeddings=t", "trireme train --model.tie_embeddings=true"),
                                 ("trireme train --run.", "trireme train --run.")):  # several
            with self.subTest(typed):
                self.assertEqual(shell.complete(typed).rstrip(), completed)

    def test_bash(self):
        self.check(Shell("bash", "--norc", "--noprofile", "-i"))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        self.check(Shell("zsh", "-f", "-i", setup="autoload -U compinit bashcompinit; compinit -u -D; bashcompinit; "))


if __name__ == "__main__":
    unittest.main()

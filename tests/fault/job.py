"""Starts jobs of rank_program and follows what their ranks say. Shared by the tests of this folder."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from shared_memory import left_in_shared_memory  # noqa: E402

# What a busy machine may take beyond a promised time. TRIREME_STRICT_TIMES=1, on a quiet machine, takes the promises
# at their word.
SLACK = 0.0 if "TRIREME_STRICT_TIMES" in os.environ else 8.0

LINE = re.compile(r"(?:\[rank (\d+)\] )?(ready|result|error|refused) (.*)")


def exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Rank:
    def __init__(self):
        self.pid = None
        self.result = None
        self.error = None        # its text
        self.error_time = None   # CLOCK_MONOTONIC, like time.monotonic()


class Job:
    """One launcher and its ranks: `rank_program -n RANKS …`."""

    def __init__(self, command, ranks, environment=None):
        self.ranks = [Rank() for _ in range(ranks)]
        self.said = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env=environment)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.said.append(line.rstrip("\n"))
                self.take(LINE.fullmatch(line.strip()))
                self.changed.notify_all()

    def take(self, match):
        if not match or match[1] is None:
            return
        rank = self.ranks[int(match[1])]
        if match[2] == "ready":
            rank.pid = int(match[3])
        elif match[2] == "result":
            rank.result = match[3]
        elif match[2] == "error":
            when, rank.error = match[3].split(" ", 1)
            rank.error_time = float(when)

    def output(self):
        return "\n".join(self.said)

    def wait_until(self, condition, seconds, what):
        with self.changed:
            if not self.changed.wait_for(condition, seconds):
                raise AssertionError(f"{what}: not within {seconds} s; it said:\n{self.output()}")

    def wait_ready(self, seconds=40):
        self.wait_until(lambda: all(rank.pid for rank in self.ranks), seconds, "ranks ready")

    def wait(self, seconds):
        """The exit code."""
        code = self.process.wait(seconds)
        self.reader.join(5)
        return code

    def close(self):
        """Ends what a failed test left running."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for rank in self.ranks:
            if rank.pid and exists(rank.pid):
                try:
                    os.kill(rank.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.reader.join(5)
        self.process.stdout.close()

    def check_nothing_left(self, before):
        deadline = time.monotonic() + 2 + SLACK
        while any(rank.pid and exists(rank.pid) for rank in self.ranks) and time.monotonic() < deadline:
            time.sleep(0.01)
        left = [rank.pid for rank in self.ranks if rank.pid and exists(rank.pid)]
        assert not left, f"processes {left} are left"
        more = left_in_shared_memory() - before
        assert not more, f"{more} is left in /dev/shm"

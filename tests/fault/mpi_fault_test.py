"""A rank is killed, or stopped, while all run a collective under mpirun.

MPI libraries end the whole job when a rank dies, so nobody here lives to name it: mpirun does. What must hold: nothing
hangs, the job fails, no process and no shared memory of ours is left. A stopped rank is found out by the
others, as on every transport. Run by ctest; alone:
python3 tests/fault/mpi_fault_test.py RANK_PROGRAM MPIRUN [unittest arguments]
"""

import os
import re
import signal
import sys
import time
import unittest

import launch_test
from job import Job, exists, left_in_shared_memory

PROGRAM = None
RANKS = 4
TIMEOUT = 2.0


class MpiJob(Job):
    """mpirun does not say which rank a line is from; ranks are in the order in which they were ready."""

    def take(self, match):
        if match and match[2] == "ready":
            next(rank for rank in self.ranks if rank.pid is None).pid = int(match[3])


class MpiFaultTest(unittest.TestCase):
    def strike(self, number, *arguments):
        self.before = left_in_shared_memory()
        job = MpiJob([*launch_test.mpirun(RANKS), PROGRAM, "--transport", "mpi", "--timeout", str(TIMEOUT), "--endless",
                      *map(str, arguments)], RANKS, launch_test.clean_environment())
        self.addCleanup(job.close)
        job.wait_ready()
        time.sleep(0.1)
        os.kill(job.ranks[2].pid, number)
        return job

    def test_killed(self):
        for algorithm in ["native", "ring"]:
            with self.subTest(algorithm=algorithm):
                job = self.strike(signal.SIGKILL, "--collective", "all_reduce", "--count", 100_000, "--algorithm",
                                  algorithm)
                self.assertNotEqual(job.wait(20), 0, job.output())
                self.assertRegex(job.output(), r"signal 9|KILLED BY SIGNAL: 9")
                job.check_nothing_left(self.before)

    def test_stopped(self):
        job = self.strike(signal.SIGSTOP, "--collective", "all_reduce", "--algorithm", "ring", "--count", 100_000)
        named = re.compile(r"all_reduce.*number \d+", re.DOTALL)
        job.wait_until(lambda: named.search(job.output()), TIMEOUT + 10, "the others name the collective")
        if exists(job.ranks[2].pid):
            os.kill(job.ranks[2].pid, signal.SIGCONT)  # mpirun cannot end what is stopped
        self.assertNotEqual(job.wait(30), 0, job.output())
        job.check_nothing_left(self.before)


if __name__ == "__main__":
    PROGRAM, launch_test.MPIRUN = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])

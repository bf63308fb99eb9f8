"""One rank is killed, stopped or only slow while all run a collective; or makes another call than the others.

The others must say which rank, which call and its number, within 1 s of a kill or 1 s after the timeout of a
stop, and nothing may be left behind. Run by ctest, which leaves most of the stops out, as each takes its timeout;
alone, with all of them, or with those times taken at their word:
python3 tests/fault/fault_test.py RANK_PROGRAM shm|tcp [unittest arguments]
TRIREME_STRICT_TIMES=1 python3 tests/fault/fault_test.py RANK_PROGRAM shm|tcp [unittest arguments]
"""

import os
import signal
import sys
import time
import unittest

from job import SLACK, Job, left_in_shared_memory

PROGRAM, TRANSPORT = None, None
COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter",
               "all_to_all", "barrier"]
STOPPED = COLLECTIVES
RANKS = 4
VICTIM = 2
KILL_TIMEOUT = 30.0  # of which nothing may be waited for: well beyond 1 s and SLACK
STOP_TIMEOUT = 1.0


class FaultTest(unittest.TestCase):
    def start(self, *arguments, ranks=RANKS, timeout=KILL_TIMEOUT):
        self.before = left_in_shared_memory()
        job = Job([PROGRAM, "-n", str(ranks), "--transport", TRANSPORT, "--timeout", str(timeout),
                   *map(str, arguments)], ranks)
        self.addCleanup(job.close)
        return job

    def strike(self, collective, number, count=1_000_000, algorithm="automatic", timeout=KILL_TIMEOUT):
        """Starts a job, lets it run for a moment, and gives the victim a signal."""
        job = self.start("--collective", collective, "--count", count, "--endless", "--algorithm",
                         algorithm, timeout=timeout)
        job.wait_ready()
        time.sleep(0.1)
        struck = time.monotonic()
        os.kill(job.ranks[VICTIM].pid, number)
        return job, struck

    def check_errors(self, job, struck, within, collective):
        others = [rank for i, rank in enumerate(job.ranks) if i != VICTIM]
        job.wait_until(lambda: all(rank.error for rank in others), within + 20, "an error on every other rank")
        for rank in others:
            self.assertLessEqual(rank.error_time - struck, within + SLACK, job.output())
            self.assertIn(collective, rank.error)
            self.assertRegex(rank.error, r"number \d+")
            self.assertRegex(rank.error, rf"(rank|gone:|silent:|not:)[ 0-9]*\b{VICTIM}\b")

    def test_killed(self):
        for collective in COLLECTIVES:
            with self.subTest(collective=collective):
                job, struck = self.strike(collective, signal.SIGKILL)
                self.check_errors(job, struck, 1.0, collective)
                self.assertEqual(job.wait(20), 128 + signal.SIGKILL, job.output())
                self.assertIn(f"rank {VICTIM} was killed by signal 9", job.output())
                self.assertIn("the last operations of each rank", job.output())
                job.check_nothing_left(self.before)

    def test_stopped(self):
        for collective in STOPPED:
            with self.subTest(collective=collective):
                job, struck = self.strike(collective, signal.SIGSTOP, timeout=STOP_TIMEOUT)
                self.check_errors(job, struck, STOP_TIMEOUT + 1.0, collective)
                self.assertEqual(job.wait(20), 1, job.output())
                self.assertIn(f"rank {VICTIM} did not end", job.output())
                job.check_nothing_left(self.before)

    # The same with algorithms that pass things on, and with messages of every kind of size.
    def test_killed_in_every_algorithm(self):
        for algorithm in ["ring", "tree", "double_tree", "butterfly", "reduce_scatter_gather", "parameter_server"]:
            for count in [1, 3_000_000]:
                with self.subTest(algorithm=algorithm, count=count):
                    job, struck = self.strike("all_reduce", signal.SIGKILL, count, algorithm)
                    self.check_errors(job, struck, 1.0, "all_reduce")
                    self.assertEqual(job.wait(20), 128 + signal.SIGKILL, job.output())
                    job.check_nothing_left(self.before)

    def test_slow_is_not_dead(self):
        timeout = 4.0
        job = self.start("--collective", "all_reduce", "--iterations", 200, "--pause-ms", 10, timeout=timeout)
        job.wait_ready()
        time.sleep(0.1)
        os.kill(job.ranks[VICTIM].pid, signal.SIGSTOP)
        time.sleep(timeout / 3)
        os.kill(job.ranks[VICTIM].pid, signal.SIGCONT)
        self.assertEqual(job.wait(30), 0, job.output())
        self.assertEqual(len({rank.result for rank in job.ranks}), 1, job.output())
        job.check_nothing_left(self.before)

    def test_busy_rank_is_waited_for(self):
        job = self.start("--collective", "all_reduce", "--iterations", 3, "--pause-ms", 700, timeout=3)
        self.assertEqual(job.wait(30), 0, job.output())

    def check_mismatch(self, expected, *odd):
        job = self.start("--collective", "all_reduce", "--count", 1000, "--algorithm", "ring", "--iterations", 3,
                         "--odd-rank", 1, *odd)
        begin = time.monotonic()
        self.assertEqual(job.wait(30), 1, job.output())
        self.assertLess(time.monotonic() - begin, KILL_TIMEOUT / 2, "found out by the timeout alone:\n" + job.output())
        for rank in job.ranks:
            self.assertIsNotNone(rank.error, job.output())
        # Both calls are printed, by whoever found out; the others repeat it or say who ended the job.
        self.assertTrue(any(all(call in rank.error for call in expected) for rank in job.ranks), job.output())
        job.check_nothing_left(self.before)

    def test_different_sizes(self):
        self.check_mismatch(["all_reduce of 1,000 f32", "all_reduce of 999 f32"], "--odd-count", 999)

    def test_different_dtypes(self):
        self.check_mismatch(["all_reduce of 1,000 f32", "all_reduce of 1,000 i32"], "--odd-dtype", "i32")

    def test_different_collectives(self):
        for other in ["all_gather", "broadcast", "barrier"]:
            with self.subTest(other=other):
                self.check_mismatch(["all_reduce of 1,000 f32", other], "--odd-collective", other)

    def test_launcher_killed(self):
        job = self.start("--endless")
        job.wait_ready()
        job.process.kill()
        job.wait(20)
        job.check_nothing_left(self.before)

    def test_interrupted(self):
        job = self.start("--endless")
        job.wait_ready()
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(10), 128 + signal.SIGINT, job.output())
        job.check_nothing_left(self.before)

    def test_dies_before_it_meets_the_others(self):
        job = self.start("--launcher", "nobody")
        self.assertNotEqual(job.wait(10), 0)
        self.assertIn("there is no launcher 'nobody'", job.output())


if __name__ == "__main__":
    if "--few-stops" in sys.argv:
        sys.argv.remove("--few-stops")
        STOPPED = ["all_reduce", "broadcast", "barrier"]
    PROGRAM, TRANSPORT = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])

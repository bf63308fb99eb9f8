"""train --restarts: a job that loses a rank is started again, and ends with the bits of one that lost none.

Run by ctest; alone: python3 tests/cli/restart_test.py build/release/trireme/cli/trireme.
"""

import random
import signal
import sys
import unittest

from checkpoint_files import read_checkpoint
from training import LossyTraining

STEPS, EVERY = 2000, 100


class Restart(LossyTraining):
    settings = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=4",
                "--train.threads=1", "--model.dropout=0.1", "--run.sample_tokens=0", "--train.eval_every=0",
                "--train.log_every=500",  # nobody reads the output before the end
                f"--train.steps={STEPS}", f"--run.checkpoint_every={EVERY}"]

    def start(self, run, *arguments):
        return super().start(run, "-n", "2", *arguments)

    def test_three_losses_cost_an_interval_each(self):
        self.train("whole", "-n", "2")
        process, draws, pids = self.start("lossy", "--restarts=3", "--timeout=1"), random.Random(7), ()
        for number in signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL:
            pids = self.lose(process, "lossy", draws.randrange(2), number, draws.randrange(50, 400), pids)
        text = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, 0, text)
        for restart, wait in (1, 1), (2, 2), (3, 4):
            self.assertIn(f"trireme: starts all ranks again in {wait} s (restart {restart} of 3)", text)
        self.assertEqual(self.losses("lossy"), self.losses("whole"))
        last = f"checkpoints/step-{STEPS:08}"
        self.assertEqual(read_checkpoint(self.folder / "lossy" / last), read_checkpoint(self.folder / "whole" / last))

    def test_a_job_that_keeps_losing_ranks_ends(self):
        process = self.start("lossy", "--restarts=1")
        pids = self.lose(process, "lossy", 1, signal.SIGKILL, 3)
        self.lose(process, "lossy", 1, signal.SIGKILL, 3, pids)
        text = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 128 + signal.SIGKILL, text)
        self.assertEqual(text.count("starts all ranks again"), 1)

    def test_errors_and_interruptions_do_not_restart(self):
        text = self.train("bad", "-n", "2", "--restarts=3", "--plan=nosuch", code=1)
        self.assertNotIn("again in", text)
        process = self.start("stopped", "--restarts=3")
        self.wait_until("step", lambda: self.lines("stopped") > 3)
        process.send_signal(signal.SIGTERM)
        text = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 3, text)
        self.assertNotIn("again in", text)

    def test_what_can_not_resume_is_refused(self):
        for arguments, message in [(["-n", "2", "--run.resume=never"], "but run.resume is 'never'"),
                                   (["-n", "2", "--run.dir="], "--restarts needs run.dir"),
                                   ([], "these were started by no launcher")]:
            text = self.train("bad", "--restarts=2", *arguments, code=1)
            self.assertIn(message, text)
            self.assertNotIn("launched by", text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Restart.trireme = sys.argv.pop(1)
    unittest.main()

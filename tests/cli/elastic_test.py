"""train.shards: checkpoints with the same bytes, whatever the number of ranks, of threads, and the transport.

Run by ctest; alone: python3 tests/cli/elastic_test.py build/release/trireme/cli/trireme.
"""

import shutil
import sys
import unittest
from pathlib import Path

from checkpoint_files import read_checkpoint
from training import Training

MPIRUN = str(Path(__file__).parent.parent / "multirank" / "mpirun.sh")
SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=8",
         "--model.dropout=0.1", "--train.steps=6", "--lr_schedule.warmup_steps=2",
         "--run.sample_tokens=0", "--train.eval_every=0"]


class Elastic(Training):
    settings = SMALL

    def train(self, run, *arguments, before=(), shards=4, threads=1, code=0):
        return super().train(run, f"--train.shards={shards}", f"--train.threads={threads}", *arguments, before=before,
                             code=code)

    def bytes_of(self, run):
        return read_checkpoint(self.folder / run / "checkpoints" / "step-00000006")

    def test_same_bytes_on_any_number_of_ranks_and_every_transport(self):
        self.train("one")
        expected = self.bytes_of("one")
        self.train("threads", threads=2)
        self.assertEqual(self.bytes_of("threads"), expected)
        for ranks in ["2", "4"]:
            for transport in ["shm", "tcp"]:
                run = transport + ranks
                self.assertIn(f"transport {transport}", self.train(run, "-n", ranks, "--transport", transport))
                self.assertEqual(self.bytes_of(run), expected, run)
        self.train("both", "-n", "2", threads=2)
        self.assertEqual(self.bytes_of("both"), expected)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_same_bytes_under_mpirun(self):
        self.train("one")
        for ranks in ["2", "4"]:
            text = self.train("mpi" + ranks, "--transport=mpi", before=[MPIRUN, "mpirun", ranks])
            self.assertIn("transport mpi", text)
            self.assertEqual(self.bytes_of("mpi" + ranks), self.bytes_of("one"))

    def test_ranks_may_change_in_the_middle_of_a_run(self):
        self.train("one", "--lr_schedule.decay_steps=6")
        for steps, ranks in [(2, 4), (4, 1), (6, 2)]:
            self.train("parts", "-n", str(ranks), f"--train.steps={steps}", "--lr_schedule.decay_steps=6")
        self.assertEqual(self.bytes_of("parts"), self.bytes_of("one"))

    def test_refusals_come_before_ranks_start(self):
        for arguments, message in [(["-n", "3"], "can not be shared evenly by 3 ranks"),
                                   (["-n", "2", "--plan=zero1"], "data parallelism alone"),
                                   (["--train.batch=6"], "cannot be split evenly into train.shards = 4"),
                                   (["--train.accumulate=2"], "both say how a batch is cut")]:
            text = self.train("bad", *arguments, code=1)
            self.assertIn(message, text)
            self.assertNotIn("launched by", text)
        self.assertIn("try 2 or 4", self.train("bad", shards=3, code=1))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Elastic.trireme = sys.argv.pop(1)
    unittest.main()

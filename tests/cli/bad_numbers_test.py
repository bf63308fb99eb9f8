"""Steps with bad numbers, what number formats lose, and who was where when a rank was lost.

Run by ctest; alone: python3 tests/cli/bad_numbers_test.py build/release/trireme/cli/trireme.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from checkpoint_files import read_checkpoint
from shared_memory import left_in_shared_memory
from training import LossyTraining, rank_pids, read_metrics


class BadNumbers(LossyTraining):
    settings = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=4",
                "--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0", "--lr_schedule.warmup_steps=0"]

    def inspect(self, *arguments):
        done = subprocess.run([self.trireme, "inspect", *map(str, arguments)], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def events(self, run, kind):
        lines = (self.folder / run / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def test_a_rate_that_is_far_too_high_ends_under_every_policy(self):
        for ranks in "1", "2":
            high = ["-n", ranks, "--train.steps=50", "--optim.lr=1e30", "--run.checkpoint_every=0"]
            text = self.train(f"stop{ranks}", *high, code=1)
            self.assertRegex(text, r"is not finite at step|the loss is \S+ at step")
            self.train(f"skip{ranks}", *high, "--train.on_nan=skip", "--train.max_skipped=3", code=1)
            self.assertEqual(len(self.events(f"skip{ranks}", "skip")), 3)
            self.assertIn("skipped          3 steps", self.inspect("run", self.folder / f"skip{ranks}"))
            self.train(f"rewind{ranks}", *high, "--train.on_nan=rewind", "--train.max_skipped=0", "--train.max_rewinds=2",
                       code=1)
            self.assertEqual([event["step"] for event in self.events(f"rewind{ranks}", "rewind")], [0, 0])

    def test_rewinds_are_the_same_however_often_a_run_stops(self):
        """With a rate and a limit so low that usual losses are spikes."""
        for name, plan in ("zero2", "zero2"), ("pipe", '{"mesh": "pipe:2", "schedule": "1f1b", "accumulate": 2}'):
            common = ["-n", "2", "--plan", plan, "--model.layers=2", "--lr_schedule.kind=constant", "--optim.lr=1e-5",
                      "--model.dropout=0.1", "--run.checkpoint_every=10", "--train.on_spike=rewind",
                      "--train.spike_window=5", "--train.spike_deviations=2", "--train.max_rewinds=100"]
            self.train(f"{name}_whole", *common, "--train.steps=30")
            for steps in 7, 13, 18, 30:
                self.train(f"{name}_parts", *common, f"--train.steps={steps}")
            self.assertGreater(len(self.events(f"{name}_whole", "rewind")), 0)
            last = "checkpoints/step-00000030"
            self.assertEqual(read_checkpoint(self.folder / f"{name}_whole" / last),
                             read_checkpoint(self.folder / f"{name}_parts" / last))

    def test_numbers_of_steps(self):
        for ranks in "1", "2":
            run = f"numbers{ranks}"
            self.train(run, "-n", ranks, "--train.steps=6", "--train.numbers_every=3", "--train.precision=bf16",
                       "--optim.lr=1e-5")
            lines = read_metrics(self.folder / run)
            self.assertEqual([line["step"] for line in lines if "numbers" in line], [3, 6])
            numbers = lines[-1]["numbers"]
            self.assertEqual((numbers["format"], numbers["loss_scale"]), ("bf16", 1))
            # Weights near 0.02 lose updates of 1e-5 in 8 bits, and those in f32 do not.
            self.assertGreater(numbers["matrices"]["updates_lost_in_format"], 0.3)
            self.assertLess(numbers["matrices"]["updates_lost"], 0.01)
            self.assertEqual(numbers["vectors"]["weights_saturated"], 0)
            self.assertRegex(self.inspect("run", self.folder / run), r"matrices +at most, in bf16: .*updates_lost_in_format")

    def test_numbers_do_not_change_a_run(self):
        for run, every in ("without", 0), ("with", 2):
            self.train(run, "-n", "2", "--train.steps=6", f"--train.numbers_every={every}")
        self.assertEqual(self.losses("with"), self.losses("without"))
        counted = [[line["bytes_sent"] for line in read_metrics(self.folder / run)] for run in ("with", "without")]
        self.assertEqual(counted[0], counted[1])

    def test_what_does_not_go_together_is_refused(self):
        plan = '{"mesh": "data:2", "exchange": {"method": "top_k", "ratio": 0.5}}'
        for setting in "--train.on_nan=skip", "--train.on_spike=stop", "--train.numbers_every=1":
            self.assertIn("do not go together", self.train("run", "-n", "2", "--plan", plan, setting, code=1))

    def test_formats(self):
        text = self.inspect("numbers")
        self.assertRegex(text, r"adding ones stops at +16777216 +256 +2048")
        self.assertRegex(text, r"1e-08 becomes +9\.99999994e-09 +\S+e-0\d +0\n")

    def test_who_was_where(self):
        before = left_in_shared_memory()
        for number, how in (signal.SIGKILL, "was killed by signal 9"), (signal.SIGSTOP, "was stuck"):
            run = f"flight{int(number)}"
            process = self.start(run, "-n", "2", "--timeout=1", "--train.steps=1000000", "--train.log_every=1000000")
            self.lose(process, run, 1, number, 5)
            said = process.communicate(timeout=60)[0]
            self.assertNotEqual(process.returncode, 0, said)
            text = self.inspect("flight", self.folder / run)
            self.assertIn(f"rank 1 {how}", text)
            self.assertRegex(text, r"\n +0 +\S+ +\d+ +all_reduce of ")
            record = json.loads(self.inspect("flight", self.folder / run, "--json"))
            self.assertEqual((record["ranks"], record["ends"][-1]["rank"]), (2, 1))
            for rank in 0, 1:
                numbers = [line["number"] for line in record["operations"] if line["rank"] == rank]
                self.assertGreater(len(numbers), 5)
            self.assertTrue(all(line["bytes"] >= 0 and line["ago_seconds"] > 0 for line in record["operations"]))
        self.assertEqual(left_in_shared_memory() - before, set())

    def test_who_was_where_in_a_run_without_a_folder(self):
        process = self.start("", "-n", "2", "--run.dir=", "--train.steps=1000000", "--train.log_every=1")
        while not process.stdout.readline().startswith("step"):
            self.assertIsNone(process.poll())
        os.kill(rank_pids(process.pid)[1], signal.SIGKILL)
        said = process.communicate(timeout=60)[0]
        path = re.search(r"trireme inspect flight (\S+)", said)[1]
        self.addCleanup(os.unlink, path)
        self.assertEqual(Path(path).parent, Path(tempfile.gettempdir()))
        self.assertIn("rank 1 was killed by signal 9", self.inspect("flight", path))


if __name__ == "__main__":
    BadNumbers.trireme = sys.argv.pop(1)
    unittest.main()

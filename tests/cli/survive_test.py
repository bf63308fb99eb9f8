"""train --elastic MIN:MAX: a job that loses ranks goes on with the others, from a copy in memory, and grows again.

Run by ctest; alone: python3 tests/cli/survive_test.py build/release/trireme/cli/trireme.
"""

import json
import os
import random
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from checkpoint_files import read_checkpoint
from shared_memory import left_in_shared_memory
from training import LossyTraining, read_metrics

STEPS = 1500


class Survive(LossyTraining):
    settings = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=8",
                "--train.threads=1", "--model.dropout=0.1", "--run.sample_tokens=0", "--train.eval_every=0",
                "--train.log_every=500", f"--train.steps={STEPS}", "--run.checkpoint_every=500",
                "--run.memory_copy_every=1", "--timeout=4"]

    def setUp(self):
        super().setUp()
        before = left_in_shared_memory()
        self.addCleanup(lambda: self.assertEqual(left_in_shared_memory() - before, set(), "left in /dev/shm"))

    def events(self, run, kind):
        lines = (self.folder / run / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def finish(self, process, code=0):
        text = process.communicate(timeout=200)[0]
        self.assertEqual(process.returncode, code, text)
        return text

    def last(self, run):
        return read_checkpoint(self.folder / run / "checkpoints" / f"step-{STEPS:08}")

    def test_losses_at_random_moments_and_growing_back_change_no_bit(self):
        shards = "--train.shards=4"
        whole = self.start("whole", "-n", "4", "--elastic=2:4", shards)
        self.finish(whole)
        process, draws, pids = self.start("lossy", "--elastic=2:4", "--grow-after=0.3", shards), random.Random(3), ()
        numbers = [signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL, signal.SIGSEGV]
        for number in numbers:
            pids = self.lose(process, "lossy", draws.randrange(4), number, draws.randrange(1, 100), pids, ranks=4)
            self.ranks_of(process, 2, pids)
        text = self.finish(process)
        self.assertEqual(text.count("trireme: goes on with 2 of 4 ranks"), len(numbers), text)
        self.assertEqual(self.losses("lossy"), self.losses("whole"))
        self.assertEqual(self.last("lossy"), self.last("whole"))
        continued = self.events("lossy", "continued")
        self.assertGreaterEqual(len(continued), 2 * len(numbers) - 1)
        for event in continued:
            grows = "there was room for 4 ranks" in event["text"]
            self.assertEqual(event["ranks"], 4 if grows else 2, event)
            self.assertLessEqual(event["steps_again"], 0 if grows else 1, event)
            self.assertGreater(event["seconds"], 0)
        self.assertEqual([event["end"] for event in self.events("lossy", "end")], ["finished"])
        for pid in pids:
            self.assertFalse(Path(f"/proc/{pid}").exists(), "a rank is left")

    def test_a_loss_between_rewinds_changes_no_bit(self):
        """With a rate and a limit so low that usual losses are spikes."""
        rewinds = ["--elastic=1:2", "--train.shards=2", "--train.steps=100", "--lr_schedule.kind=constant",
                   "--optim.lr=1e-5", "--run.checkpoint_every=20", "--train.on_spike=rewind", "--train.spike_window=10",
                   "--train.spike_deviations=1.7", "--train.max_rewinds=1000"]
        self.finish(self.start("whole", "-n", "2", *rewinds))
        process = self.start("lossy", "--grow-after=1000", *rewinds)
        self.lose(process, "lossy", 1, signal.SIGKILL, 22)
        self.finish(process)
        self.assertGreater(len(self.events("whole", "rewind")), 3)
        self.assertEqual(self.losses("lossy"), self.losses("whole"))
        last = "checkpoints/step-00000100"
        self.assertEqual(read_checkpoint(self.folder / "lossy" / last), read_checkpoint(self.folder / "whole" / last))
        self.assertEqual(len(self.events("lossy", "continued")), 1)

    def test_the_batch_stays_that_of_all_ranks_and_replicas_stay_equal(self):
        """The numbers agree up to rounding, with ZeRO and 3 ranks for 8 rows."""
        plan = ["--plan", json.dumps({"mesh": "data:4", "preset": "zero1"}), "--train.compare_every=1"]
        self.finish(self.start("whole", "-n", "4", "--elastic=3:4", "--train.steps=200", *plan))
        process = self.start("lossy", "-n", "4", "--elastic=3:4", "--train.steps=200", *plan)
        self.lose(process, "lossy", 1, signal.SIGKILL, 20, ranks=4)
        self.assertIn("goes on with 3 of 4 ranks", self.finish(process))
        for step, loss in self.losses("whole").items():
            self.assertAlmostEqual(self.losses("lossy")[step], loss, delta=1e-3)

    def test_too_few_are_left(self):
        process = self.start("few", "-n", "2", "--elastic=1:2")
        pids = self.lose(process, "few", 0, signal.SIGKILL, 20)
        self.lose(process, "few", 0, signal.SIGKILL, 20, pids, ranks=1)
        text = self.finish(process, 128 + signal.SIGKILL)
        self.assertIn("0 of 2 ranks are left, and --elastic 1:2 needs 1", text)
        made = read_metrics(self.folder / "few")[-1]["step"]
        saved = sorted((self.folder / "few" / "checkpoints").iterdir())
        self.assertIn(f"the newest copy in memory is now {saved[-1]}", text)
        self.assertLessEqual(made - int(saved[-1].name.removeprefix("step-")), 1)
        self.assertIn(f"resumes from {saved[-1]}", self.train("few", f"--train.steps={made + 2}",
                                                              "--run.memory_copy_every=0"))

    def test_restarts_lose_a_step_and_not_an_interval(self):
        process = self.start("again", "-n", "2", "--restarts=1", "--run.checkpoint_every=0")
        self.lose(process, "again", 1, signal.SIGKILL, 100)
        text = self.finish(process)
        self.assertIn("starts all ranks again in 1 s (restart 1 of 1)", text)
        event, = self.events("again", "continued")
        self.assertGreater(event["step"], 90)
        self.assertLessEqual(event["steps_again"], 1)

    def test_a_plan_with_a_fixed_mesh_starts_all_ranks_again(self):
        plan = ["-n", "2", "--elastic=1:2", "--plan", json.dumps({"mesh": "tensor:2", "preset": "megatron"})]
        self.assertIn("mesh 'tensor:2' is for 2 ranks", self.train("fixed", *plan, code=1))
        process = self.start("fixed", *plan, "--restarts=1", "--train.steps=300")
        self.lose(process, "fixed", 1, signal.SIGKILL, 20)
        text = self.finish(process)
        self.assertIn("the plan does not fit 1 to 1 ranks", text)
        self.assertIn("starts all ranks again", text)
        event, = self.events("fixed", "continued")
        self.assertEqual((event["ranks"], event["steps_again"] <= 1), (2, True))

    def test_a_signal_saves_on_disk(self):
        process = self.start("stopped", "-n", "2", "--elastic=1:2")
        self.lose(process, "stopped", 1, signal.SIGKILL, 5)
        self.ranks_of(process, 1)
        there = self.lines("stopped")
        self.wait_until("step", lambda: self.lines("stopped") > there + 3)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 3)
        made = read_metrics(self.folder / "stopped")[-1]["step"]
        self.assertTrue((self.folder / "stopped" / "checkpoints" / f"step-{made:08}").exists())

    def test_nothing_is_left_of_a_killed_launcher(self):
        process = self.start("orphans", "-n", "2", "--elastic=1:2")
        pids = self.ranks_of(process, 2)
        self.wait_until("step", lambda: self.lines("orphans") > 3)
        self.assertTrue(list(Path("/dev/shm").glob(f"trireme-{process.pid}-*")))
        process.kill()
        self.wait_until("end", lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.values()))
        end = time.monotonic() + 10
        while left_in_shared_memory() and time.monotonic() < end:
            time.sleep(0.05)

    def test_refusals(self):
        serves = json.dumps({"mesh": "data:3", "exchange": {"method": "server"}})
        for arguments, message in [(["-n", "3", "--elastic=1:2"], "--elastic 1:2 starts 2 ranks, but -n is 3"),
                                   (["--elastic=2:4", "--run.dir="], "--elastic needs run.dir"),
                                   (["--elastic=2:4", "--plan=auto"], "--plan auto may choose a mesh"),
                                   (["--elastic=2:3", "--plan", serves], "at their own pace"),
                                   (["--elastic=3:4", "--train.shards=4"], "can not be shared evenly by 3 ranks"),
                                   ([], "run.memory_copy_every is 1, but copies in memory are gone with the job")]:
            text = self.train("bad", *arguments, code=1)
            self.assertIn(message, text)
            self.assertNotIn("launched by", text)
        self.assertIn("expected two numbers, such as 2:4", self.train("bad", "--elastic=4", code=2))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Survive.trireme = sys.argv.pop(1)
    unittest.main()

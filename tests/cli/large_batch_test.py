"""What a person does who adds ranks and lets the batch grow: the rate follows, and the metrics say what it brought.

Run by ctest; alone: python3 tests/cli/large_batch_test.py build/release/trireme/cli/trireme.
"""

import sys
import unittest

from training import Training, read_metrics

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.threads=1",
         "--run.sample_tokens=0", "--train.eval_every=0", "--lr_schedule.warmup_steps=2", "--lr_schedule.kind=constant",
         "--train.batch_per_rank=4", "--train.noise_scale=true", "--optim.lr=1e-3"]


class LargeBatch(Training):
    settings = SMALL

    def train(self, run, *arguments, code=0):
        text = super().train(run, *arguments, code=code)
        return text, read_metrics(self.folder / run) if code == 0 else []

    def test_the_rate_follows_the_batch(self):
        for ranks, rule, rate in [(1, "linear", 1e-3), (2, "linear", 2e-3), (4, "sqrt", 2e-3), (2, "none", 1e-3)]:
            _, steps = self.train(f"{rule}{ranks}", "-n", str(ranks), f"--optim.batch_rule={rule}", "--train.steps=3")
            self.assertAlmostEqual(steps[-1]["lr"], rate, places=9)
            self.assertEqual([o["samples"] for o in steps], [4 * ranks * step for step in (1, 2, 3)])

    def test_the_critical_batch_is_measured_where_there_are_pieces(self):
        text, steps = self.train("two", "-n", "2", "--train.steps=5")
        self.assertGreater(steps[-1]["critical_batch"], 0)
        self.assertIn("critical batch", text)
        self.assertNotIn("critical_batch", self.train("one", "--train.steps=2")[1][-1])
        self.assertIn("critical_batch", self.train("parts", "--train.accumulate=2", "--train.steps=5")[1][-1])

    def test_seconds_go_on_where_a_run_goes_on(self):
        self.train("run", "--train.steps=3")
        _, steps = self.train("run", "--train.steps=6")
        self.assertEqual([o["step"] for o in steps], [1, 2, 3, 4, 5, 6])
        seconds = [o["seconds"] for o in steps]
        self.assertEqual(seconds, sorted(seconds))
        self.assertGreaterEqual(seconds[-1], sum(o["step_seconds"] for o in steps) * 0.99)

    def test_a_batch_that_does_not_fit_is_told(self):
        self.assertIn("cannot be split evenly into train.accumulate = 3",
                      self.train("bad", "-n", "2", "--train.accumulate=3", "--train.batch=3", code=1)[0])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        LargeBatch.trireme = sys.argv.pop(1)
    unittest.main()

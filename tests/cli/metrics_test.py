"""Numbers that a run writes, against what they must be: no other run to compare with, which could share a mistake.

Run by ctest; alone: python3 tests/cli/metrics_test.py build/release/trireme/cli/trireme.
"""

import json
import math
import sys
import unittest

from training import Training, read_metrics

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=16", "--model.seq=8", "--train.batch=4",
         "--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0", "--run.checkpoint_every=0"]


class Metrics(Training):
    settings = SMALL

    def validations(self, run):
        lines = map(json.loads, (self.folder / run / "metrics.jsonl").read_text().splitlines())
        return [line for line in lines if "validation_loss" in line]

    def state(self, run, step):
        return json.loads((self.folder / run / f"checkpoints/step-{step:08}/state.json").read_text())

    def test_the_learning_rate_of_each_step(self):
        self.train("run", "--train.steps=6", "--optim.lr=0.8", "--lr_schedule.warmup_steps=4", "--lr_schedule.kind=linear",
                   "--lr_schedule.decay_steps=8")
        rates = [line["lr"] for line in read_metrics(self.folder / "run")]
        for found, expected in zip(rates, [0.2, 0.4, 0.6, 0.8, 0.8, 0.6]):
            self.assertAlmostEqual(found, expected, places=12)

    def test_a_rate_that_drops_after_its_rise(self):
        self.train("run", "--train.steps=3", "--optim.lr=0.5", "--lr_schedule.warmup_steps=2", "--lr_schedule.kind=step",
                   "--lr_schedule.drop_every=1", "--lr_schedule.drop_factor=0")
        rates = [line["lr"] for line in read_metrics(self.folder / "run")]
        self.assertEqual(rates, [0.25, 0.5, 0.0])

    def test_validation_counts_each_held_out_target_once(self):
        self.text.write_text(self.text.read_text()[:2000])  # a byte is a token, and a tenth is held out
        for batch, batches in [(4, 1000), (5, 1000), (200, 3)]:
            run = f"run{batch}"
            self.train(run, "--train.steps=1", f"--train.batch={batch}", f"--train.eval_batches={batches}")
            line, = self.validations(run)
            self.assertEqual(line["validation_targets"], 199, batch)
            self.assertLess(abs(line["validation_loss"] - math.log(256)), 0.3)
        # And of no more batches than asked for.
        self.train("few", "--train.steps=1", "--train.eval_batches=3")
        self.assertEqual(self.validations("few")[0]["validation_targets"], 3 * 4 * 8)
        self.train("two", "-n", "2", "--train.steps=1", "--train.eval_batches=1000")
        self.assertEqual(self.validations("two")[0]["validation_targets"], 199)

    def test_the_state_after_some_steps(self):
        f16 = ["--train.precision=f16", "--train.accumulate=2", "--train.seed=5"]
        self.train("run", "--train.steps=7", *f16)
        state = self.state("run", 7)
        self.assertEqual((state["step"], state["seed"], state["scale_age"]), (7, 5, 7))
        self.assertEqual(state["data"], {"epoch": 0, "index": 28})
        # A microbatch has 2 rows of 8 targets.
        self.assertEqual(state["loss_scale"], 65536 / 16)
        self.assertIn("(step 7)", self.train("run", "--train.steps=11", *f16))
        state = self.state("run", 11)
        self.assertEqual((state["step"], state["scale_age"]), (11, 11))
        self.assertEqual(state["data"], {"epoch": 0, "index": 44})

    def test_samples_are_counted(self):
        self.train("run", "--train.steps=3")
        self.assertEqual([line["samples"] for line in read_metrics(self.folder / "run")], [4, 8, 12])


if __name__ == "__main__":
    Metrics.trireme = sys.argv.pop(1)
    unittest.main()

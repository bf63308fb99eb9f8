"""What a person does who adds ranks and lets the batch grow: the rate follows, and the metrics say what it brought.

Run by ctest; alone: python3 tests/cli/large_batch_test.py build/release/trireme/cli/trireme.
"""

import json
import subprocess
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

    def test_warm_up_begins_at_the_base_rate(self):
        _, steps = self.train("base", "-n", "2", "--optim.batch_rule=linear", "--lr_schedule.warmup_from=base",
                              "--train.steps=4", "--lr_schedule.warmup_steps=2")
        for step, rate in zip(steps, [1e-3, 1.5e-3, 2e-3, 2e-3]):
            self.assertAlmostEqual(step["lr"], rate, places=9)

    def batches(self, *arguments, code=0):
        settings = [one for one in self.settings if not one.startswith(("--train.batch", "--train.noise"))]
        command = [self.trireme, "bench", "batches", "--runs", self.folder / "grid", "--batches", "4,16", "--epochs",
                   "0.05", "--samples", "64", "--rows", "16", *settings, f"--data.path={self.text}", *arguments]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_a_grid_of_batches_at_equal_epochs(self):
        report = self.folder / "report.json"
        more = ["--rules", "none,linear", "--warmups", "0", "--optimizers", "adamw,lamb=2e-3", "--json", report]
        self.assertIn("lamb0.002-b16-linear", self.batches(*more, "--list"))
        self.assertFalse((self.folder / "grid").exists())
        said = self.batches(*more)
        self.assertEqual(said.count(" trained\n"), 6, said)
        objects = json.loads(report.read_text())
        cells = [one for one in objects if one["benchmark"] == "batches"]
        self.assertEqual([(one["optimizer"], one["batch"], one["rule"]) for one in cells],
                         [(kind, batch, rule) for kind in ["adamw", "lamb"]
                          for batch, rule in [(4, "none"), (16, "none"), (16, "linear")]])
        for one in cells:
            self.assertLess(abs(one["steps"] * one["batch"] / (cells[0]["steps"] * 4) - 1), 0.1)
            self.assertAlmostEqual(one["gap"], one["held_out_loss"] - one["training_loss"], places=9)
            self.assertGreater(one["largest_eigenvalue"], 0)
            self.assertAlmostEqual(one["lr"] / one["base_lr"], 4 if one["rule"] == "linear" else 1, places=5)
            self.assertEqual(read_metrics(self.folder / "grid" / one["run"])[-1]["step"], one["steps"])
        self.assertTrue(any("steps_to_target" in one for one in cells))

        # What is there is not trained again; what is missing is, and so is what was interrupted.
        files = {path: path.stat().st_mtime_ns for path in (self.folder / "grid").rglob("metrics.jsonl")}
        [missing] = (self.folder / "grid").glob("adamw*-b16-none/cell.json")
        missing.unlink()
        again = self.batches(*more)
        self.assertEqual([again.count(" trained\n"), again.count("was trained before")], [1, 5])
        for path, time in files.items():
            self.assertEqual(path.stat().st_mtime_ns == time, path.parent != missing.parent, path)
        without = [{key: value for key, value in one.items() if "second" not in key} for one in objects]
        self.assertEqual([{key: value for key, value in one.items() if "second" not in key}
                          for one in json.loads(report.read_text())], without)
        self.assertIn("other settings", self.batches(*more, "--train.seed=7", code=1))
        self.assertIn("held-out", self.batches(*more, "--data.validation_fraction=0", code=1))
        self.assertIn("--rules", self.batches("--rules", "cubic", code=2))

    def test_a_batch_that_does_not_fit_is_told(self):
        self.assertIn("cannot be split evenly into train.accumulate = 3",
                      self.train("bad", "-n", "2", "--train.accumulate=3", "--train.batch=3", code=1)[0])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        LargeBatch.trireme = sys.argv.pop(1)
    unittest.main()

"""Reports about a step and a run as a person asks for them: parallelism, what fits, scaling, learning.

Run by ctest; alone: python3 tests/cli/reports_test.py build/release/trireme/cli/trireme.
"""

import json
import sys
import unittest
from pathlib import Path

from cluster_commands import MACHINE, SMALL, ClusterCommands


class Reports(ClusterCommands):
    def rows(self, text, name):
        return [line.split() for line in text.splitlines() if line.startswith(name)]

    def test_parallelism_of_a_step(self):
        said = self.run_command("inspect", "graph", "--parallelism", *SMALL, "--cluster", self.machine(),
                                "--plan", "data", "-n", "3")
        for part in ("forward", "backward", "update"):
            self.assertEqual(self.rows(said, part)[0][1], "all")
        self.assertIn("imbalance", said)
        # 8 rows over 3 ranks: three on the fullest, where the mean is two and two thirds.
        self.assertIn("12.5%", " ".join(self.rows(said, "forward")[0]))
        self.assertIn("memory", said)

    def test_which_techniques_fit(self):
        said = self.run_command("plan", "--fit", *SMALL, "-n", "2", "--cluster", self.machine())
        self.assertRegex(said, r"one device +[0-9.]+ MiB +fits, [0-9.]+%")
        self.assertRegex(said, r"zero3 2, recompute full +[0-9.]+ ")
        tiny = MACHINE.replace("memory_bytes = 4e9", "memory_bytes = 1e5")
        self.assertRegex(self.run_command("plan", "--fit", *SMALL, "-n", "2", "--cluster", self.machine(tiny)),
                         r"one device .* over \(\w+")
        everywhere = self.run_command("plan", "--fit", *SMALL, "-n", "1")
        for device in ("v100", "a100", "h100", "h200"):
            self.assertIn(device, everywhere.lower())

    def test_large_models_are_looked_at_without_weights(self):
        """12.6 billion parameters: 16 bytes each in f32 with AdamW, and no device has them."""
        said = self.run_command("plan", "--fit", "-n", "1", "--cluster", "a100", "--model.family=wide_resnet",
                                "--model.layers=101", "--model.channels=320", "--model.width=16",
                                "--model.classes=1024", "--train.batch=1", "--data.kind=images")
        self.assertRegex(said, r"one device +[0-9.]+ GiB +[0-9.]+ GiB over \(optimizer\)")

    def test_scaling_is_measured_beside_the_simulator(self):
        result = self.folder / "scaling.json"
        said = self.run_command("bench", "scaling", *SMALL, "--ranks", "1,2", "--steps", "2", "--repeats", "1",
                                "--cluster", self.machine(), "--json", str(result))
        points = json.loads(result.read_text())
        self.assertEqual([(p["scaling"], p["ranks"], p["batch"]) for p in points],
                         [("strong", 1, 8), ("strong", 2, 8), ("weak", 1, 8), ("weak", 2, 16)])
        # Prediction and efficiency of the second point: those of `simulate`, and of samples per second and rank.
        simulated = self.folder / "simulated.json"
        self.run_command("simulate", "--plan", "data", "-n", "2", *SMALL, "--cluster", self.machine(), "--json", str(simulated))
        self.assertAlmostEqual(points[1]["predicted_seconds"] / json.loads(simulated.read_text())[0]["predicted_seconds"], 1)
        for kind in ("median_seconds", "efficiency"), ("predicted_seconds", "predicted_efficiency"):
            seconds, shares = ([p[field] for p in points] for field in kind)
            self.assertEqual((shares[0], shares[2]), (1, 1))
            self.assertAlmostEqual(shares[1], seconds[0] / (2 * seconds[1]))
            self.assertAlmostEqual(shares[3], seconds[2] / seconds[3])
        self.assertEqual(len(self.rows(said, "strong")), 2)
        self.assertIn("train.batch=9", self.run_command("bench", "scaling", *SMALL, "--ranks", "3", code=1))

    def run_of(self, name, rate):
        """A run whose loss falls by `rate` a step, half a second and 100 tokens each."""
        folder = self.folder / name
        folder.mkdir()
        lines = [json.dumps({"step": i + 1, "loss": 4 - rate * i, "step_seconds": 0.5, "tokens_per_second": 200})
                 for i in range(100)]
        (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        return str(folder)

    def test_learning_of_runs(self):
        one, two = self.run_of("one", 0.02), self.run_of("two", 0.03)
        said = self.run_command("inspect", "run", one, two, "--learning", "--target", "3")
        self.assertEqual([row[-1] for row in self.rows(said, "  all")], ["0.04", "0.06"])  # learned a second
        self.assertIn("spread over 2 runs", said)
        self.assertRegex(said, r"learned/s +0.05 ± 0.014 \(0.04 to 0.06; 2 of 2 runs\)")
        self.assertRegex(said, r"loss 3 +after 2[0-9.]+ s")
        self.assertIn("not reached", self.run_command("inspect", "run", one, "--learning", "--target", "1"))
        self.assertIn("one expected", self.run_command("inspect", "run", one, two, code=1))

    def test_learning_on_held_out_data(self):
        """Validations after 20, 60 and 100 steps, in which the loss falls by 0.4 from the first to the last."""
        run = self.run_of("run", 0.02)
        self.assertIn("two at least", self.run_command("inspect", "run", run, "--learning", "--held-out", code=1))
        with open(f"{run}/metrics.jsonl", "a") as lines:
            for step, loss in [(20, 3.0), (60, 2.7), (100, 2.6)]:
                lines.write(json.dumps({"step": step, "validation_loss": loss}) + "\n")
        said = self.run_command("inspect", "run", run, "--learning", "--held-out", "--target", "2.65")
        # 0.4 over 80 steps of 100 tokens and half a second.
        self.assertEqual(self.rows(said, "  all")[0], ["all", "3.0000", "2.6000", "8000", "5e-05", "200", "0.01"])
        self.assertRegex(said, r"loss 2.65 +after 50.0 s, 1e\+04 tokens, at step 100")
        self.assertIn("--held-out", self.run_command("inspect", "run", run, "--held-out", code=2))

    def test_masked_models_write_no_text(self):
        text = self.folder / "text.txt"
        text.write_text("the quick brown fox jumps over the lazy dog\n" * 200)
        run = str(self.folder / "bert")
        self.run_command("train", "--model.family=bert", "--model.layers=1", "--model.heads=2", "--model.hidden=16",
                         "--model.seq=16", f"--data.path={text}", "--train.batch=4", "--train.steps=3",
                         "--train.eval_every=0", f"--run.dir={run}")
        self.assertIn("does not write text", self.run_command("sample", run, code=1))


if __name__ == "__main__":
    Reports.trireme = sys.argv.pop(1)
    unittest.main()

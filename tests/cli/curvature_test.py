"""How sharp the minima of runs are, and the line between two runs: `trireme inspect curvature`.

Run by ctest; alone: python3 tests/cli/curvature_test.py build/release/trireme/cli/trireme.
"""

import json
import subprocess
import sys
import unittest

from eval_test import write_images
from training import Training


class Inspected(Training):
    settings = ["--model.layers=1", "--model.heads=2", "--model.hidden=16", "--model.seq=8", "--train.batch=4",
                "--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0"]

    def call(self, *arguments, code=0):
        done = subprocess.run([self.trireme, *map(str, arguments)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def curvature(self, *runs, samples=32, rows=16, more=()):
        result = self.folder / "result.json"
        said = self.call("inspect", "curvature", *(self.folder / run for run in runs), "--samples", samples, "--rows", rows,
                         *more, "--json", result)
        return said, json.loads(result.read_text())

    def test_of_a_language_model(self):
        self.train("run", "--train.steps=20", "--model.dropout=0.1")
        said, report = self.curvature("run")
        self.assertEqual([report["samples"], report["rows"], report["line"]], [32, 16, []])
        [solution] = report["solutions"]
        self.assertTrue(solution["converged"])
        self.assertGreater(solution["largest_eigenvalue"], 0)
        self.assertEqual(solution["iterations"][-1], solution["largest_eigenvalue"])
        self.assertGreater(solution["step"], 0)
        self.assertIn(f"{len(solution['iterations'])} iterations", said)
        self.assertEqual(self.curvature("run")[1], report)  # the same bits
        other = self.curvature("run", samples=16, more=["--held-out"])[1]
        self.assertEqual([other["curvature_of"], other["samples"]], ["held_out", 16])
        self.assertNotEqual(other["solutions"][0]["loss"], solution["loss"])
        # A step near the one that was measured leads to the same eigenvalue.
        again = self.curvature("run", more=["--step", solution["step"] / 2])[1]["solutions"][0]["largest_eigenvalue"]
        self.assertAlmostEqual(again / solution["largest_eigenvalue"], 1, delta=0.05)

    def test_the_line_between_two_runs(self):
        self.train("one", "--train.steps=20")
        self.train("two", "--train.steps=20", "--train.seed=2")
        picture = self.folder / "line.svg"
        said, report = self.curvature("one", "two", more=["--points", "5", "--svg", picture, "--iterations", "5"])
        self.assertEqual([point["a"] for point in report["line"]], [-0.5, 0, 0.5, 1, 1.5])
        self.assertGreater(report["solutions"][1]["distance"], 0)
        losses = [point["training"]["loss"] for point in report["line"]]
        self.assertAlmostEqual(losses[1], report["solutions"][0]["loss"], delta=1e-5)
        self.assertAlmostEqual(losses[3], report["solutions"][1]["loss"], delta=1e-5)
        self.assertGreater(losses[2], max(losses[1], losses[3]))  # between two seeds
        self.assertIn("held_out", report["line"][0])
        self.assertTrue(picture.read_text().startswith("<svg"))
        self.assertIn("along the line", said)

    def test_a_run_with_itself_is_flat(self):
        self.text = self.folder / "images"
        write_images(self.text)
        self.train("run", "--model.family=resnet", "--model.layers=8", "--train.steps=8",
                   "--data.validation_fraction=0.3")
        _, report = self.curvature("run", "run", samples=12, rows=12, more=["--points", "3", "--iterations", "6"])
        self.assertEqual(report["solutions"][1]["distance"], 0)
        self.assertEqual(report["solutions"][0]["largest_eigenvalue"], report["solutions"][1]["largest_eigenvalue"])
        self.assertEqual(len({json.dumps([point["training"], point["held_out"]]) for point in report["line"]}), 1)
        self.assertIn("accuracy", report["line"][0]["training"])
        # Batch norms of evaluation have the statistics of these samples, so that it sees what training sees.
        self.assertAlmostEqual(report["line"][0]["training"]["loss"], report["solutions"][0]["loss"], delta=0.02)

    def test_what_is_refused(self):
        self.train("one", "--train.steps=1")
        self.train("wide", "--train.steps=1", "--model.hidden=32")
        self.train("other", "--train.steps=1", "--model.family=lstm")
        said = [self.call("inspect", "curvature", self.folder / "one", *more, code=code) for more, code in [
            ([self.folder / "wide"], 1), ([self.folder / "other"], 1), (["--svg", "x.svg"], 1), (["--points", "1"], 2),
            (["--data.validation_fraction=0", "--held-out"], 1)]]
        for words, text in zip(["model.hidden", "family", "two runs", "--points", "held out no data"], said):
            self.assertIn(words, text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Inspected.trireme = sys.argv.pop(1)
    unittest.main()

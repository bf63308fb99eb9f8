"""Families of models by their defaults alone, and on images that are not of their usual size.

Run by ctest; alone: python3 tests/cli/families_test.py build/release/trireme/cli/trireme.
"""

import json
import subprocess
import sys
import unittest

from training import Training, write_cifar

FAMILIES = ["alexnet", "bert", "gpt", "lenet", "llama", "lstm", "lstm_seq2seq", "mlp", "resnet", "seq2seq", "swin", "vgg",
            "wide_resnet"]
SMALL_SWIN = ["--model.family=swin", "--model.layers=8", "--model.heads=2", "--model.hidden=16"]
SHORT = ["--train.steps=2", "--train.batch=4", "--train.threads=1", "--train.eval_batches=1"]


class Families(Training):
    def setUp(self):
        super().setUp()
        self.text = self.folder / "cifar"
        write_cifar(self.text, rows=10)

    def test_each_is_accepted_by_its_name(self):
        for family in FAMILIES:
            done = subprocess.run([self.trireme, "inspect", "graph", "--cost", f"--model.family={family}"],
                                  capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, family + done.stderr)

    def test_origins_are_shown(self):
        text = self.train("run", "--model.family=vgg", "--print-config")
        self.assertRegex(text, r"model\.layers\s+16\s+default of vgg")
        self.assertRegex(text, r"model\.heads\s+4\s+default\n")

    def test_a_benchmark_of_a_family_is_not_of_the_small_gpt(self):
        report = self.folder / "report.json"
        subprocess.run([self.trireme, "bench", "train", "--model.family=resnet", "--image=3x16x16", "--train.batch=2",
                        "--train.threads=1", "--steps=2", "--warmup=0", "--peak=1e9", f"--json={report}"],
                       check=True, capture_output=True, timeout=300)
        result, = json.loads(report.read_text())
        self.assertEqual((result["config"], result["parameters"]), ("defaults", 269722))

    def test_ranks_train_on_images_of_another_size(self):
        settings = [*SMALL_SWIN, *SHORT, "--model.patch=2", "--model.window=4"]
        self.train("one", *settings)
        self.train("two", *settings, "-n", "2")
        one, two = self.losses("one"), self.losses("two")
        self.assertEqual(sorted(two), [1, 2])
        for step, loss in one.items():
            self.assertAlmostEqual(two[step], loss, delta=1e-4 * loss)

    def test_sizes_that_do_not_fit_are_told_of_the_images_there_are(self):
        text = self.train("run", *SMALL_SWIN, *SHORT, "-n", "2", code=1)
        self.assertIn("for images of 32x32", text)


if __name__ == "__main__":
    Families.trireme = sys.argv.pop(1)
    unittest.main()

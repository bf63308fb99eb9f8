"""An ONNX file from its weights to a trained file again: trained by one rank and by two, evaluated, exported, and read back.

Run by ctest; alone: python3 tests/cli/onnx_test.py build/release/trireme/cli/trireme.
"""

import json
import subprocess
import sys
import unittest
from pathlib import Path

from training import Training, write_cifar

MODEL = Path(__file__).parent.parent / "parity" / "onnx" / "resnet.onnx"
CHECK = "import onnx, sys; onnx.checker.check_model(onnx.load(sys.argv[1]), full_check=True)"


def has_onnx(python):
    return subprocess.run([python, "-c", "import onnx.checker"], capture_output=True).returncode == 0


class Onnx(Training):
    settings = ["--train.batch=8", "--train.threads=1", "--optim.lr=0.01", "--train.eval_batches=2"]

    def setUp(self):
        super().setUp()
        self.text = self.folder / "cifar"
        write_cifar(self.text, rows=20)

    def call(self, *arguments, code=0):
        done = subprocess.run([self.trireme, *map(str, arguments)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def evaluate(self, run):
        result = self.folder / "result.json"
        self.call("eval", self.folder / run, "--json", result)
        return json.loads(result.read_text())["loss"]

    def test_from_a_file_to_a_file(self):
        model = ["--model.family=onnx", f"--model.path={MODEL}", "--train.steps=4"]
        self.train("one", *model)
        self.train("two", *model, "-n", "2", "--plan", "zero1")
        one, two = self.losses("one"), self.losses("two")
        self.assertEqual(one.keys(), two.keys())
        for step, loss in one.items():
            self.assertAlmostEqual(loss, two[step], delta=1e-4 * loss)

        trained = self.folder / "trained.onnx"
        self.call("export", self.folder / "one", "--to", trained)
        self.assertIn("exists", self.call("export", self.folder / "one", "--to", trained, code=1))
        # With a rate of zero the weights stay, and running statistics too: the file is for inference.
        self.train("again", "--model.family=onnx", f"--model.path={trained}", "--train.steps=1", "--optim.lr=0",
                   "--optim.weight_decay=0")
        self.assertAlmostEqual(self.evaluate("one"), self.evaluate("again"), delta=1e-6)
        for python in ["python3", "/usr/bin/python3"]:
            if has_onnx(python):
                subprocess.run([python, "-c", CHECK, str(trained)], check=True)
                break

    def test_refusals(self):
        self.assertIn("needs model.path", self.train("none", "--model.family=onnx", code=1))
        self.assertIn("no ONNX file", self.train("other", "--model.family=onnx", f"--model.path={__file__}", code=1))
        self.train("mlp", "--model.family=mlp", "--train.steps=1")
        self.assertIn("can not be written as ONNX", self.call("export", self.folder / "mlp", "--to", self.folder / "a.onnx", code=1))

    def test_a_file_is_shown(self):
        text = self.call("inspect", "onnx", MODEL)
        self.assertIn("opset 17", text)
        self.assertRegex(text, r"input +images float32\[\?,3,32,32\]")
        self.assertRegex(text, r"BatchNormalization\n")


if __name__ == "__main__":
    Onnx.trireme = sys.argv.pop(1)
    unittest.main()

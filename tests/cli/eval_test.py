"""A trained model on held-out data: `trireme eval`, the best checkpoint, and runs that end early or in time.

Run by ctest; alone: python3 tests/cli/eval_test.py build/release/trireme/cli/trireme.
"""

import json
import math
import random
import shutil
import struct
import subprocess
import sys
import unittest
import zlib
from pathlib import Path

from checkpoint_files import read_checkpoint, read_safetensors
from training import Training

FOLDERS = Path(__file__).parent.parent / "parity" / "hugging_face"
TEXT = {"gpt": [], "llama": ["--model.family=llama"], "bert": ["--model.family=bert"], "lstm": ["--model.family=lstm"]}
IMAGES = {
    "mlp": ["--model.layers=2"],
    "lenet": [],
    "resnet": ["--model.layers=18", "--model.stem=3x3", "--model.channels=4"],
    "wide_resnet": ["--model.layers=10", "--model.channels=4"],
    "alexnet": ["--model.channels=8", "--model.feed_forward=16"],
    "vgg": ["--model.layers=11", "--model.channels=4", "--model.feed_forward=16"],
    "swin": ["--model.layers=8", "--model.patch=2", "--model.window=4"],
}


def write_png(path, pixels):
    """Of rows of (r, g, b)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in pixels)
    header = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) +
                     chunk(b"IEND", b""))


def write_images(folder, each=15, side=32):
    """Three classes, by the channel that is bright."""
    draw = random.Random(2)
    for label, name in enumerate(["azure", "brown", "coral"]):
        for number in range(each):
            write_png(folder / name / f"{number:02}.png",
                      [[tuple(draw.randrange(90, 255) if c == label else draw.randrange(180) for c in range(3))
                        for _ in range(side)] for _ in range(side)])


class Eval(Training):
    settings = ["--model.layers=1", "--model.heads=2", "--model.hidden=16", "--model.seq=8", "--train.batch=4",
                "--train.threads=1", "--run.sample_tokens=0", "--train.eval_batches=100000"]

    def call(self, *arguments, code=0):
        done = subprocess.run([self.trireme, *map(str, arguments)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def evaluate(self, path, *arguments):
        result = self.folder / "result.json"
        said = self.call("eval", path, "--json", result, *arguments)
        report = json.loads(result.read_text())
        self.assertIn(f"loss     {report['loss']:.4f}", said)
        return report

    def validations(self, run):
        lines = map(json.loads, (self.folder / run / "metrics.jsonl").read_text().splitlines())
        return [line for line in lines if "validation_loss" in line]

    def images(self):
        self.text = self.folder / "images"
        write_images(self.text)

    def expect_as_in_training(self, run, report):
        last = self.validations(run)[-1]
        self.assertEqual(report["loss"], last["validation_loss"])
        self.assertEqual(report["accuracy"], last["validation_accuracy"])
        self.assertEqual(report["targets"], last["validation_targets"])

    def test_text_of_every_family_as_the_run_itself_saw_it(self):
        for family, model in TEXT.items():
            with self.subTest(family):
                self.train(family, *model, "--train.steps=3")
                report = self.evaluate(self.folder / family)
                self.expect_as_in_training(family, report)
                self.assertEqual(report["family"], family)
                if family == "bert":
                    self.assertNotIn("perplexity", report)
                else:
                    self.assertAlmostEqual(report["perplexity"], math.exp(report["loss"]))

    def test_images_of_every_family_as_the_run_itself_saw_them(self):
        self.images()
        for family, model in IMAGES.items():
            with self.subTest(family):
                self.train(family, f"--model.family={family}", *model, "--train.steps=2",
                           "--data.validation_fraction=0.2")
                report = self.evaluate(self.folder / family)
                self.expect_as_in_training(family, report)
                self.assertEqual([report["samples"], report["targets"]], [9, 9])
                self.assertNotIn("perplexity", report)

    def test_every_family_is_here(self):
        said = self.call("train", "--help")
        known = said.split("--model.family=", 1)[1].split("one of ", 1)[1].split("\n", 1)[0]
        with_tests_of_their_own = {"onnx", "seq2seq", "lstm_seq2seq"}
        self.assertEqual(set(known.split(", ")), {*TEXT, *IMAGES} | with_tests_of_their_own)

    def predictions(self, *arguments):
        path = self.folder / "predictions.jsonl"
        report = self.evaluate(*arguments, "--predictions", path)
        return report, [json.loads(line) for line in path.read_text().splitlines()]

    def test_predictions_of_a_classifier(self):
        self.images()
        self.train("run", "--model.family=mlp", "--model.layers=2", "--train.steps=12", "--data.validation_fraction=0.4")
        report, lines = self.predictions(self.folder / "run")
        self.assertEqual(len(lines), 18)
        self.assertEqual([line["index"] for line in lines], sorted(line["index"] for line in lines))
        for line in lines:
            self.assertTrue((self.text / line["file"]).exists())
            self.assertEqual(line["label"], line["file"].split("/")[0])
            self.assertIn(line["predicted"], ["azure", "brown", "coral"])
            self.assertTrue(1 / 3 <= line["probability"] <= 1)
        right = sum(line["label"] == line["predicted"] for line in lines)
        self.assertEqual(report["accuracy"], right / len(lines))
        self.assertGreater(right, 9)

        # Some of them alone, in a folder without the first class: named and normalised as in the run.
        chosen = [line for line in lines if line["label"] != "azure"][:5]
        for line in chosen:
            (self.folder / "some" / line["file"]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.text / line["file"], self.folder / "some" / line["file"])
        report, again = self.predictions(self.folder / "run", f"--data.path={self.folder / 'some'}", "--data.kind=images")
        self.assertEqual([{**line, "index": 0} for line in again], [{**line, "index": 0} for line in chosen])
        self.assertEqual(report["targets"], 5)
        (self.folder / "some" / "brown").rename(self.folder / "some" / "green")
        self.assertIn("class folder 'green' is not among the 3 classes", self.call(
            "eval", self.folder / "run", f"--data.path={self.folder / 'some'}", "--data.kind=images", code=1))
        self.assertIn("leave out -n", self.call("eval", self.folder / "run", "--predictions", "x", "-n", 2, code=1))

    def test_other_text_counts_every_token(self):
        self.train("run", "--train.steps=3")
        other = self.folder / "other.txt"
        other.write_text("row " * 50)
        report = self.evaluate(self.folder / "run", f"--data.path={other}")
        self.assertEqual(report["targets"], 199)
        self.assertEqual(self.evaluate(self.folder / "run", f"--data.path={other}", "--train.batch=7")["targets"], 199)
        other.write_text("row")  # shorter than a window
        self.assertEqual(self.evaluate(self.folder / "run", f"--data.path={other}")["targets"], 2)
        # The text of the run, cut as it was then.
        again = self.evaluate(self.folder / "run", f"--data.path={self.text}", "--data.validation_fraction=0.1")
        self.expect_as_in_training("run", again)
        self.assertEqual(self.evaluate(self.folder / "run", "--batches", 2)["targets"], 2 * 4 * 8)
        self.assertIn("image classifiers", self.call("eval", self.folder / "run", "--predictions", "x", code=1))
        self.assertIn("model.layers", self.call("eval", self.folder / "run", "--model.layers=2", code=1))

    def test_averages_and_adapters(self):
        self.train("run", "--train.steps=4", "--train.ema=0.6")
        averages = self.evaluate(self.folder / "run", "--ema")
        self.expect_as_in_training("run", averages)  # which looks at the averages
        self.assertNotEqual(self.evaluate(self.folder / "run")["loss"], averages["loss"])
        adapted = ["--model.lora.rank=2", f"--train.init_from={self.folder / 'run'}", "--train.steps=3"]
        self.train("adapted", *adapted)
        self.expect_as_in_training("adapted", self.evaluate(self.folder / "adapted"))
        self.assertIn("train.ema", self.call("eval", self.folder / "adapted", "--ema", code=1))

    def test_on_several_ranks(self):
        self.train("run", "--train.steps=3")
        alone = self.evaluate(self.folder / "run")
        for arguments in [["--plan=data"], ["--plan=zero3"], ["--plan=megatron"],
                          ['--plan={"mesh": "pipe:2", "accumulate": 2, "schedule": "gpipe"}'],
                          ['--plan={"mesh": "data:2", "exchange": {"method": "async_server"}}']]:
            with self.subTest(arguments):
                report = self.evaluate(self.folder / "run", "-n", 2, *arguments)
                self.assertAlmostEqual(report["loss"], alone["loss"], delta=1e-5)
                self.assertEqual([report["accuracy"], report["targets"]], [alone["accuracy"], alone["targets"]])

    def test_a_hugging_face_folder(self):
        for name in ["gpt2", "llama"]:
            self.assertIn("give --data.path", self.call("eval", FOLDERS / name, code=1))
            config = json.loads((FOLDERS / name / "config.json").read_text())
            seq = config.get("n_positions", 12)
            said = self.call("train", f"--train.init_from={FOLDERS / name}", f"--data.path={self.text}", code=1)
            model = [word.replace('"', "") for word in said.split() if word.startswith("--model.")]
            self.train(name, *model, f"--model.seq={seq}", f"--train.init_from={FOLDERS / name}", "--train.steps=1",
                       "--optim.lr=0")
            report = self.evaluate(FOLDERS / name, f"--data.path={self.text}", "--data.validation_fraction=0.1",
                                   "--train.batch=4", *([f"--model.seq={seq}"] if name == "llama" else []))
            self.expect_as_in_training(name, report)

    def with_tokenizer(self):
        """A Hugging Face folder with a tokenizer.json in which bytes have other ids than their own."""
        folder = self.folder / "hub"
        shutil.copytree(FOLDERS / "gpt2", folder)
        shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
        letters = [chr(byte) for byte in shown] + [chr(256 + number) for number in range(256 - len(shown))]
        (folder / "tokenizer.json").write_text(json.dumps({
            "model": {"type": "BPE", "vocab": {letter: number for number, letter in enumerate(letters)}, "merges": []},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "decoder": {"type": "ByteLevel"}}))
        return folder

    def test_sample_of_a_hugging_face_folder(self):
        folder = self.with_tokenizer()
        sample = ["--prompt", "oar mast", "--tokens", 30, "--top-k", 40]
        self.train("run", "--model.layers=2", "--model.seq=12", f"--train.init_from={folder}", "--train.steps=1",
                   "--optim.lr=0", f"--data.tokenizer={folder}")
        said = self.call("sample", folder, *sample).rsplit("\n", 2)[0]
        self.assertEqual(said, self.call("sample", self.folder / "run", *sample).rsplit("\n", 2)[0])
        self.assertNotEqual(said, self.call("sample", folder, *sample, "--data.tokenizer=bytes").rsplit("\n", 2)[0])
        self.assertEqual(len(self.call("sample", FOLDERS / "llama", *sample, "--model.seq=9").encode()) > 38, True)
        self.assertIn("no checkpoints or averages to choose from", self.call("sample", folder, "--checkpoint", 4, code=1))
        self.assertIn("neither a run's folder", self.call("sample", self.folder, code=1))

    def test_a_folder_without_its_tokenizer_is_refused(self):
        folder = self.folder / "hub"
        self.train("run", "--model.vocab=300", "--train.steps=1")
        self.call("export", self.folder / "run", "--to", folder)
        self.assertIn("has no tokenizer.json, and its model has a vocabulary of 300",
                      self.call("sample", folder, code=1))
        self.call("sample", folder, "--data.tokenizer=bytes", "--tokens", 3)

    def test_the_best_checkpoint(self):
        # A rate that is too high at the end: the best is on the way.
        self.train("run", "--train.steps=30", "--train.eval_every=3", "--run.checkpoint_every=7", "--run.keep_best=true",
                   "--optim.lr=2", "--lr_schedule.kind=constant", "--lr_schedule.warmup_steps=60")
        best = min(self.validations("run"), key=lambda line: line["validation_loss"])
        self.assertLess(best["step"], 30)
        saved = sorted(path.name for path in (self.folder / "run/checkpoints").iterdir())
        self.assertEqual(len(saved), 3)
        self.assertIn(f"step-{best['step']:08}", saved)
        report = self.evaluate(self.folder / "run", "--checkpoint", "best")
        self.assertEqual(report["loss"], best["validation_loss"])
        self.assertGreater(self.evaluate(self.folder / "run")["loss"], report["loss"])
        self.call("export", self.folder / "run", "--checkpoint", "best", "--to", self.folder / "out")
        weights = read_checkpoint(self.folder / "run/checkpoints" / f"step-{best['step']:08}")["model"]
        self.assertEqual(read_safetensors(self.folder / "out/model.safetensors"),
                         {"transformer." + name: content for name, content in weights.items()})
        sample = ["sample", self.folder / "run", "--tokens", 20]
        said = [self.call(*sample, "--checkpoint", which).rsplit("\n", 2)[0] for which in ["best", best["step"], 30]]
        self.assertEqual(said[0], said[1])
        self.assertNotEqual(said[0], said[2])
        self.assertIn("expected the number of a step, or best", self.call(*sample, "--checkpoint", "worst", code=2))

    def test_patience_on_several_ranks(self):
        rising = ["--train.eval_every=2", "--train.patience=2", "--optim.lr=0", "--train.steps=50"]
        plans = [[], ["-n", "2"], ["-n", "2", "--plan=megatron"],
                 ["-n", "2", '--plan={"mesh": "data:2", "exchange": {"method": "local", "steps": 2}}'],
                 ["-n", "2", '--plan={"mesh": "data:2", "exchange": {"method": "ad_psgd"}}'],
                 ["-n", "3", '--plan={"mesh": "data:3", "exchange": {"method": "server"}}']]
        for number, plan in enumerate(plans):
            with self.subTest(plan):
                said = self.train(f"run{number}", *rising, *plan)
                # The loss never changes, so that the first is the lowest.
                self.assertIn("ended early after step 6: train.patience = 2 evaluations", said)
                self.assertEqual([line["step"] for line in self.validations(f"run{number}")], [2, 4, 6])
                said = self.train(f"run{number}", *rising, *plan)  # and stays so
                self.assertIn("ended early after step 6", said)
                self.assertEqual(len(self.validations(f"run{number}")), 3)
        self.assertIn("train.eval_every = 0", self.train("no", "--train.patience=2", "--train.eval_every=0", code=1))

    def test_the_time_limit(self):
        self.train("whole", "--train.steps=9")
        plans = [[], ["-n", "2"], ["-n", "2", '--plan={"mesh": "data:2", "exchange": {"method": "ad_psgd"}}']]
        for number, plan in enumerate(plans):
            with self.subTest(plan):
                run = f"run{number}"
                said = self.train(run, "--train.steps=9", "--train.max_minutes=0.000001", *plan, code=5)
                self.assertIn("the time is up (train.max_minutes) after step 1;", said)
                self.assertNotIn("exit code", said)
                self.assertTrue((self.folder / run / "checkpoints/step-00000001").exists())
                self.train(run, "--train.steps=9", *plan)
                self.assertTrue((self.folder / run / "checkpoints/step-00000009").exists())
        newest = "checkpoints/step-00000009"
        self.assertEqual(read_checkpoint(self.folder / "whole" / newest), read_checkpoint(self.folder / "run0" / newest))


if __name__ == "__main__":
    Eval.trireme = sys.argv.pop(1)
    unittest.main(verbosity=2)

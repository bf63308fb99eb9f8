"""Sequence to sequence: pairs from the script in examples/ are learned, evaluated and translated; runs resume and are
spread over ranks.

Run by ctest; alone: python3 tests/cli/seq2seq_test.py build/release/trireme/cli/trireme.
"""

import json
import subprocess
import sys
import unittest
from pathlib import Path

from training import Training

MAKE_PAIRS = Path(__file__).parents[2] / "examples/python/make_pairs.py"
SMALL = ["--model.family=seq2seq", "--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=14",
         "--train.batch=16", "--train.threads=1", "--train.eval_batches=1"]


def pairs(kind, lines):
    return subprocess.run([sys.executable, MAKE_PAIRS, kind, str(lines)], check=True, capture_output=True,
                          text=True).stdout


class Pairs(Training):
    settings = SMALL

    def setUp(self):
        super().setUp()
        self.text = self.folder / "pairs.tsv"
        self.text.write_text(pairs("reverse", 400))

    def run_command(self, *arguments, code=0):
        done = subprocess.run([self.trireme, *map(str, arguments)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stdout + done.stderr

    def test_a_few_pairs_are_learned_by_heart(self):
        self.text.write_text("".join(f"{source}\t{source[::-1]}\n" for source in ("abc", "de", "fghi", "j") * 8))
        said = self.train("run", "--train.steps=150", "--optim.lr=5e-3")
        self.assertIn("29 pairs for training, 3 held out, 256 ids (bytes)", said)
        losses = self.losses("run")
        self.assertLess(losses[150], 0.1 * losses[1])
        predictions, report = self.folder / "predictions.jsonl", self.folder / "report.json"
        said = self.run_command("eval", self.folder / "run", f"--predictions={predictions}", f"--json={report}")
        self.assertIn("exact 100.00%", said)
        result = json.loads(report.read_text())
        self.assertEqual((result["exact"], result["accuracy"], result["samples"]), (1, 1, 3))
        validations = [line for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()
                       if "validation_loss" in line]
        self.assertEqual(json.loads(validations[-1])["validation_loss"], result["loss"])
        lines = [json.loads(line) for line in predictions.read_text().splitlines()]
        self.assertEqual(lines[0], {"line": 30, "source": "de", "target": "ed", "predicted": "ed", "exact": True})
        self.assertEqual(self.run_command("sample", self.folder / "run", "--prompt", "fghi", "--temperature", "0"),
                         "ihgf\n")
        self.assertIn("15 tokens with its end", self.run_command("sample", self.folder / "run", "--prompt", "a" * 14,
                                                                 code=1))
        curvature = self.folder / "curvature.json"
        self.run_command("inspect", "curvature", self.folder / "run", "--samples=3", "--iterations=1", "--json", curvature)
        self.assertEqual(json.loads(curvature.read_text())["solutions"][0]["held_out"]["accuracy"], 1)
        other = self.folder / "other.tsv"
        other.write_text("abc\tcba\nde\twrong\n")
        said = self.run_command("eval", self.folder / "run", f"--data.path={other}", f"--predictions={predictions}")
        self.assertIn("exact 50.00%", said)

    def test_an_lstm_learns_them_too(self):
        self.text.write_text("".join(f"{source}\t{source[::-1]}\n" for source in ("abc", "de", "fghi", "j") * 8))
        self.train("run", "--model.family=lstm_seq2seq", "--train.steps=600", "--optim.lr=1e-2")
        self.assertIn("exact 100.00%", self.run_command("eval", self.folder / "run",
                                                        f"--predictions={self.folder / 'predictions.jsonl'}"))
        self.assertEqual(self.run_command("sample", self.folder / "run", "--prompt", "fghi", "--temperature", "0"),
                         "ihgf\n")

    def test_a_resumed_run_and_ranks_have_the_same_losses(self):
        self.train("whole", "--train.steps=6", "--model.dropout=0.1", "--train.shards=2", "--train.label_smoothing=0.1")
        more = ["--model.dropout=0.1", "--train.shards=2", "--train.label_smoothing=0.1"]
        self.train("parts", "--train.steps=3", "--run.checkpoint_every=3", *more)
        self.train("parts", "--train.steps=6", *more)
        self.assertEqual(self.losses("parts"), self.losses("whole"))
        self.train("ranks", "--train.steps=6", "-n", "2", *more)
        self.assertEqual(self.losses("ranks"), self.losses("whole"))

    def test_what_does_not_fit_is_refused(self):
        self.assertIn("learns from pairs", self.train("a", "--data.kind=text", code=1))
        said = self.train("b", "--model.family=gpt", "--data.kind=pairs", code=1)
        self.assertIn("try data.kind text or tokens", said)
        self.assertIn("the data is pairs", self.train("c", "--model.family=gpt", code=1))
        self.assertIn("model.source_seq is 8; set it to 13", self.train("d", "--model.seq=8", code=1))
        self.assertIn("model.seq is 8; set it to 13", self.train("d", "--model.seq=8", "--model.source_seq=14", code=1))
        self.assertIn("is odd", self.train("e", "--model.hidden=33", "--model.heads=3", code=1))


class Dates(unittest.TestCase):
    def test_are_written_as_people_say_them(self):
        lines = [line.split("\t") for line in pairs("dates", 2000).splitlines()]
        self.assertEqual(len({source for source, _ in lines}), 2000)
        self.assertEqual(pairs("dates", 2000), pairs("dates", 2000))
        said = dict(lines)
        firsts = [target for source, target in lines if source.startswith("the twenty first of ")]
        self.assertTrue(firsts and all(target.endswith("-21") for target in firsts))
        self.assertTrue(any(" oh " in source for source in said))
        for source, target in lines:
            self.assertRegex(target, r"^(18|19|20)\d\d-[01]\d-[0-3]\d$", source)


if __name__ == "__main__":
    Pairs.trireme = sys.argv.pop(1)
    unittest.main()

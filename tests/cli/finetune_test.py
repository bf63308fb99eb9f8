"""Fine-tuning: weights with another head, frozen parameters, parameter groups.

Run by ctest; alone: python3 tests/cli/finetune_test.py build/release/trireme/cli/trireme.
"""

import struct
import sys
import unittest
from pathlib import Path

from checkpoint_files import read_checkpoint
from training import Training

FOLDERS = Path(__file__).parent.parent / "parity" / "hugging_face"
GPT = ["--model.layers=2", "--model.heads=2", "--model.hidden=16", "--model.seq=12"]
STILL = ["--optim.lr=0", "--lr_schedule.kind=constant", "--lr_schedule.warmup_steps=0", "--train.steps=1"]
ZERO3 = '{"mesh": "data:2", "preset": "zero3"}'


def write_digits(folder, classes):
    """A data set as MNIST's: images of 28 x 28 with a bright row, whose number is the class."""
    folder.mkdir()
    for part, count in [("train", 64), ("t10k", 16)]:
        labels = [i % classes for i in range(count)]
        pixels = b"".join(bytes(255 if y == 2 * label else (x * y + i) % 7 for y in range(28) for x in range(28))
                          for i, label in enumerate(labels))
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + pixels)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + bytes(labels))


class FineTuning(Training):
    settings = ["--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0", "--train.batch=4",
                "--run.checkpoint_every=2"]

    def saved(self, run, step, part="model"):
        return read_checkpoint(self.folder / run / "checkpoints" / f"step-{step:08}")[part]

    def plan(self, text):
        (self.folder / "plan.json").write_text(text)
        return ["-n", "2", f"--plan={self.folder / 'plan.json'}"]

    def test_a_classifier_gets_another_head(self):
        write_digits(self.folder / "ten", 10)
        lenet = ["--model.family=lenet", f"--data.path={self.folder / 'ten'}"]
        self.train("ten_classes", *lenet, "--train.steps=3")
        twelve = [*lenet, "--model.classes=12", *STILL, f"--train.init_from={self.folder / 'ten_classes'}"]
        said = self.train("refused", *twelve, code=1)
        self.assertIn("'fc3.weight' is [10, 84], expected [12, 84]", said)
        self.assertIn("--train.init_fresh=fc3.bias,fc3.weight", said)
        before = self.saved("ten_classes", 3)
        for number, plan in enumerate([[], self.plan(ZERO3)]):
            run = f"tuned{number}"
            said = self.train(run, *twelve, "--train.init_fresh=fc3.*", *plan)
            self.assertIn("initialised anew: fc3.bias, fc3.weight", said)
            after = self.saved(run, 1)
            self.assertEqual(after.keys(), before.keys())
            for name, content in before.items():
                self.assertEqual(after[name] == content, not name.startswith("fc3."), name)
        # The head starts as it does without weights to start from.
        self.train("anew", *lenet, "--model.classes=12", *STILL)
        for name in ["fc3.weight", "fc3.bias"]:
            self.assertEqual(self.saved("anew", 1)[name], self.saved("tuned0", 1)[name])
        said = self.train("wrong", *twelve, "--train.init_fresh=fc4.*", code=1)
        self.assertIn("train.init_fresh has 'fc4.*', which fits no parameter", said)

    def test_a_language_model_gets_another_vocabulary(self):
        other = [*GPT, "--model.vocab=300", *STILL, f"--train.init_from={FOLDERS / 'gpt2'}"]
        said = self.train("refused", *other, code=1)
        self.assertIn("vocab_size = 256, but model.vocab = 300", said)
        self.assertIn("--train.init_fresh=wte.weight", said)
        said = self.train("tuned", *other, "--train.init_fresh=wte.weight")
        self.assertIn("initialised anew: wte.weight", said)
        self.train("same", *GPT, *STILL, f"--train.init_from={FOLDERS / 'gpt2'}")
        tuned, same = self.saved("tuned", 1), self.saved("same", 1)
        for name in same:
            self.assertEqual(tuned[name] == same[name], name != "wte.weight", name)

    def test_frozen_weights_stay_and_resuming_changes_no_bit(self):
        frozen = [*GPT, "--train.freeze=wte*,wpe*,h.0.*", "--optim.lr=0.01", "--lr_schedule.warmup_steps=0",
                  '--optim.groups=[{match = "*.bias", lr_scale = 0.1, weight_decay = 0.0}]']
        said = self.train("whole", *frozen, "--train.steps=4")
        self.assertIn("of them trained", said)
        self.train("halves", *frozen, "--train.steps=2", "--lr_schedule.decay_steps=4")
        self.train("halves", *frozen, "--train.steps=4", "--lr_schedule.decay_steps=4")
        self.assertEqual(self.saved("whole", 4), self.saved("halves", 4))
        self.assertEqual(self.saved("whole", 4, "optimizer"), self.saved("halves", 4, "optimizer"))
        for run, plan in [("whole", None), ("spread", ZERO3)]:
            if plan:
                self.train(run, *frozen, "--train.steps=4", *self.plan(plan))
            first, last = self.saved(run, 2), self.saved(run, 4)
            for name, content in first.items():
                stays = name.startswith(("wte", "wpe", "h.0."))
                self.assertEqual(last[name] == content, stays, name)
            for name in self.saved(run, 4, "optimizer"):
                self.assertFalse(any(part in name for part in ["wte", "wpe", "h.0."]), name)
        self.assertIn("which fits no parameter", self.train("wrong", *GPT, "--train.freeze=h.7.*", code=1))


if __name__ == "__main__":
    FineTuning.trireme = sys.argv.pop(1)
    unittest.main(verbosity=2)

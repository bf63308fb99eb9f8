"""Fine-tuning: weights with another head, frozen parameters, parameter groups, adapters, averages.

Run by ctest; alone: python3 tests/cli/finetune_test.py build/release/trireme/cli/trireme.
"""

import shutil
import struct
import subprocess
import sys
import unittest
from pathlib import Path

from checkpoint_files import read_checkpoint, read_safetensors
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

    def call(self, *arguments, code=0):
        done = subprocess.run([self.trireme, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def plan(self, text):
        (self.folder / "plan.json").write_text(text)
        return ["-n", "2", f"--plan={self.folder / 'plan.json'}"]

    def test_a_classifier_gets_another_head(self):
        write_digits(self.folder / "ten", 10)
        lenet = ["--model.family=lenet", f"--data.path={self.folder / 'ten'}"]
        self.train("ten_classes", *lenet, "--train.steps=3")
        twelve = [*lenet, "--model.classes=12", *STILL, f"--train.init_from={self.folder / 'ten_classes'}"]
        said = self.train("refused", *twelve, code=1)
        self.assertIn("'fc3.weight' is [10,84], expected [12,84]", said)
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

    def test_adapters_are_trained_alone_saved_alone_and_merged(self):
        rate = ["--optim.lr=0.05", "--lr_schedule.kind=constant", "--lr_schedule.warmup_steps=0"]
        self.train("base", *GPT, *rate, "--train.steps=4")
        base, kept = self.saved("base", 4), self.folder / "base" / "checkpoints" / "step-00000004"
        lora = [*GPT, *rate, "--model.lora.rank=2", "--model.lora.alpha=4", "--model.lora.targets=*.c_attn,*.c_fc",
                f"--train.init_from={self.folder / 'base'}"]
        said = self.train("whole", *lora, "--train.steps=4")
        self.assertIn("8 tensors of adapters", said)
        adapters = self.saved("whole", 4)
        self.assertEqual(len(adapters), 8)
        self.assertTrue(all(".lora_" in name for name in adapters), adapters.keys())
        self.assertTrue(all(".lora_" in name for name in self.saved("whole", 4, "optimizer")))
        # The base is named as the checkpoint that it is, whatever becomes of its run; and resuming finds it there.
        self.assertIn(f'init_from = "{kept}"', (self.folder / "whole" / "config.toml").read_text())
        self.train("halves", *lora, "--train.steps=2")
        said = self.train("halves", *lora, "--train.steps=4")
        self.assertIn("resumes from", said)
        self.assertEqual(self.saved("halves", 4), adapters)
        # Under a plan that splits both, and from a checkpoint that another plan wrote.
        self.train("spread", *lora, "--train.steps=2")
        for plan in [ZERO3, '{"mesh": "tensor:2", "preset": "megatron"}', '{"mesh": "pipe:2", "accumulate": 2}']:
            run = f"spread{len(plan)}"
            shutil.copytree(self.folder / "spread", self.folder / run)
            self.train(run, *lora, "--train.steps=4", *self.plan(plan))
            self.assertAlmostEqual(self.losses(run)[4], self.losses("whole")[4], delta=1e-4)
            self.assertEqual(self.saved(run, 4).keys(), adapters.keys())
        # Merged at export: as large as the base, other in the adapted weights alone; the folder gives the same loss.
        said = self.call("export", self.folder / "whole", "--to", self.folder / "merged")
        self.assertIn("merged", said)
        merged = read_safetensors(self.folder / "merged" / "model.safetensors")
        self.assertEqual(merged.keys(), {"transformer." + name for name in base})
        for name, content in base.items():
            self.assertEqual(merged["transformer." + name] != content, name.endswith(("c_attn.weight", "c_fc.weight")))
        sample = ["sample", self.folder / "whole", "--checkpoint", 4, "--prompt", "oar mast", "--tokens", 20,
                  "--temperature", 0]
        one = self.call(*sample).splitlines()[0]
        self.train("merged_run", *GPT, *STILL, f"--train.init_from={self.folder / 'merged'}")
        sample[1], sample[3] = self.folder / "merged_run", 1
        self.assertEqual(self.call(*sample).splitlines()[0], one)
        # Weights with adapters into a model without: by export.
        said = self.train("plain", *GPT, *STILL, f"--train.init_from={self.folder / 'whole'}", code=1)
        self.assertIn("`trireme export` merges them", said)
        # Another base than the one it began with is refused.
        self.train("base", *GPT, *rate, "--train.steps=6")
        said = self.train("halves", *lora, "--train.steps=5", code=1)
        self.assertIn('step-00000004" and is', said)
        self.train("halves", *lora, "--train.steps=5", f"--train.init_from={kept}")

    def test_averages_are_saved_evaluated_and_exported(self):
        ema = [*GPT, "--train.ema=0.5", "--optim.lr=0.01", "--lr_schedule.kind=constant", "--lr_schedule.warmup_steps=0"]
        self.train("whole", *ema, "--train.steps=4")
        self.train("halves", *ema, "--train.steps=2")
        self.train("halves", *ema, "--train.steps=4")
        self.assertEqual(self.saved("whole", 4, "optimizer"), self.saved("halves", 4, "optimizer"))
        weights, others = self.saved("whole", 4), self.saved("whole", 4, "optimizer")
        averages = {name[4:]: content for name, content in others.items() if name.startswith("ema.")}
        self.assertEqual(averages.keys(), weights.keys())
        run = self.folder / "whole"
        self.call("export", run, "--to", self.folder / "weights")
        self.call("export", run, "--ema", "--to", self.folder / "averages")
        for out, expected in [("weights", weights), ("averages", averages)]:
            exported = read_safetensors(self.folder / out / "model.safetensors")
            self.assertEqual(exported, {"transformer." + name: content for name, content in expected.items()})
        sample = ["sample", run, "--prompt", "oar", "--tokens", 30]
        self.assertNotEqual(self.call(*sample).splitlines()[0], self.call(*sample, "--ema").splitlines()[0])
        # Averages start as the weights that a run starts from.
        self.train("next", *GPT, "--train.ema=0.5", *STILL, f"--train.init_from={run}")
        after = {name[4:]: content for name, content in self.saved("next", 1, "optimizer").items()
                 if name.startswith("ema.")}
        self.assertEqual(after, weights)
        self.train("none", *GPT, "--train.steps=1")
        self.assertIn("no averages of weights", self.call("export", self.folder / "none", "--ema", "--to",
                                                          self.folder / "no", code=1))
        said = self.train("whole", *GPT, "--train.steps=5", code=1)
        self.assertIn("train.ema was 0.5 and is 0.0", said)


if __name__ == "__main__":
    FineTuning.trireme = sys.argv.pop(1)
    unittest.main(verbosity=2)

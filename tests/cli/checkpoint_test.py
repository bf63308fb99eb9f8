"""Checkpoints that cross plans: saved by some ranks, gone on from by others; and what is in them.

Run by ctest; alone: python3 tests/cli/checkpoint_test.py build/release/trireme/cli/trireme.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from checkpoint_files import read_checkpoint
from training import read_metrics, write_words

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=24", "--model.seq=12", "--train.batch=4",
         "--model.dropout=0.1", "--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0",
         "--lr_schedule.warmup_steps=2", "--lr_schedule.decay_steps=9"]
PLANS = {"one": (1, None), "data4": (4, '{"mesh": "data:4", "preset": "data"}'),
         "tensor2_data2": (4, '{"mesh": "data:2 tensor:2", "preset": "megatron"}'),
         "zero3_3": (3, '{"mesh": "data:3", "preset": "zero3"}')}


class CrossPlans(unittest.TestCase):
    trireme = "trireme"

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        write_words(cls.folder / "text.txt")
        for name, (ranks, plan) in PLANS.items():
            cls.train(f"{name}.whole", name, 9, "--run.checkpoint_every=5")
            # What a run leaves that ends after step 5, without its later checkpoint.
            shutil.copytree(cls.folder / f"{name}.whole", cls.folder / name)
            shutil.rmtree(cls.folder / name / "checkpoints" / "step-00000009")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def train(cls, run, plan, steps, *arguments):
        ranks, content = PLANS[plan]
        command = [cls.trireme, "train", *SMALL, f"--data.path={cls.folder / 'text.txt'}",
                   f"--run.dir={cls.folder / run}", f"--train.steps={steps}", *arguments]
        if content:
            (cls.folder / "plan.json").write_text(content)
            command += ["-n", str(ranks), f"--plan={cls.folder / 'plan.json'}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout + done.stderr

    def losses(self, run):
        return {line["step"]: line["loss"] for line in read_metrics(self.folder / run)}

    def checkpoint(self, run, step):
        return self.folder / run / "checkpoints" / f"step-{step:08}"

    def test_each_goes_on_under_each(self):
        expected = self.losses("one.whole")
        for saver in PLANS:
            for reader in PLANS:
                with self.subTest(saved=saver, read=reader):
                    run = f"{saver}.{reader}"
                    shutil.copytree(self.folder / saver, self.folder / run)
                    self.assertIn("resumes from", self.train(run, reader, 9))
                    found = self.losses(run)
                    self.assertEqual(sorted(found), sorted(expected))
                    for step, loss in expected.items():
                        self.assertLess(abs(found[step] - loss), 2e-4 * loss, f"step {step}")
                    if saver == reader:
                        self.assertEqual(found, self.losses(f"{saver}.whole"))
                        self.assertEqual(read_checkpoint(self.checkpoint(run, 9)),
                                         read_checkpoint(self.checkpoint(f"{saver}.whole", 9)))

    def test_each_rank_writes_its_share_of_the_same_tensors(self):
        expected = read_checkpoint(self.checkpoint("one", 5))
        for name, (ranks, content) in PLANS.items():
            folder = self.checkpoint(name, 5)
            found = read_checkpoint(folder)
            for kind in expected:
                self.assertEqual({n: t[:2] for n, t in found[kind].items()}, {n: t[:2] for n, t in expected[kind].items()})
                sizes = [path.stat().st_size for path in folder.glob(f"{kind}*.safetensors")]
                self.assertEqual(len(sizes), ranks)
                whole = sum(len(t[2]) for t in expected[kind].values())
                self.assertLess(sum(sizes), 1.3 * whole, name)  # each element once, and headers
                self.assertLess(max(sizes), 2.5 * whole / ranks, name)

    def test_a_file_is_damaged_and_the_one_before_is_used(self):
        shutil.copytree(self.folder / "zero3_3.whole", self.folder / "damaged")
        path = self.checkpoint("damaged", 9) / "optimizer-00003-of-00003.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        text = self.train("damaged", "data4", 9)
        self.assertIn("step-00000009 is damaged", text)
        self.assertIn("optimizer-00003-of-00003.safetensors: its checksum is", text)
        self.assertIn("continuing from step-00000005", text)

    def test_other_commands_understand_it(self):
        text = subprocess.run([self.trireme, "inspect", "checkpoint", self.folder / "tensor2_data2"],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertIn("in 4 files", text)
        self.assertIn("in 2 parts", text)
        self.assertNotIn("DAMAGED", text)
        subprocess.run([self.trireme, "sample", self.folder / "zero3_3", "--tokens", "5"], timeout=60, check=True,
                       capture_output=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        CrossPlans.trireme = sys.argv.pop(1)
    unittest.main()

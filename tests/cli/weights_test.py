"""Weights that come from elsewhere and go elsewhere: train.init_from, `trireme export`, `trireme sample`.

Run by ctest; alone: python3 tests/cli/weights_test.py build/release/trireme/cli/trireme.
"""

import json
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from checkpoint_files import read_checkpoint, read_safetensors
from training import Training

FOLDERS = Path(__file__).parent.parent / "parity" / "hugging_face"
# Steps that change nothing: what is saved after them is what was read.
STILL = ["--optim.lr=0", "--lr_schedule.kind=constant", "--lr_schedule.warmup_steps=0", "--train.steps=1"]
GPT = ["--model.layers=2", "--model.heads=2", "--model.hidden=16", "--model.seq=12"]
LLAMA = ["--model.family=llama", "--model.layers=2", "--model.heads=4", "--model.kv_heads=2", "--model.hidden=16",
         "--model.feed_forward=40", "--model.seq=12", "--model.rope_base=500", "--model.norm_eps=0.001"]
PLANS = [(1, None), (2, '{"mesh": "data:2", "preset": "zero3"}'), (2, '{"mesh": "tensor:2", "preset": "megatron"}')]


class Weights(Training):
    settings = ["--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0", "--train.batch=4",
                "--run.checkpoint_every=2"]

    def under(self, plan):
        ranks, content = plan
        if not content:
            return []
        (self.folder / "plan.json").write_text(content)
        return ["-n", str(ranks), f"--plan={self.folder / 'plan.json'}"]

    def call(self, *arguments, code=0):
        done = subprocess.run([self.trireme, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_a_hugging_face_folder_goes_in_and_out_under_any_plan(self):
        for name, model in [("gpt2", GPT), ("llama", LLAMA)]:
            source = read_safetensors(FOLDERS / name / "model.safetensors")
            losses = []
            for number, plan in enumerate(PLANS):
                run, out = f"{name}{number}", self.folder / f"{name}{number}.exported"
                said = self.train(run, *model, *STILL, f"--train.init_from={FOLDERS / name}", *self.under(plan))
                self.assertIn(f"weights  from {FOLDERS / name}", said)
                losses.append(self.losses(run)[1])
                self.call("export", self.folder / run, "--to", out)
                exported = read_safetensors(out / "model.safetensors")
                self.assertGreater(len(exported), 10)
                for tensor, content in exported.items():
                    self.assertEqual(content, source[tensor], f"{tensor} under {plan}")
                left = {tensor for tensor in source if tensor not in exported}
                self.assertTrue(all(re.search(r"lm_head|attn\.(masked_)?bias|inv_freq", one) for one in left), left)
            for loss in losses:  # weights differ from rank to rank if parts were mixed up, and so would this
                self.assertAlmostEqual(loss, losses[0], delta=1e-5 * losses[0])
            # What was exported goes in again, and gives the same first loss bit for bit.
            self.train("again", *model, *STILL, "--run.resume=never", f"--train.init_from={out}")
            self.assertEqual(self.losses("again")[1], losses[0])

    def test_our_own_checkpoints(self):
        self.train("first", *GPT, "--train.steps=5", *self.under(PLANS[1]))
        saved = {step: read_checkpoint(self.folder / "first" / "checkpoints" / f"step-{step:08}")["model"]
                 for step in [4, 5]}
        self.assertNotEqual(saved[4], saved[5])
        for source, step in [("first", 5), ("first/", 5), ("first/checkpoints/step-00000004", 4)]:
            said = self.train("second", *GPT, *STILL, "--run.resume=never", f"--train.init_from={self.folder}/{source}")
            self.assertIn(f"step-{step:08}", said)
            found = read_checkpoint(self.folder / "second" / "checkpoints" / "step-00000001")["model"]
            self.assertEqual(found, saved[step])
        # The same shapes, but another meaning.
        said = self.train("third", *GPT, "--model.heads=4", *STILL, f"--train.init_from={self.folder / 'first'}", code=1)
        self.assertIn("model.heads = 2, but model.heads = 4", said)
        # A checkpoint without its run is compared by names and shapes.
        shutil.copytree(self.folder / "first" / "checkpoints" / "step-00000004", self.folder / "alone")
        said = self.train("fourth", *GPT, *STILL, f"--train.init_from={self.folder / 'alone'}")
        self.assertIn("only names and shapes were compared", said)
        said = self.train("fifth", *GPT, "--model.layers=3", *STILL, f"--train.init_from={self.folder / 'alone'}", code=1)
        self.assertIn("missing: 'h.2.ln_1.weight' [16]", said)
        # A run that goes on does so from its own checkpoint.
        said = self.train("second", *GPT, *STILL, "--train.steps=2", f"--train.init_from={self.folder / 'alone'}")
        self.assertIn("resumes from", said)
        self.assertNotIn("weights  from", said)

    def test_what_contradicts_is_refused_before_training(self):
        said = self.train("run", *GPT, "--model.layers=3", *STILL, f"--train.init_from={FOLDERS / 'gpt2'}", code=1)
        self.assertIn("n_layer = 2, but model.layers = 3", said)
        said = self.train("two", *GPT, "--model.layers=3", *STILL, f"--train.init_from={FOLDERS / 'gpt2'}", "-n", "2",
                          code=1)
        self.assertIn("n_layer = 2, but model.layers = 3", said)

    def test_tied_embeddings_are_right_under_a_plan(self):
        self.call("verify", *LLAMA, "--model.tie_embeddings=true", "--train.batch=4", f"--data.path={self.text}",
                  "--plan=megatron", "-n", "2", "--steps=2")

    def test_export_and_sample_take_a_step(self):
        self.train("run", *GPT, "--train.steps=5", "--optim.lr=0.05", "--lr_schedule.warmup_steps=0")
        run = self.folder / "run"
        for step, options in [(4, ["--checkpoint", 4]), (5, [])]:
            out = self.folder / f"out{step}"
            self.call("export", run, *options, "--to", out)
            exported = read_safetensors(out / "model.safetensors")
            saved = read_checkpoint(run / "checkpoints" / f"step-{step:08}")["model"]
            self.assertEqual(exported, {"transformer." + name: content for name, content in saved.items()})
            config = json.loads((out / "config.json").read_text())
            self.assertEqual(config["architectures"], ["GPT2LMHeadModel"])
            self.assertEqual([config[key] for key in ["n_layer", "n_head", "n_embd", "n_positions", "n_inner",
                                                      "vocab_size"]], [2, 2, 16, 12, 64, 256])
        self.assertIn("not an empty folder", self.call("export", run, "--to", out, code=1).stderr)
        self.assertIn("no checkpoint of step 3; there are those of 4, 5",
                      self.call("export", run, "--checkpoint", 3, "--to", self.folder / "no", code=1).stderr)
        self.assertFalse((self.folder / "no").exists())

        sample = ["sample", run, "--prompt", "oar mast", "--tokens", 40]
        newest, older = self.call(*sample), self.call(*sample, "--checkpoint", 4)
        self.assertNotEqual(newest.stdout, older.stdout)
        self.assertRegex(newest.stderr, r"40 tokens in \d+\.\d\d s: \d+\.\d tokens/s")
        self.assertEqual(newest.stdout, self.call(*sample, "--no-cache").stdout)
        self.assertEqual(newest.stdout, self.call(*sample, "--checkpoint", 5).stdout)
        # Two ranks that share the heads; likeliest tokens, as sums of two parts are rounded otherwise.
        likeliest = [*sample, "--temperature", 0]
        self.assertEqual(self.call(*likeliest, "-n", 2).stdout.splitlines()[-1],
                         self.call(*likeliest).stdout.splitlines()[-1])


if __name__ == "__main__":
    Weights.trireme = sys.argv.pop(1)
    unittest.main(verbosity=2)

"""`trireme train` and `sample` as a person runs them: interrupted, resumed, and given bad input.

Run by ctest; alone: python3 tests/cli/train_test.py build/release/trireme/cli/trireme.
"""

import signal
import struct
import subprocess
import sys
import unittest

from training import Training

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=4",
         "--train.accumulate=2", "--model.dropout=0.1", "--train.threads=2", "--run.sample_tokens=5"]


class Train(Training):
    settings = SMALL

    def test_loss_falls_and_a_sample_is_drawn(self):
        text = self.train("run", "--train.steps=120", "--optim.lr=0.01")
        self.assertIn("a sample of what it learned", text)
        opening = text[:text.index("step 1/")].splitlines()
        self.assertEqual([line for line in opening if len(line) > 80 and str(self.folder) not in line], [])
        losses = self.losses("run")
        self.assertEqual(sorted(losses), list(range(1, 121)))
        self.assertLess(losses[120], 0.7 * losses[1])
        done = subprocess.run([self.trireme, "sample", str(self.folder / "run"), "--prompt", "row ", "--tokens", "8"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("row "))
        self.assertGreater(len(done.stdout), len("row \n"))

    def test_interrupted_and_resumed_gives_the_same_bits(self):
        # More steps than an epoch has, so that the end of one lies in between.
        steps = ["--train.steps=900", "--train.eval_every=0", "--run.checkpoint_every=0"]
        self.train("whole", *steps)
        process = subprocess.Popen(self.command("parts", *steps), stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("step 300/"):
                process.send_signal(signal.SIGINT)
                break
        output = process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=60), 3, output)
        self.assertIn("stopped after step", output)
        self.assertLess(max(self.losses("parts")), 900)
        self.assertIn("resumes from", self.train("parts", *steps))
        self.assertEqual(self.losses("parts"), self.losses("whole"))

    def test_a_damaged_checkpoint_is_passed_over(self):
        steps = ["--run.checkpoint_every=10", "--train.eval_every=0"]
        self.train("run", "--train.steps=20", *steps)
        newest = self.folder / "run/checkpoints/step-00000020/model.safetensors"
        data = bytearray(newest.read_bytes())
        data[-5] ^= 1
        newest.write_bytes(data)
        text = self.train("run", "--train.steps=30", *steps)
        self.assertIn("step-00000020", text)
        self.assertIn("resumes from", text)
        self.assertIn("(step 10)", text)

    def test_settings_that_are_wrong(self):
        self.assertIn("did you mean train.batch", self.train("run", "--train.bacth=3", code=2))
        self.assertIn("cannot be shared evenly", self.train("run", "--model.heads=3", code=1))
        self.assertIn("expected", self.train("run", "--train.steps=many", code=2))
        self.assertIn("--print-config", self.train("run", "--print-confg", code=2))
        self.assertFalse((self.folder / "run/metrics.jsonl").exists())

    def test_data_that_is_wrong(self):
        self.text = self.folder / "tokens.bin"
        self.text.write_bytes(struct.pack("<2000H", *([7] * 1999 + [300])))
        tokens = ["--data.kind=tokens", "--train.steps=1"]
        self.assertIn("300", self.train("run", *tokens, "--model.vocab=256", code=1))
        self.text.write_bytes(struct.pack("<256i", 20240520, 1, 5000, *[0] * 253) + bytes(100))
        self.assertIn("5000", self.train("run", *tokens, code=1))
        self.text = self.folder / "nothing.txt"
        self.assertIn("nothing.txt", self.train("run", "--train.steps=1", code=1))

    def test_a_loss_that_is_not_finite_is_explained(self):
        text = self.train("run", "--train.steps=50", "--optim.lr=1e30", "--lr_schedule.warmup_steps=0",
                          "--train.clip_norm=0", code=1)
        self.assertRegex(text, r"the loss is -?(nan|inf) at step \d+; the first op that makes a non-finite number: \w+ makes %")

    def test_print_config_names_origins(self):
        text = self.train("run", "--print-config")
        self.assertRegex(text, r"train\.batch\s+4\s+command line")
        self.assertRegex(text, r"optim\.kind\s+\"?adamw\"?\s+default")


if __name__ == "__main__":
    Train.trireme = sys.argv.pop(1)
    unittest.main()

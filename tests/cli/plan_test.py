"""`trireme train -n RANKS --plan PLAN` as a person runs it: the same losses as one rank, checkpoints that cross plans,
ranks that are stopped or killed, and plans with mistakes.

Run by ctest; alone: python3 tests/cli/plan_test.py build/release/trireme/cli/trireme.
"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from training import Training

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=4",
         "--model.dropout=0.1", "--train.threads=1", "--run.sample_tokens=5", "--train.eval_every=0"]


class Plan(Training):
    settings = SMALL

    def plan(self, text):
        path = self.folder / "plan.json"
        path.write_text(text)
        return f"--plan={path}"

    def assert_same_losses(self, run, expected, tolerance=2e-4):
        found = self.losses(run)
        self.assertEqual(sorted(found), sorted(expected))
        for step, loss in expected.items():
            self.assertLess(abs(found[step] - loss), tolerance * loss, f"{run}, step {step}")

    def test_every_preset_gives_the_losses_of_one_rank(self):
        self.train("one", "--train.steps=20")
        expected = self.losses("one")
        self.assertEqual(len(expected), 20)
        for preset in ["data", "zero1", "zero2", "zero3", "megatron", "megatron+sequence"]:
            text = self.train(preset, "--train.steps=20", "-n", "2", "--plan", preset)
            self.assertIn(f"plan     {preset} on the mesh", text)
            self.assertEqual(text.count("a sample of what it learned"), 1)
            self.assert_same_losses(preset, expected)
        self.train("both", "--train.steps=20", "-n", "4",
                   self.plan('{"mesh": "data:2 tensor:2", "preset": "megatron+zero1"}'))
        self.assert_same_losses("both", expected)

    def test_moments_that_rest_in_a_file_change_nothing(self):
        scratch = self.folder / "scratch"
        scratch.mkdir()
        plan = self.plan(f'{{"mesh": "data:1", "offload": {{"optimizer": "file", "folder": "{scratch}"}}}}')
        more = ["--lr_schedule.decay_steps=30"]
        self.train("whole", "--train.steps=12", *more)
        for run, first, then in [("to_memory", [plan], []), ("to_file", [], [plan])]:
            self.train(run, "--train.steps=6", *more, *first)
            self.assertIn("resumes from", self.train(run, "--train.steps=12", *more, *then))
            for name in ["model.safetensors", "optimizer.safetensors"]:
                end = Path("checkpoints/step-00000012") / name
                self.assertEqual((self.folder / run / end).read_bytes(),
                                 (self.folder / "whole" / end).read_bytes(), f"{run}: {name}")
        self.assertEqual(list(scratch.iterdir()), [])

    def test_a_checkpoint_goes_on_under_another_plan(self):
        self.train("whole", "--train.steps=30")
        expected = self.losses("whole")
        ways = [["-n", "3", "--plan=zero3"], ["-n", "2", "--plan=megatron"], ["-n", "2", "--plan=zero1"], []]
        for steps, way in zip([8, 16, 24, 30], ways):
            text = self.train("parts", f"--train.steps={steps}", "--lr_schedule.decay_steps=30",
                              *([] if steps > 8 else ["--run.resume=never"]), *way)
            self.assertEqual("resumes from" in text, steps > 8, text)
        self.train("same", "--train.steps=30", "--lr_schedule.decay_steps=30")
        self.assert_same_losses("parts", self.losses("same"))
        self.assertEqual(len(expected), 30)

    def test_the_same_plan_goes_on_with_the_same_bits(self):
        plan = ["-n", "2", "--plan=zero2", "--lr_schedule.decay_steps=20"]
        self.train("whole", "--train.steps=20", *plan)
        self.train("parts", "--train.steps=11", *plan)
        self.train("parts", "--train.steps=20", *plan)
        self.assertEqual(self.losses("parts"), self.losses("whole"))

    def test_an_asynchronous_pipeline_learns_and_goes_on(self):
        settings = ["--model.family=llama", "--model.layers=2", "--model.dropout=0", "--train.clip_norm=0",
                    "--lr_schedule.decay_steps=40"]
        for run, plan in [("pipedream", '{"mesh": "pipe:2", "schedule": "pipedream"}'),
                          ("2bw", '{"mesh": "pipe:2", "schedule": "2bw", "accumulate": 2}')]:
            more = [*settings, "-n", "2", "--plan", plan]
            self.train(run, "--train.steps=20", *more)
            self.assertIn("resumes from", self.train(run, "--train.steps=40", *more))
            losses = self.losses(run)
            self.assertEqual(sorted(losses), list(range(1, 41)))
            self.assertLess(losses[40], losses[1] - 0.2)
            self.assertIn("resumes from", self.train(run, "--train.steps=42", *settings))

    def test_links_are_used_as_said(self):
        steps = ["-n", "2", "--train.steps=1"]
        self.assertIn("collectives by fixed rules", self.train("fixed", *steps))
        self.assertIn("collectives by a probe of the links", self.train("probe", *steps, "--links", "probe"))
        self.assertIn("none.json: cannot be read", self.train("bad", *steps, "--links", "none.json", code=1))

    def test_mistakes_are_told_before_ranks_start(self):
        cases = [(None, "--plan=zero9", "neither a preset nor a file"),
                 ('{"mesh": "data:4"}', None, "has 4 ranks, but 2 are running"),
                 ('{"mesh": "data:2", "stage": 2}', None, "unknown key 'stage'"),
                 ('{"mesh": "data:2", "stages": 2}', None, "a list of scopes"),
                 ('{"mesh": "data:2", "stages": ["h.1"]}', None, "stages"),
                 ('{"mesh": "data:2", "preset": "zreo1"}', None, "did you mean 'zero1'?"),
                 ('{"mesh": "dta:2"}', None, "Did you mean 'data'?"),
                 ('{"mesh": "data:2", "algorithm": "rign"}', None, "did you mean 'ring'?"),
                 ('{"mesh": "data:2", "layouts": {"fc1.weight": "data:0"}}', None, "is the plan for another model?"),
                 ('{"mesh": "tensor:2", "layouts": {"wte.weight": "tensor:2"}}', None, "does not exist"),
                 (None, "--plan=hybrid_cnn", "this model has no convolutions")]
        for content, argument, message in cases:
            text = self.train("bad", "-n", "2", argument or self.plan(content), code=1)
            self.assertIn(message, text)
            self.assertNotIn("launched by", text)

    def test_a_plan_says_more_than_the_mesh(self):
        self.train("one", "--train.steps=10", "--train.accumulate=2")
        text = self.train("plan", "--train.steps=10", "-n", "2", self.plan(
            '{"mesh": "tensor:2", "preset": "megatron", "accumulate": 2, "algorithm": "ring",'
            ' "layouts": {"h.0.mlp.*": ""}}'))
        self.assertIn("plan     megatron on the mesh", text)
        self.assert_same_losses("plan", self.losses("one"))
        self.assertIn("train.accumulate is 4 (command line), but the plan says 2", self.train(
            "bad", "-n", "2", "--train.accumulate=4", self.plan('{"mesh": "data:2", "accumulate": 2}'), code=1))

    def test_a_rank_of_a_program_is_shown(self):
        def inspect(*arguments):
            return subprocess.run([self.trireme, "inspect", "program", *SMALL[:5], *arguments], capture_output=True,
                                  text=True, timeout=60).stdout
        text = inspect("-n", "2", "--plan=megatron", "--rank=1", "--collectives", "--segment=first")
        self.assertIn("# rank 1 of 2, megatron on the mesh 'tensor:2'", text)
        self.assertRegex(text, r"= all_reduce(_start)?\(.*  #.* [0-9]+ bytes sent")
        self.assertNotIn("= matmul(", text)
        # Four sums of [4, 16, 32] for one block, two more for embedding and head, three of [4, 16] for the loss.
        rows = {line.split()[1]: line.split()[2:] for line in text.splitlines()
                if line.startswith("# ") and " keeps " not in line}
        self.assertEqual(rows["first"][2:], ["0", "0", "0", "0", str(6 * 4 * 16 * 32 * 4 + 3 * 4 * 16 * 4)])
        self.assertIn("of role optimizer", text)
        whole = inspect(self.plan('{"mesh": "data:2 tensor:2", "preset": "megatron+zero1"}'), "--segment=update")
        self.assertIn("state %m.wte.weight: f32[128,16]", whole)
        self.assertIn("{data:1 tensor:0}", whole)

    def test_too_few_rows_or_heads_are_refused(self):
        self.assertIn("can not be shared by 3 ranks", self.train("bad", "-n", "3", "--train.batch=2", code=1))
        self.assertIn("are too many for it", self.train("bad", "-n", "3", "--plan=megatron", code=1))

    def test_interrupted_ranks_save_together(self):
        process = subprocess.Popen(self.command("run", "-n", "2", "--train.steps=100000", "--train.log_every=50"),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in process.stdout:
            if "step 50/" in line:
                process.send_signal(signal.SIGINT)
                break
        output = process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=60), 3, output)
        self.assertIn("stopped after step", output)
        self.assertEqual(len(list((self.folder / "run" / "checkpoints").iterdir())), 1)

    # Checkpoints are written while training continues.
    def wait_for_a_checkpoint(self, process):
        for _ in process.stdout:
            if list(self.folder.glob("run/checkpoints/step-*")):
                break

    def test_a_killed_rank_ends_all_and_the_checkpoint_stays(self):
        process = subprocess.Popen(self.command("run", "-n", "3", "--train.batch=6", "--train.steps=100000",
                                                "--train.log_every=50", "--run.checkpoint_every=40"),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.wait_for_a_checkpoint(process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        self.assertEqual(len(children), 3)
        os.kill(int(children[1]), signal.SIGKILL)
        killed = time.monotonic()
        output = process.stdout.read()
        process.stdout.close()
        self.assertNotEqual(process.wait(timeout=60), 0)
        self.assertLess(time.monotonic() - killed, 2 if "TRIREME_STRICT_TIMES" in os.environ else 10, output)
        self.assertIn("rank 1", output)
        text = self.train("run", "--train.steps=60", "--train.batch=6", "--lr_schedule.decay_steps=100000")
        self.assertIn("resumes from", text)

    def test_a_killed_stage_ends_all_and_another_plan_goes_on(self):
        plan = self.folder / "pipe.json"
        plan.write_text('{"mesh": "pipe:3", "schedule": "1f1b"}')
        settings = ["--model.layers=3", "--train.batch=6", "--train.accumulate=3", "--lr_schedule.decay_steps=100000"]
        process = subprocess.Popen(self.command("run", "-n", "3", "--plan", str(plan), *settings,
                                                "--train.steps=100000", "--train.log_every=50",
                                                "--run.checkpoint_every=40"),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.wait_for_a_checkpoint(process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[1]), signal.SIGKILL)  # the middle one
        killed = time.monotonic()
        output = process.stdout.read()
        process.stdout.close()
        self.assertNotEqual(process.wait(timeout=60), 0)
        self.assertLess(time.monotonic() - killed, 2 if "TRIREME_STRICT_TIMES" in os.environ else 10, output)
        self.assertIn("rank 1 was killed by signal 9", output)
        text = self.train("run", "-n", "2", "--plan=zero1", *settings, "--train.steps=60")
        self.assertIn("resumes from", text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Plan.trireme = sys.argv.pop(1)
    unittest.main()

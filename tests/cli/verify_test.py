"""`trireme verify` as a person runs it: the verdict, its exit codes, refusals, and rows of the table.

Run by ctest; alone: python3 tests/cli/verify_test.py build/release/trireme/cli/trireme.
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=16", "--model.seq=8", "--train.batch=4"]
MARK = "<!-- made by `trireme verify --table FILE`; do not edit below -->\n"


class Verify(unittest.TestCase):
    trireme = "trireme"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.text = self.folder / "text.txt"
        self.text.write_text("oar mast keel bank row pull " * 200)

    def run_command(self, *arguments, code=0):
        done = subprocess.run([self.trireme, "verify", *arguments], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def verify(self, *arguments, code=0):
        return self.run_command(*SMALL, f"--data.path={self.text}", *arguments, code=code)

    def test_a_preset_differs_by_rounding(self):
        text = self.verify("--plan=zero2", "-n", "3", "--steps", "2")
        self.assertIn("3 ranks as threads", text)
        self.assertEqual(text.count("one rank"), 2)
        self.assertRegex(text, r"verdict  rounding: of \d+ tensors the worst is ")

    def test_a_file_says_its_ranks(self):
        plan = self.folder / "plan.json"
        plan.write_text('{"mesh": "data:2 tensor:2", "preset": "megatron+zero1"}')
        self.assertIn("4 ranks as threads", self.verify("--plan", str(plan), "--train.precision=bf16"))
        self.assertIn("has 4 ranks, but 2 are", self.verify("--plan", str(plan), "-n", "2", code=1))

    def test_shards_are_equal(self):
        self.assertIn("verdict  equal: all bits of", self.verify("--plan=data", "--train.shards=4"))

    def test_refusals_have_a_reason(self):
        self.assertIn("the plan is refused: ", self.verify("--plan=megatron", "-n", "3", code=1))
        self.assertIn("which plan?", self.verify(code=1))
        self.assertIn("neither a preset nor a file", self.verify("--plan=zero9", code=1))

    def test_a_plan_may_stand_on_the_command_line(self):
        plan = '{"mesh": "data:2 tensor:2", "preset": "megatron"}'
        text = self.run_command("--random", *SMALL, "--plan", plan, "--train.precision=bf16")
        self.assertIn("4 ranks as threads", text)
        self.assertRegex(text, r"verdict  rounding: ")
        text = self.run_command("--random", "--image", "1x4x3", "--plan", '{"mesh": "data:2"}',
                                "--model.family=mlp", "--model.layers=2", "--model.hidden=5")
        self.assertIn("verdict  rounding: ", text)
        self.assertIn("--plan: there is no mesh", self.run_command("--random", "--plan", "{}", code=1))

    def test_a_gradient_in_half_precision_is_judged_in_f32_too(self):
        text = self.verify("--plan=data", "--train.precision=bf16", "--steps", "1")
        half = int(re.search(r"of (\d+) tensors", text)[1])
        text = self.verify("--plan=data", "--train.precision=f32", "--steps", "1")
        self.assertEqual(half, 2 * int(re.search(r"of (\d+) tensors", text)[1]))

    def sweep(self, *arguments):
        done = subprocess.run([self.trireme, "verify", "--sweep", "60", *arguments],
                              capture_output=True, text=True, timeout=300)
        self.assertIn(done.returncode, (0, 4), done.stdout + done.stderr)
        return done.stdout, done.returncode

    def test_the_sweep_has_a_row_for_each_model_and_a_command_for_each_failure(self):
        text, code = self.sweep("--seed", "5", "--cases", "12", "--max-ranks", "4", "--model.family=mlp")
        rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line[:3] in ("mlp", "all")}
        self.assertEqual(rows["mlp"], rows["all"])
        self.assertEqual(int(rows["all"][-1]), 12)
        self.assertEqual(sum(int(count) for count in rows["all"][:-1]), 12)
        failures = sum(int(count) for count in rows["all"][3:-1])
        self.assertEqual(code, 4 if failures else 0)
        self.assertEqual(text.count("\ntrireme verify --random"), failures)

    def test_of_one_seed_the_same_cases_come(self):
        cases = ("--cases", "4", "--max-ranks", "2", "--model.family=mlp", "--train.precision=f32")
        self.assertEqual(self.sweep("--seed", "9", *cases), self.sweep("--seed", "9", *cases))
        self.assertIn("needs", self.run_command("--seed", "9", "--plan=data", code=2).lower()
                      .replace("requires", "needs"))

    def test_the_table_is_put_below_its_mark(self):
        page = self.folder / "page.md"
        page.write_text("# Text\n\n" + MARK + "old\n")
        self.run_command("--table", str(page), "--filter", "mlp data 3")
        text = page.read_text()
        self.assertTrue(text.startswith("# Text\n\n" + MARK))
        self.assertNotIn("old", text)
        rows = [line for line in text.splitlines() if line.startswith("| mlp |")]
        self.assertEqual(len(rows), 1)
        self.assertEqual(rows[0].count(" rounding "), 12)
        self.assertIn("12 cells: 12 rounding.", text)
        page.write_text("no mark\n")
        self.assertIn("has no line", self.run_command("--table", str(page), "--filter", "mlp data 3", code=1))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Verify.trireme = sys.argv.pop(1)
    unittest.main()

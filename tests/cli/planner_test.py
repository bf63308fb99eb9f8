"""`trireme plan` as a person runs it: a plan that simulates as it was promised and trains, wishes that are refused.

Run by ctest; alone: python3 tests/cli/planner_test.py build/release/trireme/cli/trireme.
"""

import json
import re
import sys
import unittest
from pathlib import Path

from cluster_commands import MACHINE, SMALL, ClusterCommands


class Planner(ClusterCommands):
    def test_the_plan_simulates_as_promised_and_trains(self):
        plan, result = str(self.folder / "plan.json"), str(self.folder / "result.json")
        said = self.run_command("plan", *SMALL, "--cluster", self.machine(), "-o", plan, "--budget-tokens", "1e9")
        self.assertIn("device-hours", said)
        self.assertIn("bound", said)
        step = float(re.search(r"step +([0-9.]+) ms", said).group(1))
        self.run_command("simulate", *SMALL, "--plan", plan, "--cluster", self.machine(), "--json", result)
        self.assertAlmostEqual(json.loads(Path(result).read_text())[0]["predicted_seconds"] * 1e3, step, delta=0.06)
        self.run_command("train", *SMALL, "-n", "2", "--plan", plan, "--train.steps=2", "--train.eval_every=0",
                         f"--run.dir={self.folder / 'run'}")

    def test_explains_another_choice(self):
        said = self.run_command("plan", *SMALL, "--cluster", self.machine(), "--explain", "tensor=2", "--baseline", "inter")
        self.assertRegex(said, r"with tensor=2\n +[+-][0-9.]+%")
        self.assertRegex(said, r"baseline inter\n +[+-][0-9.]+%")

    def test_what_is_impossible_is_refused_with_the_limit(self):
        small = MACHINE.replace("4e9\nbytes_per_second = 8e9", "1e4\nbytes_per_second = 8e9")
        self.assertRegex(self.run_command("plan", *SMALL, "--cluster", self.machine(small), code=1),
                         "nothing fits: a device has .* are needed, .* too much")
        empty = MACHINE.replace("devices = 2", "devices = 0")
        self.assertIn("at least 1", self.run_command("plan", *SMALL, "--cluster", self.machine(empty), code=1))
        typo = MACHINE.replace("memory_bytes", "memory_byts")
        self.assertIn("memory_bytes", self.run_command("plan", *SMALL, "--cluster", self.machine(typo), code=1))
        self.assertIn("tensor", self.run_command("plan", *SMALL, "--cluster", self.machine(), "--explain", "tensr=2", code=1))


if __name__ == "__main__":
    Planner.trireme = sys.argv.pop(1)
    unittest.main()

"""`trireme plan` as a person runs it: a plan that simulates as it was promised and trains, wishes that are refused.

Run by ctest; alone: python3 tests/cli/planner_test.py build/release/trireme/cli/trireme.
"""

import json
import re
import sys
import unittest
from pathlib import Path

from cluster_commands import MACHINE, SMALL, ClusterCommands
from training import read_metrics


class Planner(ClusterCommands):
    def test_the_plan_simulates_as_promised_and_trains(self):
        plan, result = str(self.folder / "plan.json"), str(self.folder / "result.json")
        said = self.run_command("plan", *SMALL, "--cluster", self.machine(), "-o", plan, "--budget-tokens", "1e9",
                                "--failures", "mtbf=100h,checkpoint=30s", "--jitter", "0.1")
        self.assertIn("device-hours", said)
        self.assertRegex(said, r"failures +one in 50.0 h; with a checkpoint every .* of the time lasts as work")
        self.assertRegex(said, r"with jitter +[0-9.]+ ms a step on average")
        self.assertIn("bound", said)
        step = float(re.search(r"step +([0-9.]+) ms", said).group(1))
        self.run_command("simulate", *SMALL, "--plan", plan, "--cluster", self.machine(), "--json", result)
        self.assertAlmostEqual(json.loads(Path(result).read_text())[0]["predicted_seconds"] * 1e3, step, delta=0.06)
        self.run_command("train", *SMALL, "-n", "2", "--plan", plan, "--train.steps=2", "--train.eval_every=0",
                         f"--run.dir={self.folder / 'run'}")

    def train(self, *arguments, code=0):
        return self.run_command("train", *SMALL, "--train.eval_every=0", "--run.sample_tokens=0",
                                f"--run.dir={self.folder / 'run'}", *arguments, code=code)

    def metrics(self):
        return read_metrics(self.folder / "run")

    def test_train_runs_the_plan_that_it_chose(self):
        cluster = self.machine()
        said = self.train("-n", "2", "--plan", "auto", "--cluster", cluster, "--train.steps=3",
                          "--lr_schedule.decay_steps=30")
        self.assertIn("chosen   ", said)
        self.assertRegex(said, r"step +[0-9.]+ ms measured \(median\), [0-9.]+ ms predicted")
        plan = self.folder / "run" / "plan.json"
        chosen = json.loads(plan.read_text())
        self.assertIn("accumulate", chosen)
        # What is promised of the step is what the simulator says of the plan, and the memory is that of the run.
        result = str(self.folder / "result.json")
        self.run_command("simulate", *SMALL, "--plan", str(plan), "--cluster", cluster, "--json", result)
        simulated = json.loads(Path(result).read_text())[0]
        for line in self.metrics():
            self.assertEqual(line["predicted_seconds"], simulated["predicted_seconds"])
            self.assertEqual(line["predicted_bytes"], line["peak_bytes"])
        # A run goes on with its plan, whatever would be chosen now: with links this slow another would be.
        slow = self.machine(MACHINE.replace("2e-6\nbytes_per_second = 4e9", "2e-2\nbytes_per_second = 4e3"))
        said = self.train("-n", "2", "--plan", "auto", "--cluster", slow, "--train.steps=5", "--lr_schedule.decay_steps=30")
        self.assertIn("which is resumed", said)
        self.assertEqual(json.loads(plan.read_text()), chosen)

    def test_a_run_that_goes_on_with_other_ranks_gets_another_plan(self):
        cluster = self.machine()
        self.train("-n", "2", "--plan", "auto", "--cluster", cluster, "--train.steps=1", "--lr_schedule.decay_steps=30")
        said = self.train("-n", "1", "--plan", "auto", "--cluster", cluster, "--train.steps=2",
                          "--lr_schedule.decay_steps=30")
        self.assertIn("chosen   data 1, tensor 1, pipe 1", said)
        self.assertNotIn("which is resumed", said)
        self.assertEqual([line["step"] for line in self.metrics()], [1, 2])  # of one run

    def test_train_holds_the_planner_to_what_was_given(self):
        said = self.train("--plan", "auto", "--cluster", self.machine(), "--train.steps=1", "--train.accumulate=4")
        self.assertIn("4 microbatches", said)
        self.assertEqual(json.loads((self.folder / "run" / "plan.json").read_text())["accumulate"], 4)
        self.assertIn("say train.batch", self.train("--plan", "auto", "--cluster", self.machine(),
                                                    "--train.batch_per_rank=4", "--run.resume=never", code=1))

    def test_a_given_plan_is_compared_with_its_prediction(self):
        self.train("-n", "2", "--plan", "zero1", "--cluster", self.machine(), "--train.steps=2")
        self.assertTrue(all(line["predicted_bytes"] == line["peak_bytes"] for line in self.metrics()))
        self.assertEqual(json.loads((self.folder / "run" / "plan.json").read_text())["preset"], "zero1")

    def test_without_a_machine_nothing_is_chosen(self):
        said = self.train("-n", "2", "--plan", "auto", code=1)
        self.assertIn("trireme profile -n 2 -o local.toml", said)
        self.assertNotIn("launched by", said)
        self.assertIn("too few for 3 ranks", self.train("-n", "3", "--plan", "auto", "--cluster", self.machine(), code=1))

    def test_explains_another_choice(self):
        said = self.run_command("plan", *SMALL, "--cluster", self.machine(), "--explain", "tensor=2", "--baseline", "inter")
        self.assertRegex(said, r"with tensor=2\n +[+-][0-9.]+%")
        self.assertRegex(said, r"baseline inter\n +[+-][0-9.]+%")

    def test_holds_itself_to_random_plans(self):
        said = self.run_command("plan", *SMALL, "--cluster", self.machine(), "--effort", "8", "--check", "6", "--seed", "3")
        self.assertRegex(said, r"check of [1-6] random plans")
        self.assertRegex(said, r"bounds +0 broken")
        self.assertRegex(said, r"the fastest +.* of the plan above")

    def test_looks_at_other_formats_and_other_agreement(self):
        said = self.run_command("plan", *SMALL, "--cluster", self.machine(), "--effort", "4", "--train.precision=bf16",
                                "--formats", "any", "--exchange", "any")
        self.assertRegex(said, r"train.weight_precision=bf16 train.gradient_precision=bf16: [0-9.]+ ms")
        self.assertRegex(said, r"decides +(bandwidth|latency|neither)|nothing to agree on")

    def test_time_that_is_up_is_no_claim(self):
        said = self.run_command("plan", *SMALL, "--cluster", self.machine(), "--seconds", "0.000001", code=3)
        self.assertIn("before any plan was found to fit", said)

    def test_a_model_may_be_faster_on_fewer_devices(self):
        slow = self.machine(MACHINE.replace("2e-6\nbytes_per_second = 4e9", "2e-2\nbytes_per_second = 4e3"))
        said = self.run_command("plan", *SMALL, "--cluster", slow, "--devices", "any", "--effort", "8")
        self.assertIn("\ndata 1, tensor 1, pipe 1", said)
        self.assertNotIn("\ndata 1, tensor 1, pipe 1",
                         self.run_command("plan", *SMALL, "--cluster", slow, "--effort", "8"))
        self.assertIn("--budget-tokens", self.run_command("plan", *SMALL, "--cluster", slow, "--jitter", "0.1", code=2))

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

"""`trireme simulate` and `profile` as a person runs them: memory against real runs, clusters that are refused, and
this machine measured.

Run by ctest; alone: python3 tests/cli/simulate_test.py build/release/trireme/cli/trireme.
"""

import json
import sys
import tomllib
import unittest
from pathlib import Path

from cluster_commands import SMALL, ClusterCommands
from cluster_commands import MACHINE as TWO_CORES
from traces import overlaps

MACHINE = TWO_CORES.replace("devices = 2", "devices = 4")


class Simulate(ClusterCommands):
    def machine(self, text=MACHINE):
        return super().machine(text)

    def run_json(self, *arguments):
        path = self.folder / "result.json"
        self.run_command(*arguments, "--json", str(path))
        return json.loads(path.read_text())[0]

    def plan(self, **keys):
        path = self.folder / "plan.json"
        path.write_text(json.dumps(keys))
        return str(path)

    def simulate(self, plan, *arguments, cluster=None):
        return self.run_json("simulate", "--plan", plan, "--cluster", cluster or self.machine(), *SMALL, *arguments)

    def test_memory_is_that_of_a_real_run(self):
        for keys in ({"mesh": "data:2", "preset": "data"}, {"mesh": "data:2", "preset": "zero3"},
                     {"mesh": "tensor:2", "preset": "megatron"},
                     {"mesh": "pipe:2", "schedule": "1f1b", "accumulate": 4},
                     {"mesh": "data:2", "preset": "zero1", "accumulate": 2, "precision": "bf16", "recompute": "full"}):
            plan = self.plan(**keys)
            real = self.run_json("bench", "train", "-n", "2", "--plan", plan, "--steps", "1", "--warmup", "0", *SMALL)
            predicted = self.simulate(plan)
            self.assertEqual(predicted["per_rank"][0]["peak_bytes"], real["planned_peak_bytes"], keys)
            self.assertEqual(predicted["parameters"], real["parameters"])
            self.assertAlmostEqual(predicted["model_flops_per_step"] / real["model_flops_per_step"], 1)

    def test_all_ranks_and_steps_agree(self):
        plan = self.plan(mesh="pipe:2 data:2", preset="zero1", schedule="1f1b", accumulate=4)
        few, every, steps = (self.simulate(plan, *flags) for flags in ([], ["--all-ranks"], ["--steps"]))
        self.assertEqual(len(few["per_rank"]), 2)
        self.assertEqual(len(every["per_rank"]), 4)
        self.assertEqual(few["predicted_seconds"], every["predicted_seconds"])
        self.assertAlmostEqual(few["predicted_seconds"] / steps["predicted_seconds"], 1, delta=0.01)

    def test_a_step_costs_what_its_devices_do(self):
        """Two of the four devices are used, at 1,000 a second and 3.6 GW each."""
        paid = MACHINE.replace("[[host]]", "price_per_hour = 3.6e6\nwatts = 3.6e9\n[[host]]")
        plan = self.plan(mesh="data:2", preset="data")
        result = self.folder / "result.json"
        said = self.run_command("simulate", "--plan", plan, "--cluster", self.machine(paid), *SMALL, "--json", str(result))
        seconds = json.loads(result.read_text())[0]["predicted_seconds"]
        self.assertIn(f"price              {2000 * seconds:.4f} a step", said)
        self.assertIn(f"energy             {2000 * seconds:.3f} kWh a step at most", said)  # 3.6e6 J each

    def test_steps_with_jitter_are_summed_up(self):
        slow = self.machine(MACHINE.replace("40e9", "40e3"))  # steps of some seconds, for their digits
        result = self.folder / "result.json"
        said = self.run_command("simulate", "--plan", self.plan(mesh="data:2", preset="data"), "--cluster", slow, *SMALL,
                                "--jitter", "0.5", "--draws", "11", "--json", str(result))
        drawn = json.loads(result.read_text())[0]["drawn_seconds"]
        self.assertEqual(len(drawn), 11)
        self.assertEqual(drawn, sorted(drawn))
        self.assertLess(drawn[5] + 0.001, drawn[9])  # the median is not the ninth of ten
        # Of eleven the tenth: ten steps are as long at most, and nine of ten intervals lie below it.
        self.assertIn(f"11 steps with jitter: {sum(drawn) / 11:.3f} s on average, {drawn[0]:.3f} the shortest, "
                      f"{drawn[9]:.3f} nine of ten, {drawn[10]:.3f} the longest", said)

    def test_events_of_a_trace_do_not_overlap(self):
        plan = self.plan(mesh="pipe:2 data:2", preset="zero1", schedule="1f1b", accumulate=4)
        trace = self.folder / "trace.json"
        self.simulate(plan, "--trace", str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertGreaterEqual(sum(event["ph"] == "X" for event in events), 2 * (8 + 1 + 8))  # runs, update, messages
        self.assertEqual(overlaps(events), [])

    def test_a_trillion_parameters_are_only_settings(self):
        text = self.run_command("simulate", "--plan", self.plan(mesh="data:8 tensor:8", preset="megatron+zero3"),
                                "--cluster", "h100", "--hosts", "8", "--model.layers=4", "--model.heads=384",
                                "--model.hidden=147456", "--model.vocab=51200", "--model.seq=2048",
                                "--train.batch=64", "--train.accumulate=8", "--train.precision=bf16")
        self.assertIn("1051536.8M parameters", text)  # 12 l h^2 + 13 l h + (V + s + 2) h
        self.assertIn("it does not fit, by", text)

    def test_a_sweep_is_one_simulation_after_another(self):
        plan = self.plan(mesh="data:2", preset="zero1")
        path, picture = self.folder / "sweep.json", self.folder / "sweep.svg"
        table = self.run_command("simulate", "--plan", plan, "--cluster", self.machine(), *SMALL, "--sweep",
                                 "data,train.batch=1:4,2:8,4:16,8:32", "--json", str(path), "--svg", str(picture), "--show", "step")
        points = json.loads(path.read_text())
        self.assertEqual([point["sweep"]["train.batch"] for point in points], ["4", "8", "16", "32"])
        self.assertEqual(points[1]["predicted_seconds"], self.simulate(plan)["predicted_seconds"])
        self.assertIn("8 ranks, but the cluster 'two cores' has 4 devices", points[3]["refused"])
        self.assertIn("refused: ", table)
        self.assertIn("seconds of a step</text>", picture.read_text())
        refused = self.run_command("simulate", "--plan", plan, "--cluster", self.machine(), *SMALL, "--sweep",
                                   "data=8,16", code=1)
        self.assertIn("no point can be simulated", refused)

    def test_refusals(self):
        plan = self.plan(mesh="data:2", preset="data")
        refused = lambda *arguments: self.run_command("simulate", "--plan", plan, *SMALL, *arguments, code=1)
        self.assertIn("did you mean 'a100'?", refused("--cluster", "a10"))
        broken = self.machine(MACHINE.replace("memory_bytes", "memory_byte"))
        self.assertIn("did you mean 'memory_bytes'?", refused("--cluster", broken))
        broken = self.machine(MACHINE.replace('inside = "memory"', 'inside = "air"'))
        self.assertIn("names the link 'air'", refused("--cluster", broken))
        broken = self.machine(MACHINE.replace("devices = 4", "devices = 1"))
        self.assertIn("2 ranks, but the cluster 'two cores' has 1 devices on 1 hosts, 1 too few",
                      refused("--cluster", broken))

    def test_this_machine_can_be_measured(self):
        measured = self.folder / "local.toml"
        self.run_command("profile", *SMALL, "-n", "2", "-o", str(measured), "--threads", "1")
        for op in ("gelu_grad", "embedding", "matmul"):  # of a step of this model; no kernel of them is timed alone
            self.assertRegex(measured.read_text(), rf'"{op}" = \[\[[0-9.e-]+, [0-9.e-]+\]')  # by size
        plan = self.plan(mesh="data:2", preset="data")
        # No slower than the measured rates allow for its products, and no faster.
        predicted = self.simulate(plan, cluster=str(measured))
        peak = tomllib.loads(measured.read_text())["device"][0]["flops_per_second"]["f32"]
        least = predicted["model_flops_per_step"] / (2 * peak)
        self.assertGreater(predicted["predicted_seconds"], least)
        self.assertLess(predicted["predicted_seconds"], 1000 * least)
        self.assertIn("DGX A100", self.run_command("profile", "--show", "a100"))
        self.assertIn("did you mean 'a100'?", self.run_command("profile", "--show", "a10", code=1))


if __name__ == "__main__":
    Simulate.trireme = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()

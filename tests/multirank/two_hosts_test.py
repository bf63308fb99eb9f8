"""Training with experts over two "hosts" (network namespaces) with four ranks each: an all_to_all of two levels sends what
the simulator says, more than by pairs, and the losses are the same but for the order of sums.

Run by ctest; alone, as root: python3 tests/multirank/two_hosts_test.py build/release/trireme/cli/trireme. Ends with 77
where namespaces are not permitted.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from two_hosts import TwoHosts  # noqa: E402

RANKS = 8
SETTINGS = ["model.family=llama", "model.layers=2", "model.hidden=64", "model.heads=4", "model.seq=32", "model.vocab=256",
            "model.moe.experts=8", "model.moe.top_k=2", "train.batch=16", "train.steps=2", "train.threads=1"]
CLUSTER = """
name = "two"
[[device]]
name = "core"
memory_bytes = 8e9
bytes_per_second = 1e10
flops_per_second = {f32 = 1e11}
[[host]]
device = "core"
devices = 4
count = 2
inside = "inside"
across = "cable"
[[link]]
name = "inside"
alpha_seconds = 1e-5
bytes_per_second = 1e9
[[link]]
name = "cable"
alpha_seconds = 5e-5
bytes_per_second = 1e8
"""


class ExpertsOverTwoHosts(unittest.TestCase):
    trireme = "trireme"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "cluster.toml").write_text(CLUSTER)

    def steps(self, hosts, algorithm):
        """Rank 0's, and the bytes that it sends in one as simulated."""
        plan, run, result = (self.folder / f"{algorithm}.{end}" for end in ("plan", "run", "json"))
        plan.write_text(json.dumps({"mesh": f"expert:{RANKS}", "preset": "expert", "algorithm": {"expert": algorithm}}))
        hosts.run(RANKS, self.trireme, "train", *SETTINGS, f"run.dir={run}", "--plan", plan)
        subprocess.run([self.trireme, "simulate", *SETTINGS, "--plan", plan, "--cluster", self.folder / "cluster.toml",
                        "--all-ranks", "--json", result], check=True, capture_output=True)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        (simulated,) = json.loads(result.read_text())
        return [line for line in lines if "loss" in line], simulated["per_rank"][0]["bytes_sent"]

    def test_what_is_passed_on_is_counted_and_simulated(self):
        with TwoHosts("1gbit") as hosts:
            pairs, pairs_bytes = self.steps(hosts, "ring")  # which an all_to_all has not
            levels, levels_bytes = self.steps(hosts, "hierarchical")
        self.assertGreater(levels_bytes, 1.2 * pairs_bytes)
        for steps, simulated in ((pairs, pairs_bytes), (levels, levels_bytes)):
            for step in steps:
                # Ranks have unequal parts of vectors that they do not divide; the simulator has the mean.
                self.assertAlmostEqual(step["bytes_sent"] / simulated, 1, delta=1e-4)
        for a, b in zip(pairs, levels, strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4)


if __name__ == "__main__":
    ExpertsOverTwoHosts.trireme = sys.argv.pop(1)
    unittest.main()

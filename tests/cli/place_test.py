"""`trireme place` as a person runs it, on the example that docs/placement.md shows.

Run by ctest; alone: python3 tests/cli/place_test.py build/release/trireme/cli/trireme.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "workflows" / "questions_about_images.toml"
TRIREME = Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/trireme/cli/trireme").resolve()


class Place(unittest.TestCase):
    def run_command(self, *arguments, code=0):
        done = subprocess.run([TRIREME, "place", *map(str, arguments)], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def setUp(self):
        if "was built without Cbc" in subprocess.run([TRIREME, "place", EXAMPLE], capture_output=True, text=True).stderr:
            self.skipTest("built without Cbc")

    def test_the_example(self):
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "placement.json"
            said = self.run_command(EXAMPLE, "--compare", "--simulate", "--requests", 2000, "-o", result)
            placement = json.loads(result.read_text())
        self.assertIn("cost     7.485 $/h: workers 6.242, network 1.243\nproven ", said)
        self.assertRegex(said, r"all in cloud +22\.033 +\+194\.4%")
        self.assertIn("all in edge                    not possible: these workers cannot take the rates", said)
        self.assertRegex(said, r"2000 requests in [\d.]+ s")
        self.assertEqual([op["variant"] for op in placement["ops"]], ["large", "resnet18", "answer"])
        for op in placement["ops"]:
            self.assertAlmostEqual(sum(share["inputs_per_second"] for share in op["workers"]), 40, places=4)
        self.assertAlmostEqual(placement["dollars_per_hour"]["total"], placement["bound"], places=6)

    def test_less_load_waits_less(self):
        def p99(load):
            said = self.run_command(EXAMPLE, "--load", load, "--simulate")
            return float(said.split("p99 ")[1].split(",")[0])

        self.assertLess(p99(0.7), p99(1))

    def test_a_goal_for_the_latency(self):
        said = self.run_command(EXAMPLE, "--p99", 400, "--simulate")
        self.assertRegex(said, r"load +0\.\d+, at which 99 % of the requests are answered within 400 ms")
        self.assertLessEqual(float(said.split("p99 ")[1].split(",")[0]), 400)
        self.assertIn("not answered within 1 ms", self.run_command(EXAMPLE, "--p99", 1, code=1))

    def test_prices_of_accuracy(self):
        prices = [line.split() for line in self.run_command(EXAMPLE, "--prices").splitlines()[1:]]
        self.assertEqual([line[:2] for line in prices[:2]], [["54.02", "7.027"], ["56.59", "7.485"]])
        self.assertEqual(prices, sorted(prices, key=lambda line: float(line[1])))

    def test_what_is_refused(self):
        self.assertIn("no combination of variants has accuracy 99; the best has 58.33", self.run_command(EXAMPLE, "--accuracy", 99, code=1))
        self.assertIn("load is 0", self.run_command(EXAMPLE, "--load", 0, code=1))
        self.assertIn("nosuch.toml", self.run_command("nosuch.toml", code=1))


if __name__ == "__main__":
    unittest.main()

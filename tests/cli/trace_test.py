"""`trireme train --trace`: what Perfetto needs of the file, on one rank and on a pipeline.

Run by ctest; alone: python3 tests/cli/trace_test.py build/release/trireme/cli/trireme.
"""

import collections
import json
import sys
import unittest

from traces import overlaps
from training import Training

PIPELINE = '{"mesh": "data:2 pipe:2", "schedule": "1f1b"}'


class Trace(Training):
    settings = ["--model.layers=2", "--model.heads=2", "--model.hidden=16", "--model.seq=8", "--train.batch=8",
                "--train.accumulate=4", "--train.threads=1", "--run.sample_tokens=0", "--train.steps=3"]

    def events(self, *arguments):
        path = self.folder / "trace.json"
        self.assertIn(f"trace    {path}", self.train("run", "--trace", str(path), *arguments))
        return json.loads(path.read_text())["traceEvents"]

    def test_one_rank(self):
        events = self.events()
        self.assertEqual(overlaps(events), [])
        names = collections.Counter(event["name"] for event in events if event["ph"] == "X")
        for step in [1, 2, 3]:
            self.assertEqual(names[f"step {step}"], 1)
        self.assertEqual(names["first"], 3)
        self.assertEqual(names["next"], 9)
        self.assertEqual(names["update"], 3)

    def test_a_pipeline(self):
        plan = self.folder / "plan.json"
        plan.write_text(PIPELINE)
        events = self.events("-n", "4", "--plan", str(plan))
        self.assertEqual(overlaps(events), [])
        processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(processes, {0: "rank 0 (data 0, pipe 0)", 1: "rank 1 (data 0, pipe 1)",
                                     2: "rank 2 (data 1, pipe 0)", 3: "rank 3 (data 1, pipe 1)"})
        # Every message leaves one rank before it arrives at another.
        leaves = {event["id"]: event for event in events if event["ph"] == "s"}
        arrives = {event["id"]: event for event in events if event["ph"] == "f"}
        # Activations and their gradients of 4 microbatches, and the tied head's gradient, in 2 replicas and 3 steps;
        # one activation is for the evaluation after the last.
        self.assertGreaterEqual(len(leaves), 2 * 3 * 8)
        self.assertEqual(sorted(leaves), sorted(arrives))
        for number, event in leaves.items():
            self.assertEqual({event["pid"], arrives[number]["pid"]} in [{0, 1}, {2, 3}], True)
            self.assertLess(event["ts"], arrives[number]["ts"])
        runs = collections.Counter((event["pid"], event["name"]) for event in events if event["ph"] == "X")
        for rank in range(4):
            self.assertEqual(runs[rank, f"next.{rank % 2}.backward"], 9)
            self.assertEqual(runs[rank, "update"], 3)
            self.assertGreater(runs[rank, "all_reduce data"], 0)

    def test_a_file_that_can_not_be_written_is_told_first(self):
        text = self.train("run", "--trace", str(self.folder / "nowhere" / "trace.json"), code=1)
        self.assertIn("can not be written; is its folder there?", text)
        self.assertFalse((self.folder / "run").exists())


if __name__ == "__main__":
    Trace.trireme = sys.argv.pop(1)
    unittest.main()

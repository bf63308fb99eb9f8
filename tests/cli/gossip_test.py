"""Runs whose ranks mix weights at their own pace: their log, their replay and their end, as real processes.

Run by ctest; alone: python3 tests/cli/gossip_test.py build/release/trireme/cli/trireme.
"""

import json
import signal
import sys
import unittest

from training import PlannedTraining, read_metrics

PACED = [{"method": "ad_psgd", "graph": "exponential"}, {"method": "d_psgd", "staleness": 2}]


class Gossip(PlannedTraining):
    settings = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=8",
                "--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0", "--run.checkpoint_every=0",
                "-n", "4"]

    def lines(self, run):
        return [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]

    def test_a_run_and_its_replay_have_the_same_bits(self):
        for exchange in PACED:
            name = exchange["method"]
            plan = self.plan(exchange, algorithm="ring")  # or the means of a link and of shared memory differ by rounding
            uneven = ["--link", "latency=1ms,jitter=5ms", "--slow", "rank=2,factor=3", "--train.eval_every=6"]
            self.train(name, "--train.steps=12", *uneven, *plan)
            log = self.folder / name / "metrics.jsonl"
            self.train(name + "_again", "--train.steps=12", "--replay", str(log), *plan)
            self.assertEqual(self.losses(name), self.losses(name + "_again"))
            self.assertEqual(self.states(name), self.states(name + "_again"))
            steps = read_metrics(self.folder / name)
            self.assertEqual([line["step"] for line in steps], list(range(1, 13)))
            self.assertLess(steps[-1]["loss"], steps[0]["loss"])
            for line in steps:
                self.assertIn("waiting_share", line)
                if name == "ad_psgd":
                    self.assertEqual(line["staleness_max"] > 0, line["arrivals"] != [])
                else:
                    self.assertLessEqual(line["staleness_max"], 2)
                self.assertGreaterEqual(line["staleness_max"], line["staleness_mean"])
            for rank in [1, 2, 3]:
                own = [line for line in self.lines(name) if line.get("rank") == rank]
                self.assertEqual([line["step"] for line in own], list(range(1, 14)))
        said = self.train("wrong", "--train.steps=12", "--replay", str(log), *self.plan(PACED[0]), code=1)
        self.assertIn("it is the log of a run with another plan", said)
        said = self.train("none", "--train.steps=12", "--replay", str(log), *self.plan("local"), code=1)
        self.assertIn("the plan has neither", said)

    def test_it_goes_on_from_a_checkpoint(self):
        for exchange in PACED:
            name = exchange["method"] + "_parts"
            for steps in [4, 8]:
                self.train(name, f"--train.steps={steps}", "--run.checkpoint_every=2", *self.plan(exchange))
            self.assertEqual([line["step"] for line in read_metrics(self.folder / name)], list(range(1, 9)))

    def test_a_stop_ends_all_with_a_checkpoint(self):
        for exchange in PACED:
            run = exchange["method"] + "_stopped"
            process = self.start(run, "--train.steps=100000", *self.plan(exchange))
            self.wait_for_steps(run, 3, process)
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, 3, said)
            self.assertTrue(self.states(run))


if __name__ == "__main__":
    Gossip.trireme = sys.argv.pop(1)
    unittest.main()

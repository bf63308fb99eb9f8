"""Runs over links that are emulated, with ranks that go on by themselves, and what their log says.

Run by ctest; alone: python3 tests/cli/exchange_test.py build/release/trireme/cli/trireme.
"""

import json
import re
import signal
import statistics
import subprocess
import sys
import time
import unittest

from training import Training, read_metrics

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=4",
         "--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0", "--run.checkpoint_every=0", "-n", "2"]


class Exchange(Training):
    settings = SMALL

    def plan(self, exchange=None):
        path = self.folder / "plan.json"
        path.write_text(json.dumps({"mesh": "data:2", **({"exchange": exchange} if exchange else {})}))
        return ["--plan", str(path)]

    def median(self, run, what):
        return statistics.median(line[what] for line in read_metrics(self.folder / run)[2:])

    def test_a_link_makes_steps_as_slow_as_it_is(self):
        link = "latency=20ms,bandwidth=100Mbit"
        for transport in ["shm", "tcp"]:
            said = self.train(transport, "--train.steps=8", "--transport", transport, "--link", link, *self.plan())
            self.assertIn(f"transport {transport} as if over a link (latency 20 ms, 100 Mbit/s)", said)
            # Gradients are there and back in two messages at least, and whether to stop is asked in another.
            self.assertGreater(self.median(transport, "step_seconds"), 0.04)
            self.assertLess(self.median(transport, "step_seconds"), 0.4)
        self.assertEqual(self.losses("shm"), self.losses("tcp"))
        self.train("fast", "--train.steps=8", *self.plan())
        self.assertLess(self.median("fast", "step_seconds"), self.median("tcp", "step_seconds"))

    def test_what_is_no_link_is_refused(self):
        self.assertIn("did you mean 'home'", self.train("bad", "--link", "hone", code=2))
        self.assertIn("a number and a unit expected", self.train("bad", "--link", "latency=5", code=2))
        self.assertIn("a rank from 0 to 1", self.train("bad", "--slow", "rank=2,factor=3", *self.plan(), code=1))

    def test_the_log_of_a_method(self):
        self.train("dense", "--train.steps=4", "--link", "office", *self.plan())
        self.train("top_k", "--train.steps=4", "--link", "office", *self.plan({"method": "top_k", "ratio": 0.01}))
        dense, sparse = read_metrics(self.folder / "dense"), read_metrics(self.folder / "top_k")
        self.assertNotIn("compression_ratio", dense[-1])
        self.assertGreater(dense[-1]["bytes_sent"], 0)
        for line in sparse:
            self.assertLess(line["bytes_sent"], dense[-1]["bytes_sent"] / 4)
            self.assertAlmostEqual(line["compression_ratio"], dense[-1]["bytes_sent"] / line["bytes_sent"], delta=0.05)
            self.assertGreater(line["residual_norm"], 0)
            self.assertTrue(0 < line["waiting_share"] < 1)
        self.assertGreater(sparse[3]["residual_norm"], sparse[0]["residual_norm"])

    def test_ranks_that_go_on_by_themselves(self):
        local = self.plan({"method": "local", "steps": 5})
        self.train("local", "--train.steps=20", "--link", "latency=30ms", *local)
        lines = read_metrics(self.folder / "local")
        for line in lines:
            agrees = line["step"] % 5 == 0
            self.assertEqual(line["bytes_sent"] > 0, agrees)
            self.assertEqual(line["comm_seconds"] > 0.02, agrees, line)
        self.assertAlmostEqual(lines[-1]["compression_ratio"], 5, delta=0.05)
        self.assertLess(lines[-1]["loss"], lines[0]["loss"])

    def test_more_clients_than_ranks(self):
        texts = self.folder / "texts"
        texts.mkdir()
        for i, letters in enumerate(("ab", "cd", "ef", "gh", "ij")):
            (texts / f"{i}.txt").write_text(letters * 400)
        # 3 of 5 are drawn for each round: two turns of two steps, and rank 1 has no client in the second one.
        def arguments(clients):
            return ["--data.path", str(texts), "--data.partition=role", "--lr_schedule.kind=constant", "--lr_schedule.warmup_steps=0",
                    *self.plan({"method": "fedavg", "steps": 2, "clients": clients, "fraction": 0.6})]

        self.train("whole", "--train.steps=18", *arguments(5))
        self.train("parts", "--train.steps=7", *arguments(5))  # in the middle of a turn
        self.train("parts", "--train.steps=18", *arguments(5))
        self.assertEqual(self.losses("whole"), self.losses("parts"))
        # Ranks meet at the end of a round.
        sent = [line["step"] for line in read_metrics(self.folder / "whole") if line["bytes_sent"] > 0]
        self.assertEqual(sent, [4, 8, 12, 16])
        self.assertIn("clients = 1", self.train("few", "--train.steps=2", *arguments(1), code=1))

    def test_a_round_may_be_an_epoch(self):
        def losses(run, settings):
            self.train(run, "--train.steps=8", *self.plan({"method": "fedavg", **settings}))
            return self.losses(run)

        # Which is more than so many steps of this text: ranks do not meet before the end.
        by_epochs = losses("epochs", {"epochs": 1})
        self.assertEqual(by_epochs, losses("far", {"steps": 1000}))
        self.assertNotEqual(by_epochs, losses("near", {"steps": 2}))

    def test_such_a_run_is_stopped_where_ranks_meet_and_goes_on_with_the_same_bits(self):
        local = [*self.plan({"method": "diloco", "steps": 6}), "--run.checkpoint_every=4"]
        self.train("whole", "--train.steps=40", *local)
        self.train("parts", "--train.steps=40", *local, "--train.eval_every=7")
        self.assertEqual(self.losses("whole"), self.losses("parts"))  # looking at it changes nothing
        run = subprocess.Popen(self.command("stopped", "--train.steps=40", "--link", "latency=50ms", *local),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        # Not before all have met once: a rank that has not begun has nothing to save.
        metrics = self.folder / "stopped/metrics.jsonl"
        while run.poll() is None and (not metrics.exists() or len(metrics.read_text().splitlines()) < 7):
            time.sleep(0.01)
        run.send_signal(signal.SIGTERM)
        said, _ = run.communicate(timeout=100)
        self.assertEqual(run.returncode, 3, said)
        self.assertEqual(max(self.losses("stopped")) % 6, 0)
        self.train("stopped", "--train.steps=40", *local)
        self.assertEqual(self.losses("stopped"), self.losses("whole"))

    def test_a_slow_rank(self):
        self.train("even", "--train.steps=20", "--model.hidden=128", *self.plan())
        self.train("slow", "--train.steps=20", "--model.hidden=128", *self.plan(), "--slow", "rank=1,factor=10")
        # Rank 0 spends the most of a step in waiting for it.
        waits = [line["comm_seconds"] / line["step_seconds"] for line in read_metrics(self.folder / "slow")]
        self.assertGreater(statistics.median(waits), 0.6)
        self.assertEqual(self.losses("slow"), self.losses("even"))

    def test_the_prediction_names_what_is_fast_over_a_link(self):
        def said(link):
            done = subprocess.run([self.trireme, "inspect", "exchange", "-n", "4", "--model.layers=1", "--model.hidden=64",
                                   "--model.heads=2", "--model.seq=16", "--train.batch=4", "--link", link,
                                   "--step-seconds", "0.01"], capture_output=True, text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        slow, fast = said("home"), said("cluster")
        rows = {row.split("|")[1].split()[0]: row.split("|") for row in slow.splitlines() if row.startswith("| ")}
        for method in ["dense", "top_k", "power_sgd", "local", "diloco", "delayed"]:
            self.assertIn(method, rows)
        self.assertLess(float(rows["local"][7]), float(rows["dense"][7]))
        self.assertRegex(slow, r"the shortest step over this link: (local|fedavg|diloco|ad_psgd)")
        dense = next(row for row in fast.splitlines() if row.startswith("| dense"))
        self.assertAlmostEqual(float(dense.split("|")[7]), 10, delta=1)
        self.assertTrue(re.search(r"Gbit/s \(32n/t\)", slow))


if __name__ == "__main__":
    Training.trireme = sys.argv.pop(1)
    unittest.main()

"""Runs with a server: their log, their replay, and ranks that are killed, as real processes.

Run by ctest; alone: python3 tests/cli/server_test.py build/release/trireme/cli/trireme.
"""

import json
import os
import signal
import sys
import time
import unittest
from pathlib import Path

from training import PlannedTraining, rank_pids, read_metrics

# What a busy machine may take beyond a promised time; see tests/fault/job.py.
SLACK = 0.0 if "TRIREME_STRICT_TIMES" in os.environ else 8.0

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=6",
         "--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0", "--run.checkpoint_every=0", "-n", "4"]


class Server(PlannedTraining):
    settings = SMALL

    def test_a_synchronous_server_is_plain_data_parallelism(self):
        # Whose sums are made in the order of ranks.
        self.settings = SMALL[:-2]
        self.train("plain", "--train.steps=6", "-n", "3", *self.plan(ranks=3, algorithm="naive"))
        self.settings = SMALL
        for transport in ["shm", "tcp"]:
            self.train(transport, "--train.steps=6", "--transport", transport, "--train.eval_every=3",
                       *self.plan("server"))
            self.assertEqual(self.losses(transport), self.losses("plain"))
            self.assertEqual(self.states(transport), self.states("plain"))
        for line in read_metrics(self.folder / "tcp"):
            self.assertEqual(line["staleness_max"], 0)
            self.assertEqual(sorted(line["arrivals"]), [1, 2, 3])
            self.assertTrue(0 < line["waiting_share"] < 1)
            self.assertGreater(line["bytes_sent"], 0)

    def test_several_servers_share_the_states(self):
        unclipped = ["--train.clip_norm=0", "--run.checkpoint_every=4", "--train.eval_every=3"]
        two = [*self.plan({"method": "server", "servers": 2}), *unclipped]
        self.train("whole", "--train.steps=8", *two)
        self.train("parts", "--train.steps=4", *two)
        self.train("parts", "--train.steps=8", *two)
        self.settings = SMALL[:-2]
        self.train("plain", "--train.steps=8", "-n", "2", *self.plan(ranks=2), *unclipped)
        for run in ["whole", "parts"]:
            self.assertEqual(self.losses(run), self.losses("plain"))
            self.assertEqual(self.states(run), self.states("plain"))
        found = [[line for line in (self.folder / run / "metrics.jsonl").read_text().splitlines() if "validation" in line]
                 for run in ["whole", "plain"]]
        self.assertEqual(len(found[0]), 3)
        for served, plain in zip(*map(lambda lines: map(json.loads, lines), found)):
            self.assertAlmostEqual(served["validation_loss"], plain["validation_loss"], places=5)
        self.assertIn("Set train.clip_norm=0", self.train("clipped", "-n", "4", "--train.clip_norm=1",
                                                          *self.plan({"method": "server", "servers": 2}), code=1))

    def test_a_run_and_its_replay_have_the_same_bits(self):
        self.settings = SMALL[:-2]
        for exchange in [{"method": "async_server", "servers": 2}, {"method": "async_server", "stale_rate": True},
                         {"method": "ssp", "staleness": 2}]:
            name = exchange["method"] + str(exchange.get("servers", ""))
            uneven = ["--link", "latency=1ms,jitter=5ms", "--slow", "rank=2,factor=3"]
            ranks = 3 + exchange.get("servers", 1)  # of two workers, the slow one may come too late for all steps
            run = ["-n", str(ranks), "--train.steps=12", *self.plan(exchange, ranks=ranks),
                   *(["--train.clip_norm=0"] if "servers" in exchange else [])]
            self.train(name, *run, *uneven)
            log = self.folder / name / "metrics.jsonl"
            self.train(name + "_again", *run, "--replay", str(log))
            self.assertEqual(self.losses(name), self.losses(name + "_again"))
            self.assertEqual(self.states(name), self.states(name + "_again"))
            lines = read_metrics(self.folder / name)
            self.assertGreater(max(line["staleness_max"] for line in lines), 0)
            self.assertLess(lines[-1]["loss"], lines[0]["loss"])
        self.settings = SMALL
        said = self.train("wrong", "--train.steps=12", "--replay", str(log), *self.plan("server"), code=1)
        self.assertIn("it is the log of a run with another plan", said)
        said = self.train("none", "--train.steps=2", "--replay", str(log), *self.plan(), code=1)
        self.assertIn("the plan has neither", said)

    def test_it_goes_on_from_a_checkpoint(self):
        server = [*self.plan("server"), "--run.checkpoint_every=5"]
        self.train("whole", "--train.steps=10", *server)
        self.train("parts", "--train.steps=5", *server)
        self.train("parts", "--train.steps=10", *server)
        self.assertEqual(self.losses("whole"), self.losses("parts"))
        self.assertEqual(self.states("whole"), self.states("parts"))

    def test_a_stop_ends_all_with_a_checkpoint(self):
        process = self.start("stopped", "--train.steps=100000", *self.plan("async_server"))
        self.wait_for_steps("stopped", 3, process)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 3, said)
        self.assertTrue(self.states("stopped"))

    def test_workers_that_are_killed_are_done_without(self):
        for exchange in ["async_server", {"method": "ssp", "staleness": 2}, "server"]:
            run = exchange if isinstance(exchange, str) else exchange["method"]
            steps = 60
            process = self.start(run, f"--train.steps={steps}", "--transport", "tcp", "--link", "latency=2ms",
                                 *self.plan(exchange))
            self.wait_for_steps(run, 3, process)
            os.kill(rank_pids(process.pid)[2], signal.SIGKILL)
            said = process.communicate(timeout=120)[0]
            self.assertEqual(process.returncode, 0, said)
            self.assertIn("rank 2 was killed by signal 9", said)
            self.assertIn("rank 2 is lost, 2 of 3 workers go on", said)
            lines = read_metrics(self.folder / run)
            self.assertEqual([line["step"] for line in lines], list(range(1, steps + 1)))
            arrivals = [rank for line in lines for rank in line["arrivals"]]
            self.assertEqual(arrivals.count(-2), 1)
            self.assertNotIn(2, arrivals[arrivals.index(-2):])
            self.assertTrue(self.states(run))
            if run != "async_server":
                continue
            # What is made again has no dead worker, and the same bits.
            self.train(run + "_again", f"--train.steps={steps}", "--replay", str(self.folder / run / "metrics.jsonl"),
                       *self.plan(exchange))
            self.assertEqual(self.losses(run), self.losses(run + "_again"))
            self.assertEqual(self.states(run), self.states(run + "_again"))

    def test_workers_that_are_stopped_are_done_without(self):
        for exchange in ["async_server", "server"]:
            run = "stopped_" + exchange
            process = self.start(run, "--train.steps=60", "--transport", "tcp", "--link", "latency=2ms",
                                 "--timeout", "4", *self.plan(exchange))
            self.wait_for_steps(run, 3, process)
            os.kill(rank_pids(process.pid)[2], signal.SIGSTOP)
            said = process.communicate(timeout=120)[0]
            self.assertEqual(process.returncode, 0, said)
            self.assertIn("rank 2 is lost, 2 of 3 workers go on: ", said)
            self.assertIn("rank 0 does without rank 2", said)
            self.assertIn("rank 2 did not end within 5 s after the others: killed", said)
            self.assertEqual(len(self.losses(run)), 60)
            self.assertTrue(self.states(run))

    def test_a_worker_that_is_stopped_at_the_end_costs_no_checkpoint(self):
        process = self.start("end", "--train.steps=1000000", "--transport", "tcp", "--timeout", "6",
                             *self.plan("async_server"))
        self.wait_for_steps("end", 3, process)
        pids = rank_pids(process.pid)
        os.kill(pids[2], signal.SIGSTOP)
        os.kill(pids[0], signal.SIGTERM)
        said = process.communicate(timeout=120)[0]
        self.assertIn(process.returncode, [1, 3], said)
        self.assertTrue(self.states("end"))

    def test_a_worker_that_is_asked_to_stop_stops_the_run(self):
        for exchange, more in [("async_server", []), ("server", []),
                               ({"method": "server", "servers": 2}, ["--train.clip_norm=0"])]:
            run = f"asked_{len(os.listdir(self.folder))}"
            process = self.start(run, "--train.steps=1000000", *more, *self.plan(exchange))
            self.wait_for_steps(run, 3, process)
            os.kill(rank_pids(process.pid)[3], signal.SIGTERM)
            said = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, 3, said)
            self.assertIn("stopped after step", said)
            self.assertTrue(self.states(run))

    def test_a_worker_that_dies_while_ranks_meet_ends_all(self):
        for wait in [0, 0.05, 0.1]:
            begin = time.monotonic()
            process = self.start("meet", "--train.steps=3", "--transport", "tcp", "--timeout", "100",
                                 *self.plan("async_server"))
            while 2 not in (pids := rank_pids(process.pid)):
                pass
            time.sleep(wait)
            os.kill(pids[2], signal.SIGKILL)
            said = process.communicate(timeout=200)[0]
            self.assertLess(time.monotonic() - begin, 13 + SLACK, said)
            self.assertNotIn("firewall", said)
            self.assertIn("rank 2 was killed by signal 9", said)

    def test_without_any_worker_it_ends(self):
        process = self.start("all", "--train.steps=100000", "--transport", "tcp", *self.plan("async_server"))
        self.wait_for_steps("all", 3, process)
        for rank, pid in rank_pids(process.pid).items():
            if rank > 0:
                os.kill(pid, signal.SIGKILL)
        said = process.communicate(timeout=60)[0]
        self.assertNotEqual(process.returncode, 0, said)
        self.assertIn("all workers are lost", said)

    def test_a_dead_server_ends_all_and_is_named(self):
        for transport in ["tcp", "shm"]:
            run = f"dead_{transport}"
            process = self.start(run, "--train.steps=100000", "--transport", transport, *self.plan("async_server"))
            self.wait_for_steps(run, 3, process)
            pids = rank_pids(process.pid)
            begin = time.monotonic()
            os.kill(pids[0], signal.SIGKILL)
            while any(Path(f"/proc/{pid}").exists() for rank, pid in pids.items() if rank > 0):
                self.assertLess(time.monotonic() - begin, 2 + SLACK, "a worker goes on without its server")
                time.sleep(0.01)
            said = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, 128 + signal.SIGKILL, said)
            self.assertIn("rank 0 was killed by signal 9", said)
            self.assertRegex(said, r"\[rank [123]\] .*rank 0")


if __name__ == "__main__":
    Server.trireme = sys.argv.pop(1)
    unittest.main()

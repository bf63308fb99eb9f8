"""What a run leaves in its folder beside its numbers: docs/run_folder.md.

Run by ctest; alone: python3 tests/cli/run_folder_test.py build/release/trireme/cli/trireme.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from training import Training, read_metrics

PAGE = Path(__file__).resolve().parents[2] / "docs/run_folder.md"
SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=16", "--model.seq=8", "--train.batch=4", "--train.threads=1",
         "--run.sample_tokens=0", "--train.eval_every=0", "--run.checkpoint_every=0"]


def fields_in_page():
    """Names in backquotes in the first column of the page's tables."""
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), flags=re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


class RunFolder(Training):
    settings = SMALL

    def lines(self, run, name):
        return [json.loads(line) for line in (self.folder / run / name).read_text().splitlines()]

    def events(self, run):
        return self.lines(run, "events.jsonl")

    def kinds(self, run):
        return [event["event"] for event in self.events(run) if event["event"] != "note"]

    def about(self, run):
        return json.loads((self.folder / run / "run.json").read_text())

    def test_a_run_and_its_continuation(self):
        begin = time.time()
        self.train("run", "--train.steps=4")
        about = self.about("run")
        self.assertEqual((about["format"], about["ranks"], about["steps"], about["steps_before"], about["unit"]), (1, 1, 4, 0, "tokens"))
        self.assertEqual(about["host"], os.uname().nodename)
        self.assertEqual(about["machine"]["cores"], len(os.sched_getaffinity(0)))
        metrics = read_metrics(self.folder / "run")
        # Memory by kind is all of the memory that was planned.
        self.assertEqual(sum(about["memory"].values()), metrics[0]["peak_bytes"])
        self.assertEqual(about["memory"]["optimizer"], 2 * about["memory"]["parameter"])  # two moments
        times = [line["time"] for line in metrics]
        self.assertEqual(times, sorted(times))
        self.assertTrue(begin - 1 < times[0] and times[-1] < time.time() + 1)
        for line in metrics:
            share = about["flops_per_step"] / line["step_seconds"] / about["peak_flops"]
            self.assertAlmostEqual(line["mfu"] / share, 1, places=5)
        self.assertEqual(self.kinds("run"), ["start", "checkpoint", "end"])
        start, checkpoint, end = self.events("run")
        self.assertEqual((start["step"], start["pid"]), (0, about["pid"]))
        self.assertEqual((checkpoint["step"], checkpoint["checkpoint"]), (4, "step-00000004"))
        self.assertEqual((end["step"], end["end"], end["exit_code"]), (4, "finished", 0))
        self.train("run", "--train.steps=6")
        self.assertEqual(self.kinds("run"), ["start", "checkpoint", "end", "resume", "checkpoint", "end"])
        self.assertEqual([event["step"] for event in self.events("run") if event["event"] == "resume"], [4])
        self.assertTrue(any("resumes from" in event.get("text", "") for event in self.events("run")))
        self.assertEqual(self.about("run")["steps_before"], 4)
        self.assertFalse((self.folder / "run/ranks").exists())

    def test_the_timeline_of_a_step(self):
        self.train("run", "-n", "2", "--train.steps=4", "--run.timeline_step=3")
        metrics = read_metrics(self.folder / "run")
        begins = []
        for rank in range(2):
            timeline = json.loads((self.folder / f"run/timeline/{rank}.json").read_text())
            self.assertEqual((timeline["format"], timeline["step"], timeline["ranks"][0]["rank"]), (1, 3, rank))
            events, end = timeline["ranks"][0]["events"], timeline["begin"] + timeline["seconds"]
            for event in events:
                self.assertTrue(timeline["begin"] <= event["begin"] <= event["end"] <= end, event)
            kinds = {event["kind"] for event in events}
            self.assertTrue({"gradients", "update", "collective", "wait"} <= kinds, kinds)
            # Those of this step alone, and nearly all of its time has a name.
            self.assertEqual(sum(event["kind"] == "update" for event in events), 1)
            begins.append(timeline["begin"])
            if rank == 0:
                self.assertLessEqual(timeline["seconds"], metrics[2]["step_seconds"] * 1.5 + 0.01)
        # One clock: both began the same step, within a step's time.
        self.assertLess(abs(begins[0] - begins[1]), 1)
        self.train("none", "--train.steps=4", "--run.timeline_step=0")
        self.assertFalse((self.folder / "none/timeline").exists())
        # A resumed run counts from where it resumes.
        self.train("run", "-n", "2", "--train.steps=8", "--run.timeline_step=2")
        self.assertEqual(json.loads((self.folder / "run/timeline/1.json").read_text())["step"], 6)

    def test_the_step_as_it_was_simulated(self):
        self.train("run", "-n", "2", "--train.steps=2", "--cluster", "a100")
        timeline = json.loads((self.folder / "run/timeline/simulated.json").read_text())
        metrics = read_metrics(self.folder / "run")
        self.assertAlmostEqual(timeline["seconds"], metrics[0]["predicted_seconds"], places=8)
        self.assertEqual([(rank["rank"], rank["stands_for"]) for rank in timeline["ranks"]], [(0, 2)])
        kinds = {event["kind"] for event in timeline["ranks"][0]["events"]}
        self.assertTrue({"gradients", "update", "collective"} <= kinds, kinds)
        self.assertTrue(all(0 <= event["begin"] <= event["end"] <= timeline["seconds"] + 1e-8 for event in timeline["ranks"][0]["events"]))

    def test_what_the_plan_makes_of_the_model(self):
        plan = self.folder / "plan.json"
        plan.write_text('{"mesh": "pipe:2 data:2", "preset": "zero1", "accumulate": 2}')
        self.train("run", "-n", "4", "--plan", str(plan), "--train.steps=2", "--model.layers=2", "--run.timeline_step=2")
        facts = json.loads((self.folder / "run/plan_facts.json").read_text())
        self.assertEqual(facts["mesh"], [{"axis": "pipe", "size": 2}, {"axis": "data", "size": 2}])
        self.assertEqual([stage["ranks"] for stage in facts["stages"]], [[0, 1], [2, 3]])
        for stage in facts["stages"]:
            header = self.lines("run", f"ranks/{stage['ranks'][0]}.jsonl")[0]
            self.assertEqual(stage["memory"], header["memory"])
            self.assertEqual(stage["peak_bytes"], sum(stage["memory"].values()))
            self.assertGreater(stage["sent_bytes"]["pipe"], 0)
            self.assertGreater(stage["sent_bytes"]["data"], 0)
            # What was promised is what was sent: of messages all, of what is gathered the own half.
            timeline = json.loads((self.folder / f"run/timeline/{stage['ranks'][0]}.json").read_text())
            sent = {}
            for event in timeline["ranks"][0]["events"]:
                sent[event["name"]] = sent.get(event["name"], 0) + event.get("bytes", 0)
            messages = sum(count for name, count in sent.items() if name.startswith("send to"))
            self.assertEqual(stage["sent_bytes"]["pipe"], messages + sent["all_gather pipe"] / 2)
        units = [unit for stage in facts["stages"] for unit in stage["units"]]
        self.assertEqual([unit for unit in units if unit.startswith("h.")], ["h.0", "h.1"])
        blocks = [one for one in facts["parameters"] if one["name"].startswith("h.*")]
        self.assertEqual({tuple(one["stages"]) for one in blocks}, {(0, 1)})
        self.assertEqual(sum(one["count"] for one in blocks), 2 * 12)

    def test_samples_by_step(self):
        self.train("run", "--train.steps=6", "--run.checkpoint_every=2", "--run.sample_every=2", "--run.sample_tokens=5",
                   "--run.save_in_background=false")
        samples = self.lines("run", "samples.jsonl")
        self.assertEqual([sample["step"] for sample in samples], [2, 4, 6])
        self.assertTrue(all(sample["text"] for sample in samples))
        without = self.train("without", "--train.steps=6", "--run.checkpoint_every=2", "--run.save_in_background=false")
        losses = [[line["loss"] for line in read_metrics(self.folder / run)] for run in ["run", "without"]]
        self.assertEqual(*losses)  # samples change nothing
        self.assertNotIn("sample after step", without)

    def test_a_run_that_is_refused(self):
        self.train("none", "--optim.lr=0.1", "--model.heads=3", code=1)
        self.assertFalse((self.folder / "none").exists())
        self.train("run", "--train.steps=2")
        self.train("run", "--train.steps=4", "--model.hidden=32", code=1)
        last = self.events("run")[-1]
        self.assertEqual((last["event"], last["exit_code"]), ("refused", 1))
        self.assertIn("model.hidden", last["text"])
        # What it was is still there, and it can go on.
        self.assertEqual(self.about("run")["steps"], 2)
        self.train("run", "--train.steps=3")
        self.assertEqual(self.kinds("run")[-1], "end")

    def test_a_run_that_is_stopped(self):
        process = subprocess.Popen(self.command("run", "--train.steps=100000"), stdout=subprocess.DEVNULL)
        self.wait_for_steps("run", 3)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 3)
        end = self.events("run")[-1]
        self.assertEqual((end["event"], end["end"], end["exit_code"]), ("end", "stopped", 3))

    def test_a_run_that_is_killed(self):
        process = subprocess.Popen(self.command("run", "--train.steps=100000"), stdout=subprocess.DEVNULL)
        self.wait_for_steps("run", 3)
        process.kill()
        process.wait(timeout=60)
        self.assertEqual(self.kinds("run"), ["start"])
        with (self.folder / "run/events.jsonl").open("a") as log:
            log.write('{"time": 1, "ev')  # as a line that was under way
        self.train("run", "--train.steps=2")
        broken = (self.folder / "run/events.jsonl").read_text().splitlines()
        self.assertEqual(json.loads(broken[2])["event"], "start")  # after the line that broke off

    def test_a_run_that_fails(self):
        said = self.train("run", "--train.steps=50", "--optim.lr=1e30", "--train.max_skipped=1", code=1)
        last = self.events("run")[-1]
        self.assertEqual((last["event"], last["exit_code"]), ("failed", 1))
        self.assertIn(last["text"].split(";")[0][:40], said)

    def test_each_rank_has_its_lines(self):
        self.train("run", "-n", "2", "--train.steps=5")
        self.assertEqual(self.about("run")["ranks"], 2)
        metrics = read_metrics(self.folder / "run")
        for rank in range(2):
            first, *steps = self.lines("run", f"ranks/{rank}.jsonl")
            self.assertEqual((first["rank"], first["step"]), (rank, 0))
            self.assertGreater(first["memory"]["parameter"], 0)
            self.assertEqual([line["step"] for line in steps], [1, 2, 3, 4, 5])
            for line, metric in zip(steps, metrics):
                self.assertLessEqual(line["comm_seconds"], line["seconds"])
                if rank == 0:
                    self.assertEqual((line["seconds"], line["bytes_sent"]), (metric["step_seconds"], metric["bytes_sent"]))
        # A run that goes on has each step once.
        self.train("run", "-n", "2", "--train.steps=7")
        steps = [line["step"] for line in self.lines("run", "ranks/1.jsonl") if "seconds" in line]
        self.assertEqual(steps, [1, 2, 3, 4, 5, 6, 7])

    def test_a_new_start_sets_all_aside(self):
        self.train("run", "-n", "2", "--train.steps=2", "--run.timeline_step=1", "--run.sample_tokens=2")
        self.train("run", "--train.steps=1", "--run.resume=never")
        self.assertEqual(self.kinds("run"), ["start", "checkpoint", "end"])
        self.assertFalse((self.folder / "run/samples.jsonl").exists())
        for name in ["run.json", "events.jsonl", "ranks/1.jsonl", "metrics.jsonl", "samples.jsonl", "plan_facts.json", "timeline/1.json"]:
            self.assertTrue((self.folder / "run/earlier-1" / name).exists(), name)

    def test_the_page_describes_all_fields(self):
        self.train("run", "-n", "2", "--train.steps=2", "--train.eval_every=1", "--run.timeline_step=2", "--run.sample_tokens=2")
        found = set(self.about("run")) | set(self.about("run")["machine"])
        facts = json.loads((self.folder / "run/plan_facts.json").read_text())
        timeline = json.loads((self.folder / "run/timeline/0.json").read_text())
        found |= {key for part in [facts, *facts["mesh"], *facts["stages"], *facts["parameters"]] for key in part}
        found |= {key for part in [timeline, *timeline["ranks"], *timeline["ranks"][0]["events"]] for key in part}
        for name in ["metrics.jsonl", "events.jsonl", "ranks/0.jsonl", "samples.jsonl"]:
            found |= {key for line in self.lines("run", name) for key in line}
        self.assertEqual(found - fields_in_page(), set())

    def wait_for_steps(self, run, steps):
        log = self.folder / run / "metrics.jsonl"
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if log.exists() and len(log.read_text().splitlines()) >= steps:
                return
            time.sleep(0.05)
        self.fail("no steps were made")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        Training.trireme = sys.argv.pop(1)
    unittest.main()

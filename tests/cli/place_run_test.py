"""`trireme place --run` as a person runs it: two classifiers and a language model, trained, measured, placed and run by the
script of examples/workflows; what it says is measured, and what is refused.

Run by ctest; alone: python3 tests/cli/place_run_test.py build/release/trireme/cli/trireme.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from digits import write_mnist
from training import rank_pids, write_words

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "workflows" / "read_and_tell.py"
TRIREME = Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/trireme/cli/trireme").resolve()


def trireme(*arguments, code=0):
    done = subprocess.run([TRIREME, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


class PlaceRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.memory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.memory.cleanup)
        cls.folder = Path(cls.memory.name)
        write_mnist(cls.folder / "mnist")
        write_words(cls.folder / "text.txt")
        cls.runs = cls.folder / "runs"
        done = subprocess.run(
            [sys.executable, SCRIPT, "--trireme", TRIREME, "--mnist", cls.folder / "mnist", "--text", cls.folder / "text.txt",
             "--folder", cls.runs, "--steps", "40", "--requests", "80"], capture_output=True, text=True, timeout=300)
        if "was built without Cbc" in done.stderr:
            raise unittest.SkipTest("built without Cbc")
        assert done.returncode == 0, done.stdout + done.stderr
        cls.said = done.stdout

    def changed(self, old, new):
        """The workflow with something else in it, beside the runs."""
        text = (self.runs / "workflow.toml").read_text()
        self.assertIn(old, text)
        path = self.runs / "changed.toml"
        path.write_text(text.replace(old, new))
        return path

    def test_what_is_measured(self):
        run = json.loads((self.runs / "run.json").read_text())
        simulated, measured = run["simulated"], run["measured"]
        self.assertEqual((run["requests"], run["answered"]), (80, 80))
        self.assertLess(abs(measured["answers_per_second"] / simulated["answers_per_second"] - 1), 0.15)
        # Every image goes to the cloud, as 784 bytes with its number, and what was read of it at the edge, as ten floats.
        self.assertEqual(measured["links"], [{"from": "edge", "to": "cloud", "bytes": 80 * (8 + 784 + 8 + 40)}])
        self.assertEqual(measured["links"], simulated["links"])
        placement = json.loads((self.runs / "placement.json").read_text())
        for cost in "workers", "network", "total":
            self.assertAlmostEqual(measured["dollars_per_hour"][cost], placement["dollars_per_hour"][cost], places=9)
        self.assertRegex(self.said, r"cost, \$/h +[\d.]+ +[\d.]+ +\+0\.0 %")

    def test_answers_are_those_of_eval_and_sample(self):
        answers = [json.loads(line) for line in (self.runs / "answers.jsonl").read_text().splitlines()]
        for run, op in ("small", "glance"), ("large", "look"):
            trireme("eval", self.runs / run, "--predictions", self.folder / "predictions.jsonl")
            predicted = [json.loads(line)["predicted"]
                         for line in (self.folder / "predictions.jsonl").read_text().splitlines()]
            self.assertEqual([answer[op] for answer in answers], [predicted[i % 60] for i in range(80)])
        for answer in answers[:2]:
            prompt = f"{answer['glance']} {answer['look']}"
            text = trireme("sample", self.runs / "words", "--prompt", prompt, "--tokens", 8, "--temperature", 0)
            self.assertIn(prompt + answer["tell"], text)

    def test_a_worker_that_dies(self):
        process = subprocess.Popen(
            [TRIREME, "place", self.runs / "workflow.toml", "--run", "--requests", "400", "--placement",
             self.runs / "placement.json"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.kill)
        end = time.monotonic() + 30
        while 1 not in (ranks := rank_pids(process.pid)):
            self.assertLess(time.monotonic(), end)
            self.assertIsNone(process.poll(), process.stdout.read() if process.poll() is not None else "")
            time.sleep(0.01)
        time.sleep(3)  # of ten
        os.kill(ranks[1], signal.SIGKILL)
        said = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 1, said)
        self.assertIn("rank 1 was killed by signal 9 (Killed); the others go on", said)
        self.assertRegex(said, r"the run ended after \d+ of 400 requests: lost worker box(/0)? \(rank 1\), which runs glance")
        self.assertRegex(said, r"\n\d+ of 400 requests: [\d.]+ answers/s, latency: median")

    def test_what_is_refused(self):
        missing = self.changed('run = "large"', 'run = "huge"')
        self.assertIn("variant 'large' of op 'look' is of the run", trireme("place", missing, "--run", code=1))
        text = (self.runs / "workflow.toml").read_text()
        mark = re.search(r'run = "large"\nweights = "([^"]+)"', text)[1]
        stale = self.changed(mark, "step-00000039 0123456789abcdef")
        self.assertIn(f"has {mark} now: its figures are older than the run", trireme("place", stale, "--run", code=1))
        silent = self.changed('held_out = "small"\n', "")
        self.assertIn("source 'camera' has nothing to send", trireme("place", silent, "--run", code=1))
        size = self.changed("kilobytes = 0.7734375", "kilobytes = 1")
        self.assertIn("takes images 1x28x28, which are messages of 0.7734375 kilobytes",
                      trireme("place", size, "--run", code=1))
        self.assertIn("--answers and --json are of a run", trireme("place", self.runs / "workflow.toml", "--json", "x", code=2))

    def test_profiles_that_are_refused(self):
        self.assertIn("there is no such folder", trireme("profile", "--inference", self.folder / "none", code=1))
        self.assertIn("writes text; give its variant `tokens`",
                      trireme("profile", "--inference", self.runs / "words", code=1))
        self.assertIn("NAME=FACTOR expected",
                      trireme("profile", "--inference", self.runs / "small", "--worker", "box=fast", code=2))


if __name__ == "__main__":
    unittest.main()

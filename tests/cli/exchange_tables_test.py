"""The tool that makes the tables of docs/exchange_experiments.md: arms are run, kept, not run twice, and put into their places.

Run by ctest; alone: python3 tests/cli/exchange_tables_test.py build/release/trireme/cli/trireme.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "exchange_tables"))
import arms
import plot
import runs
import tables
from training import write_words

SMALL = ("--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=4", "--data.path={text}")
LATE = 1e18


class ExchangeTables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.files = {"text": self.folder / "text.txt", "images": "", "roles": ""}
        write_words(self.files["text"])

    def run_all(self, wanted, until=LATE):
        runs.run_arms(wanted, self.trireme, self.files, sorted(os.sched_getaffinity(0))[:2], self.folder, until)
        return {arm.key: json.loads(runs.path_of(self.folder, arm).read_text())
                for arm in wanted if runs.path_of(self.folder, arm).exists()}

    def test_an_arm_is_run_once_and_a_refused_one_again(self):
        good = arms.train("delay", "dense", SMALL, steps=6, ranks=2)
        bad = arms.train("delay", "unknown", SMALL, {"method": "no_such"}, steps=6, ranks=2)
        results = self.run_all([good, bad])
        self.assertEqual(len(results[good.key]["loss"]), 6)
        self.assertGreater(results[good.key]["validation_loss"], 0)
        self.assertIn("no exchange 'no_such'", results[bad.key]["failed"])
        self.assertTrue(runs.is_done(self.folder, good))
        self.assertFalse(runs.is_done(self.folder, bad))
        longer = arms.train("delay", "dense", SMALL, steps=7, ranks=2)
        self.assertFalse(runs.is_done(self.folder, longer), "another call with the same name")
        self.assertEqual(len(self.run_all([longer], until=0)[longer.key]["loss"]), 6, "none is begun when time is over")

    def test_a_table_stands_between_its_marks(self):
        own = arms.train("delay", "delay gpt, dense", SMALL, steps=6, ranks=2)
        late = arms.train("delay", "delay gpt, 5 with correction", SMALL, {"method": "delayed", "delay": 5}, steps=6, ranks=2)
        results = self.run_all([own, late])
        places = [tables.BEGIN.format(place.__name__) + "old\n" + tables.END.format(place.__name__) for place in tables.PLACES]
        (self.folder / "exchange_experiments.md").write_text("before\n" + "between\n".join(places) + "after\n")
        tables.write(self.folder, results)
        text = (self.folder / "exchange_experiments.md").read_text()
        loss = results[late.key]["validation_loss"]
        self.assertIn(f"| 5 steps |  |  | {loss:.3f} |  |", text)
        self.assertEqual(text.count("old"), len(tables.PLACES) - 1, "what can not be made stays")
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))

    def test_the_prediction_of_a_plan_is_read_from_what_inspect_says(self):
        plan = arms.Arm("links", "x", (), {"method": "local", "steps": 4}, ranks=2).plan()
        (self.folder / "plan.json").write_text(plan)
        words = [word for word in SMALL if "data.path" not in word]
        said = subprocess.run([self.trireme, "inspect", "exchange", "--link", "home", "--step-seconds", "0.5", *words, "--plan",
                               str(self.folder / "plan.json"), "-n", "2"], capture_output=True, text=True, check=True).stdout
        row = next(line for line in said.splitlines() if line.startswith("| the plan's own"))
        self.assertEqual(arms.said_ms(said, "ms a step"), float(row.split("|")[7]))
        self.assertGreater(arms.said_ms(said, "ms a step"), 500)
        self.assertEqual(arms.said_ms(said, "ms computed"), 500)
        self.assertIsNone(arms.said_ms("| exchange | ms a step |\n|---|---|\n", "ms a step"))

    def test_what_the_repository_has_a_place_for(self):
        text = (ROOT / "docs" / "exchange_experiments.md").read_text()
        for place in tables.PLACES:
            self.assertIn(tables.BEGIN.format(place.__name__), text)
        for name, group in arms.GROUPS.items():
            made = group({})
            self.assertEqual(len({arm.key for arm in made}), len(made), name)

    def test_the_first_step_of_a_target(self):
        self.assertEqual(arms.steps_to_target({"loss": [9.0] * 10 + [0.0] * 20}), 17)  # 3 of 10 still high: a mean of 2.7
        self.assertIsNone(arms.steps_to_target({"loss": [9.0] * 30}))

    def test_ticks_are_round(self):
        self.assertEqual(plot.ticks(0, 6), [0, 1, 2, 3, 4, 5, 6])
        self.assertEqual(plot.ticks(2.2, 2.9)[0], 2.2)


if __name__ == "__main__":
    ExchangeTables.trireme = sys.argv.pop(1)
    unittest.main()

"""`trireme reproduce` as a person runs it: all exact entries within their bounds, docs/decks.md as it is made, and what is refused.

Run by ctest; alone: python3 tests/cli/reproduce_test.py build/release/trireme/cli/trireme.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "decks.md"
TRIREME = Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/trireme/cli/trireme").resolve()


class Reproduce(unittest.TestCase):
    def run_command(self, *arguments, code=0):
        done = subprocess.run([TRIREME, "reproduce", *arguments], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_all_numbers_are_within_their_bounds_and_make_the_page(self):
        with tempfile.TemporaryDirectory() as folder:
            result, page = Path(folder) / "result.json", Path(folder) / "decks.md"
            said = self.run_command("--json", str(result), "--markdown", str(page))
            entries = json.loads(result.read_text())
            self.assertEqual(page.read_text(), PAGE.read_text(), "`trireme reproduce --markdown docs/decks.md` writes it anew")
        self.assertEqual({entry["id"][0] for entry in entries}, set("BNMLH"))
        self.assertNotIn("OUTSIDE", said)
        exact = [entry for entry in entries if entry["kind"] == "exact"]
        self.assertRegex(said, r"exact +\d+ within their bounds, 0 outside, \d+ not run\n")
        self.assertGreater(sum(entry["verdict"] == "within" for entry in exact), 40)
        for entry in entries:
            self.assertTrue(entry["command"])
            for figure in entry["figures"]:
                if "difference" in figure:
                    self.assertLessEqual(abs(figure["difference"]), figure["bound"], entry)

    def test_decks_and_entries_are_chosen(self):
        said = self.run_command("b1", "N11")
        self.assertIn("by the master", said)
        self.assertIn("37.5", said)
        self.assertRegex(said, r"exact +2 within their bounds, 0 outside, 0 not run\n$")
        self.assertRegex(self.run_command("M7"), r"measured +0 within their bounds, 0 outside, 1 not run\n$")
        self.assertRegex(self.run_command("--list", "B", "--kind", "simulated"), r"simulated +0 within .* 2 not run\n$")

    def test_corrections_follow_an_arrow(self):
        self.assertRegex(self.run_command("N1"), r"server, 2N +16 → 14 +14 ")

    def test_what_is_refused(self):
        self.assertIn("there is no deck and no entry 'Q9'", self.run_command("Q9", code=1))
        self.assertIn("--full is not supported", self.run_command("--full", code=1))
        self.run_command("--kind", "guessed", code=2)


if __name__ == "__main__":
    unittest.main()

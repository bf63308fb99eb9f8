"""trireme chaos: a few quick drills, what is refused, and what comes of a broken promise.

Run by ctest; alone: python3 tests/cli/chaos_test.py build/release/trireme/cli/trireme. `trireme chaos` runs all drills.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path


class Chaos(unittest.TestCase):
    trireme = "trireme"

    def chaos(self, *arguments, code=0, before=()):
        done = subprocess.run([*before, self.trireme, "chaos", *arguments], capture_output=True, text=True, timeout=280)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_drills_and_their_results_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            text = self.chaos("--transport", "tcp", "--only", "kill-step", "--only", "partition", "--only", "flip-wire",
                              "--seed", "3", "--json", str(path))
            results = json.loads(path.read_text())
        self.assertEqual([(one["drill"], one["kept"], one["seed"]) for one in results],
                         [("kill-step", True, 3), ("partition", True, 3), ("flip-wire", True, 3)])
        for one in results:
            self.assertEqual(len(one["detection_seconds"]), 1)
            self.assertLessEqual(one["detection_seconds"][0], one["detection_limit_seconds"])
            self.assertIn(f"--only {one['drill']} --transport tcp --seed 3", one["command"])
        self.assertIn("all 3 kept; again: trireme chaos --seed 3", text)

    def test_survivors_go_on(self):
        text = self.chaos("--transport", "shm", "--only", "elastic-kill")
        self.assertRegex(text, r"elastic-kill .* goes on +\d+\.\d+ / 1 +\d+\.\d+ / 5 +kept")

    def test_a_disk_and_a_memory_that_fail(self):
        text = self.chaos("--transport", "shm", "--only", "disk-full", "--only", "flip-weight")
        self.assertEqual(text.count("kept\n"), 2, text)

    def test_a_soak_of_a_plan(self):
        text = self.chaos("--transport", "shm", "--only", "elastic-kill", "--plan", "zero3", "--soak", "4")
        self.assertRegex(text, r"elastic-kill .* kept +zero3\n  \d+ losses in \d+ s, steps made again at most [01]\n")
        self.assertRegex(text, r"open files of the launcher: (\d+), at the end \1\n")

    def test_flips_are_put_right_or_named(self):
        text = self.chaos("--transport", "shm", "--only", "flip-number", "--times", "2")
        self.assertRegex(text, r"kept in 2 of 2 drills, \d+ of \d+ faults found")

    def test_a_job_that_can_not_run_breaks_the_promise(self):
        """With the command that repeats it. Data parallelism over three ranks is no plan for two."""
        text = self.chaos("--transport", "shm", "--only", "kill-start", "--plan", '{"mesh": "data:3"}', code=1)
        self.assertIn("BROKEN", text)
        self.assertIn("""again: trireme chaos --only kill-start --transport shm --seed 1 --plan '{"mesh": "data:3"}'""",
                      text)

    def test_the_list(self):
        text = self.chaos("--list")
        self.assertRegex(text, r"(?m)^partition +partition +step +tcp, 2 hosts +3 +named$")
        self.assertNotIn("BROKEN", text)

    def test_refusals(self):
        self.assertIn("did you mean 'kill-step'?", self.chaos("--only", "kil-step", code=1))
        self.assertIn("do not go over shm", self.chaos("--only", "partition", "--transport", "shm", code=1))
        for arguments in (["--transport", "mpi"], ["--hosts", "3"], ["--times", "0"], ["--seconds", "-1"],
                          ["--times", "2", "--seconds", "9"], ["--onyl", "kill-step"]):
            self.chaos(*arguments, code=2)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_hosts_are_for_root(self):
        text = self.chaos("--hosts", "2", "--only", "partition", code=1,
                          before=["setpriv", "--reuid=65534", "--clear-groups"])
        self.assertIn("only root may", text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Chaos.trireme = sys.argv.pop(1)
    unittest.main()

"""Going on from a checkpoint, or not: what changed since, who has the folder, what is kept and what is removed.

Run by ctest; alone: python3 tests/cli/resume_test.py build/release/trireme/cli/trireme.
"""

import json
import subprocess
import sys
import unittest

from training import Training

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=16", "--model.seq=8", "--train.batch=4",
         "--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0", "--run.checkpoint_every=5"]


class Resume(Training):
    settings = SMALL

    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"

    def checkpoints(self):
        return sorted(path.name for path in (self.run_folder / "checkpoints").iterdir())

    def damage(self, step):
        path = self.run_folder / f"checkpoints/step-{step:08}/model.safetensors"
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)

    def files(self):
        """What a run wrote, but not its lock, and not its events, in which refusals are noted too."""
        return {str(path.relative_to(self.run_folder)): path.read_bytes()
                for path in sorted(self.run_folder.rglob("*")) if path.is_file() and path.name not in [".lock", "events.jsonl"]}

    def test_another_seed_is_refused_and_nothing_is_touched(self):
        self.train("run", "--train.steps=5")
        before = self.files()
        text = self.train("run", "--train.steps=8", "--train.seed=2", code=1)
        self.assertIn("train.seed was 1 and is 2", text)
        self.assertIn("run.resume=force", text)
        text = self.train("run", "--train.steps=8", "--model.heads=4", "--optim.lr=0.5", code=1)
        self.assertIn("model.heads was 2 and is 4", text)
        self.assertEqual(self.files(), before)

    def test_other_data_is_refused_unless_forced(self):
        self.train("run", "--train.steps=5")
        before = self.files()
        self.text.write_text(self.text.read_text().replace("keel", "kiel", 1))
        text = self.train("run", "--train.steps=8", code=1)
        self.assertRegex(text, r"training data was \d+ samples of \[8\], XXH64 (\w{16}) and is \d+ samples of \[8\], "
                               r"XXH64 (?!\1)\w{16}")
        self.assertEqual(self.files(), before)
        text = self.train("run", "--train.steps=8", "--run.resume=force")
        self.assertIn("resumed by force: training data was", text)
        self.assertIn("(step 5)", text)
        self.assertEqual(sorted(self.losses("run")), list(range(1, 9)))

    def test_what_may_change_is_told(self):
        self.train("run", "--train.steps=5")
        elsewhere = self.folder / "elsewhere.txt"
        elsewhere.write_text(self.text.read_text())
        text = self.train("run", "--train.steps=8", "--optim.lr=0.001", "--train.threads=2", "--run.checkpoint_every=0",
                          f"--data.path={elsewhere}")
        told = [line for line in text.splitlines() if line.startswith("since ")]
        self.assertEqual([line.split(": ", 1)[1] for line in told],
                         ["train.steps was 5 and is 8", "optim.lr was 0.002 and is 0.001"])
        self.assertIn("(step 5)", text)

    def test_the_state_says_what_the_run_was_made_with(self):
        self.train("run", "--train.steps=5", "--train.seed=3")
        state = json.loads((self.run_folder / "checkpoints/step-00000005/state.json").read_text())
        self.assertEqual(state["made_with"]["train.seed"], "3")
        self.assertEqual(state["made_with"]["model.vocab"], "256")  # what automatic came to
        self.assertRegex(state["made_with"]["training data"], r"^2100 samples of \[8\], XXH64 \w{16}$")
        self.assertNotIn("data.path", state["made_with"])

    def test_a_run_does_not_read_what_it_wrote(self):
        # As `trireme train` in the repository whose text it learns does.
        self.text = self.folder
        (self.folder / "text.txt").write_text("all hands to the oars " * 200)
        self.train("run", "--train.steps=5")
        self.assertIn("(step 5)", self.train("run", "--train.steps=6"))

    def test_never_sets_the_earlier_run_aside(self):
        self.train("run", "--train.steps=5")
        before = self.files()
        text = self.train("run", "--train.steps=3", "--train.seed=2", "--run.resume=never")
        self.assertIn("earlier-1", text)
        self.assertEqual(self.checkpoints(), ["step-00000003"])
        self.assertEqual(sorted(self.losses("run")), [1, 2, 3])
        aside = {name.removeprefix("earlier-1/"): content for name, content in self.files().items()
                 if name.startswith("earlier-1/")}
        self.assertEqual(aside, before)
        # It is a run's folder of its own.
        self.assertIn("(step 5)", self.train("run/earlier-1", "--train.steps=6"))
        self.assertIn("earlier-2", self.train("run", "--train.steps=3", "--run.resume=never"))

    def test_a_folder_in_use_is_refused(self):
        process = subprocess.Popen(self.command("run", "--train.steps=1000000", "--train.log_every=1"),
                                   stdout=subprocess.PIPE, text=True)
        try:
            for line in process.stdout:
                if line.startswith("step 2/"):
                    break
            text = self.train("run", "--train.steps=3", "--run.resume=never", code=1)
            self.assertRegex(text, rf"run is in use by process {process.pid} on \S+; wait for it")
        finally:
            process.kill()
            process.communicate(timeout=60)
        self.train("run", "--train.steps=3", "--run.resume=never")  # a killed one keeps nothing

    def test_damaged_checkpoints_are_removed_before_good_ones(self):
        self.train("run", "--train.steps=10")
        self.damage(10)
        text = self.train("run", "--train.steps=13", "--run.checkpoint_every=0")
        self.assertIn("step-00000010 is damaged", text)
        self.assertEqual(self.checkpoints(), ["step-00000005", "step-00000013"])

    def test_what_a_kill_left_is_cleaned_up(self):
        self.train("run", "--train.steps=5")
        for name in [".outgoing-step-00000002", ".incoming-step-00000004"]:
            (self.run_folder / "checkpoints" / name).mkdir()
            (self.run_folder / "checkpoints" / name / "model.safetensors").write_bytes(b"half of it")
        self.train("run", "--train.steps=5")  # nothing is left to do, and to save
        self.assertEqual(self.checkpoints(), ["step-00000005"])


if __name__ == "__main__":
    Resume.trireme = sys.argv.pop(1)
    unittest.main()

"""Whole runs from Python: the same bits as the command's and C++'s on one rank and on two, callbacks, Ctrl-C, own data."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path

import numpy as np

import trireme as tr
from common import REFERENCE, SECONDS, TRIREME, Folder, arguments, launched, main, run
from points import Points, network, points

MPIRUN = Path(__file__).resolve().parent.parent / "multirank" / "mpirun.sh"
POINTS_RUN = {"train.batch": 32, "train.steps": 40, "optim.lr": 0.01}  # as in reference.cc

INTERRUPTED = """
import sys
import trireme as tr
settings = {settings!r}
try:
    tr.train(settings, {{"train.steps": 1000000}}, ranks=int(sys.argv[1]), stepped=lambda m: print(m.step, flush=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def curve(folder):
    return [(line["step"], line["loss"], line["grad_norm"]) for line in tr.metrics(folder) if "loss" in line]


class Runs(Folder):
    def test_the_bits_are_the_commands(self):
        pipeline = {"mesh": "pipe:2", "schedule": "1f1b", "accumulate": 2}
        for number, (ranks, plan) in enumerate([(0, None), (2, "zero1"), (2, pipeline)]):
            with self.subTest(ranks=ranks, plan=plan):
                ours, theirs = f"ours{number}", f"theirs{number}"
                told = []
                done = tr.train(self.small(ours), ranks=ranks, plan=plan, stepped=lambda m: told.append((m.step, m.loss)))
                start = [] if ranks == 0 else ["-n", str(ranks), "--plan", plan if isinstance(plan, str) else json.dumps(plan)]
                run(TRIREME, "train", *arguments(self.small(theirs)), *start)
                self.assertEqual(curve(ours), curve(theirs))
                self.assertEqual(told, [line[:2] for line in curve(ours)])
                self.assertEqual((done.steps, done.loss, done.end, done.folder), (12, told[-1][1], "finished", ours))

    def test_ranks_of_a_launcher(self):
        script = ("import trireme as tr\n"
                  f"run = tr.train({self.small('joined')!r}, plan='zero1', stepped=lambda m: print(m.step, m.loss))\n"
                  "print(run)")
        first, second = launched(script)
        run(TRIREME, "train", *arguments(self.small("theirs")), "-n", "2", "--plan", "zero1")
        self.assertEqual(curve("joined"), curve("theirs"))
        self.assertIn(f"12 {curve('joined')[-1][1]!r}\n", first)
        self.assertEqual(second, "None\n")

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_ranks_of_mpirun(self):
        Path("joined.py").write_text(
            "import trireme as tr\n"
            f"run = tr.train({self.small('joined')!r}, plan='zero1', stepped=lambda m: print(m.step, m.loss))\n")
        said = run(MPIRUN, "mpirun", 2, sys.executable, "joined.py")
        run(TRIREME, "train", *arguments(self.small("theirs")), "-n", "2", "--plan", "zero1")
        self.assertEqual(curve("joined"), curve("theirs"))
        self.assertEqual(said.count(f"12 {curve('joined')[-1][1]!r}\n"), 1)

    def test_a_model_and_data_of_ones_own(self):
        for ranks in (1, 2):
            run(REFERENCE, "run", ranks, f"cpp{ranks}")
            for name, data in (("arrays", points()), ("samples", Points())):
                with self.subTest(ranks=ranks, data=name):
                    folder = f"{name}{ranks}"
                    tr.train({**POINTS_RUN, "run.dir": folder}, model=network(), data=data, ranks=ranks)
                    self.assertEqual(curve(folder), curve(f"cpp{ranks}"))

    def test_it_resumes_and_validates(self):
        held = {name: array[:50] for name, array in points().items()}
        settings = {**POINTS_RUN, "lr_schedule.decay_steps": 40, "train.eval_every": 20, "run.dir": "run"}
        seen = []
        tr.train({**settings, "train.steps": 20}, model=network(), data=Points(), validation=held, validated=seen.append,
                 saved=seen.append)
        starts = []
        done = tr.train(settings, model=network(), data=Points(), validation=held, started=starts.append)
        self.assertEqual((starts[0].steps_done, starts[0].parameters, done.steps), (20, 3 * 32 + 33 * 2, 40))
        self.assertEqual((seen[0].step, seen[0].targets), (20, 50))
        self.assertIn("step-00000020", seen[-1])
        tr.train({**settings, "run.dir": "whole"}, model=network(), data=points(), validation=held)
        self.assertEqual(curve("run"), curve("whole"))


class Callbacks(Folder):
    def test_true_ends_the_run(self):
        done = tr.train(self.small("run"), stepped=lambda m: m.step == 3)
        self.assertEqual((done.steps, done.end), (3, "stopped"))
        self.assertTrue(Path("run/checkpoints/step-00000003").is_dir())
        # What is merely true is no answer.
        self.assertEqual(tr.train(self.small("other", train__steps=2), stepped=lambda m: 1).end, "finished")

    def test_they_run_where_train_was_called(self):
        threads = set()
        tr.train(self.small("run", train__steps=2), ranks=2, stepped=lambda m: threads.add(threading.get_ident()))
        self.assertEqual(threads, {threading.get_ident()})

    def test_an_exception_comes_out_behind_a_checkpoint(self):
        for ranks in (0, 2):
            steps = []

            def fails(m):
                steps.append(m.step)
                if m.step == 4:
                    raise LookupError("step four")

            folder = f"run{ranks}"
            with self.assertRaisesRegex(LookupError, "step four"):
                tr.train(self.small(folder), ranks=ranks, stepped=fails)
            self.assertEqual(steps, [1, 2, 3, 4])
            self.assertTrue(Path(folder, "checkpoints/step-00000004").is_dir())
            self.assertEqual(tr.train(self.small(folder), ranks=ranks).steps, 12)  # and is resumed

    def test_an_exception_of_the_data_comes_out(self):
        class Bad(Points):
            def sample(self, index, epoch):
                if index == 77:
                    raise OSError("disk gone")
                return super().sample(index, epoch)

        with self.assertRaisesRegex(OSError, "disk gone"):
            tr.train({**POINTS_RUN, "run.dir": "run"}, model=network(), data=Bad())

    def test_ctrl_c(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                script = INTERRUPTED.format(settings=self.small(f"run{ranks}"))
                process = subprocess.Popen([sys.executable, "-c", script, str(ranks)], stdout=subprocess.PIPE, text=True)
                for line in process.stdout:
                    if line == "5\n":
                        process.send_signal(signal.SIGINT)
                        break
                rest = process.stdout.read().split()
                process.stdout.close()
                self.assertEqual(process.wait(timeout=SECONDS), 0)
                self.assertEqual(rest[-1], "interrupted")
                self.assertEqual(len(list(Path(f"run{ranks}/checkpoints").glob("step-*"))), 1)


class Mistakes(Folder):
    def test_errors_have_the_librarys_text(self):
        arrays = points()
        for text, call in [
                ("data.path", lambda: tr.train({"train.steps": 1})),
                ("no such file|cannot|not there|does not exist", lambda: tr.train("nowhere.toml")),
                ("zero1", lambda: tr.train(self.small("a"), ranks=2, plan="zero9")),
                ("3", lambda: tr.train(self.small("a"), ranks=2, plan="data:3")),
                ("data= says nothing", lambda: tr.train(model=network())),
                ("model=", lambda: tr.train(data=arrays)),
                ("no 'class'", lambda: tr.train(model=network(), data={"x": arrays["x"]})),
                ("'class' has 10 samples",
                 lambda: tr.train(model=network(), data={"x": arrays["x"], "class": arrays["class"][:10]})),
                ("samples of \\[2\\] expected",
                 lambda: tr.train(model=network(), data={"x": arrays["x"][:, :1], "class": arrays["class"]})),
                ("DataSet or a dict", lambda: tr.train(model=network(), data=[1, 2])),
        ]:
            with self.subTest(text), self.assertRaisesRegex(tr.Error, text):
                call()
        self.assertFalse(Path("a").exists())

    def test_wrong_samples(self):
        class Bad(Points):
            def sample(self, index, epoch):
                return {"x": np.zeros(3, np.float32), "class": 0}

        with self.assertRaisesRegex(tr.Error, "'x' of sample .* has the shape \\[3\\]"):
            tr.train({**POINTS_RUN, "run.dir": "run"}, model=network(), data=Bad())


if __name__ == "__main__":
    main()

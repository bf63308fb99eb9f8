"""Trouble in the middle of a run: data files that change, disks that are full for a while, signals of every kind.

Run by ctest; alone: python3 tests/cli/trouble_test.py build/release/trireme/cli/trireme.
"""

import os
import pty
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path

from training import Training, rank_pids

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=16", "--model.seq=8", "--train.batch=4",
         "--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0", "--run.checkpoint_every=0"]
ENDLESS = "--train.steps=10000000"


def small_files_only():
    """What a full disk does, to files above some size: no checkpoint fits, metrics do for a while."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))


class Trouble(Training):
    settings = SMALL

    def start(self, *arguments, **options):
        process = subprocess.Popen(self.command("run", *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, **options)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, process, beginning):
        for line in process.stdout:
            if line.startswith(beginning):
                return
        self.fail(f"it ended before it said '{beginning}'")

    def end(self, process, code):
        text = process.stdout.read()
        self.assertEqual(process.wait(timeout=60), code, text)
        return text

    def start_on_tokens(self, *arguments):
        self.text = self.folder / "tokens.bin"
        self.text.write_bytes(struct.pack("<20000H", *random.Random(1).choices(range(50), k=20000)))
        process = self.start(ENDLESS, "--model.vocab=50", *arguments)
        self.wait_for(process, "step 3/")
        return process

    def test_a_token_file_that_is_cut_short(self):
        process = self.start_on_tokens()
        os.truncate(self.text, 2000)
        self.assertRegex(self.end(process, 1), r"tokens\.bin: has 2000 bytes, but had 40000 when it was opened, and byte \d+ is needed")

    def test_ids_beyond_the_vocabulary_on_the_way(self):
        process = self.start_on_tokens()
        with open(self.text, "r+b") as file:
            file.write(struct.pack("<20000H", *[60] * 20000))
        self.assertRegex(self.end(process, 1),
                         r"tokens\.bin: token 60 at position \d+ is outside the vocabulary of 50")

    def test_on_several_ranks_too(self):
        process = self.start_on_tokens("-n", "2")
        os.truncate(self.text, 2000)
        self.assertIn("tokens.bin: has 2000 bytes, but had 40000", self.end(process, 1))

    def test_a_periodic_checkpoint_that_fails_is_tried_again(self):
        process = self.start(ENDLESS, "--run.checkpoint_every=2", preexec_fn=small_files_only)
        self.wait_for(process, "warning: checkpoint ")
        self.wait_for(process, "warning: checkpoint ")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.wait_for(process, "saved ")
        self.wait_for(process, "saved ")
        process.send_signal(signal.SIGTERM)
        self.end(process, 3)
        # Lines for which there was no room either came later.
        losses = self.losses("run")
        self.assertEqual(sorted(losses), list(range(1, len(losses) + 1)))

    def test_the_last_checkpoint_that_fails_is_an_error(self):
        process = self.start("--train.steps=5", "--run.checkpoint_every=2", "--run.save_in_background=false", preexec_fn=small_files_only)
        text = self.end(process, 1)
        self.assertIn("step-00000005 was not written", text.splitlines()[-1])
        # At 2 it is due, at 3 tried again, at 4 due, and 5 is the last.
        warnings = [line for line in text.splitlines() if line.startswith("warning: checkpoint ")]
        self.assertEqual([line.split("Tried again after step ")[1] for line in warnings], ["3", "4", "5"])
        self.assertEqual(sorted(self.losses("run")), [1, 2, 3, 4, 5])

    def test_ranks_try_again_together(self):
        process = self.start(ENDLESS, "-n", "2", "--run.checkpoint_every=2",
                             preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
        self.wait_for(process, "saved ")
        # Only rank 1 has no room; it says why, and rank 0 that another rank does.
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        resource.prlimit(int(children[1]), resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
        self.wait_for(process, "[rank 1] warning: checkpoint ")
        self.wait_for(process, "warning: checkpoint ")
        process.send_signal(signal.SIGTERM)
        self.assertIn("was not written", self.end(process, 1))

    def test_hanging_up_saves_like_terminating(self):
        for ranks in [[], ["-n", "2"]]:
            process = self.start(ENDLESS, *ranks)
            self.wait_for(process, "step 5/")
            process.send_signal(signal.SIGHUP)
            self.assertIn("stopped after step", self.end(process, 3))
            self.assertTrue(list((self.folder / "run/checkpoints").glob("step-*/state.json")))
            shutil.rmtree(self.folder / "run")

    def test_a_run_under_nohup_does_not_hear_it(self):
        process = self.start(ENDLESS, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for(process, "step 5/")
        process.send_signal(signal.SIGHUP)
        for _ in range(50):
            process.stdout.readline()
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.end(process, 3)

    def test_a_terminal_that_goes_away(self):
        for ranks in [[], ["-n", "2"]]:
            pid, terminal = pty.fork()
            if pid == 0:
                os.execv(self.trireme, self.command("run", ENDLESS, *ranks))
            metrics = self.folder / "run/metrics.jsonl"
            seen = b""
            while b"step 5/" not in seen:
                try:
                    seen += os.read(terminal, 4096)
                except OSError:
                    self.fail(f"the run ended before step 5: {seen.decode(errors='replace')}")
            os.close(terminal)
            _, status = os.waitpid(pid, 0)
            self.assertEqual(os.waitstatus_to_exitcode(status), 3)
            self.assertTrue(list((self.folder / "run/checkpoints").glob("step-*/state.json")))
            self.assertTrue(metrics.exists())
            shutil.rmtree(self.folder / "run")

    def test_output_that_nobody_reads(self):
        # What Ctrl-C does to `trireme train | tee log`, and `| head` without it.
        for ranks in [[], ["-n", "2"]]:
            process = self.start(ENDLESS, *ranks)
            self.wait_for(process, "step 5/")
            process.stdout.close()
            log = self.folder / "run/metrics.jsonl"
            steps = log.read_text().count("\n")
            while log.read_text().count("\n") < steps + 500:  # more than a buffer holds
                self.assertIsNone(process.poll(), "it ended")
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), 3)
            self.assertTrue(list((self.folder / "run/checkpoints").glob("step-*/state.json")))
            shutil.rmtree(self.folder / "run")

    def test_output_without_room(self):
        for ranks in [[], ["-n", "2"]]:
            with open("/dev/full", "wb") as full:
                # A sample that is longer than a buffer.
                done = subprocess.run(self.command("run", "--train.steps=5", "--run.sample_tokens=6000", *ranks),
                                      stdout=full, stderr=full, timeout=120)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(len(self.losses("run")), 5)
            shutil.rmtree(self.folder / "run")

    def test_a_second_hangup_does_not_kill_it(self):
        process = self.start(ENDLESS)
        self.wait_for(process, "step 5/")
        for _ in range(3):
            process.send_signal(signal.SIGHUP)
            time.sleep(0.002)
        self.assertIn("stopped after step", self.end(process, 3))

    def test_a_rank_that_is_stopped_and_a_signal(self):
        # The signal wakes it, so that all finish their step and save.
        process = self.start(ENDLESS, "-n", "2")
        self.wait_for(process, "step 5/")
        os.kill(rank_pids(process.pid)[1], signal.SIGSTOP)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        self.assertIn("stopped after step", self.end(process, 3))

    def test_signals_during_set_up_act_at_once(self):
        # A rank whose peer never comes is in set-up for as long as it takes.
        secret = self.folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text("of no use to anybody, but long enough")
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                port = listener.getsockname()[1]
            environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                           "MASTER_PORT": str(port)}
            process = self.start(f"--secret-file={secret}", env=environment)
            for _ in range(200):
                with socket.socket() as caller:
                    if caller.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=10), -number)


if __name__ == "__main__":
    Trouble.trireme = sys.argv.pop(1)
    unittest.main()

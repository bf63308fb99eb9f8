"""Ranks that were started to do different things, and ranks that come apart on the way: refused, with names.

Ranks are started by hand, as torchrun's variables allow, so that each can be given settings of its own.
Run by ctest; alone: python3 tests/cli/agreement_test.py build/release/trireme/cli/trireme.
"""

import os
import random
import secrets
import socket
import struct
import subprocess
import sys
import time
import unittest

from training import Training

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=16", "--model.seq=8", "--train.batch=4",
         "--train.threads=1", "--run.sample_tokens=0", "--train.eval_every=0", "--train.steps=3"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_tokens(path, seed, count=4000):
    """In place, so that who reads the file meanwhile finds it whole."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT), "wb") as file:
        file.write(struct.pack(f"<{count}H", *random.Random(seed).choices(range(50), k=count)))


class Agreement(Training):
    settings = SMALL

    def start(self, *ranks, shared=()):
        """One process for each; a rank is a list of arguments and a dict of variables."""
        secret = self.folder / "secret"
        if not secret.exists():
            secret.touch(mode=0o600)
            secret.write_text(secrets.token_hex(32))
        port = free_port()
        processes = []
        for number, (arguments, variables) in enumerate(ranks):
            environment = {**os.environ, "RANK": str(number), "WORLD_SIZE": str(len(ranks)),
                           "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **variables}
            command = self.command("run", f"--secret-file={secret}", "--timeout=30", *shared, *arguments)
            processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                              stderr=subprocess.STDOUT, text=True))
        return processes

    def finish(self, processes):
        """(exit code, what it said) of each."""
        ends = []
        for process in processes:
            text, _ = process.communicate(timeout=120)
            ends.append((process.returncode, text))
        return ends

    def refusal(self, *ranks, shared=()):
        """What rank 0 says; nothing may have been saved."""
        ends = self.finish(self.start(*ranks, shared=shared))
        for number, (code, text) in enumerate(ends):
            self.assertEqual(code, 1, f"rank {number}: {text}")
        self.assertFalse((self.folder / "run/checkpoints").exists())
        self.assertIn("rank 0 says what differs", ends[1][1])
        return ends[0][1]

    def test_ranks_that_are_alike_train(self):
        other = self.folder / "elsewhere.txt"
        other.write_text(self.text.read_text())
        # What may differ: where the same data lies, threads, and what is shown.
        ends = self.finish(self.start(([], {}), ([f"--data.path={other}", "--train.threads=2", "--train.log_every=5",
                                                  "--run.dir=/nowhere"], {"TRIREME_RUN__SAMPLE_TOKENS": "4"})))
        self.assertEqual([code for code, _ in ends], [0, 0], ends)

    def test_another_setting_by_environment_or_command_line(self):
        text = self.refusal(([], {}), ([], {"TRIREME_OPTIM__LR": "0.01"}))
        self.assertIn("optim.lr is 0.002 on rank 0 (default), 0.01 on rank 1 (environment TRIREME_OPTIM__LR)", text)
        text = self.refusal((["--train.seed=7"], {}), (["--model.dropout=0.5"], {}), (["--train.precision=bf16"], {}),
                            shared=["--train.batch=3"])
        self.assertIn("train.seed is 7 on rank 0 (command line), 1 on ranks 1 and 2 (default)", text)
        self.assertIn("model.dropout is 0.0 on ranks 0 and 2 (default), 0.5 on rank 1 (command line)", text)
        self.assertIn('train.precision is "f32" on ranks 0 and 1 (default), "bf16" on rank 2', text)

    def test_another_plan(self):
        plan = self.folder / "plan.json"
        plan.write_text('{"mesh": "data:2", "preset": "zero1"}')
        text = self.refusal(([], {}), ([f"--plan={plan}"], {}))
        self.assertRegex(text, r"plan is \{.*data.*\} on rank 0, \{.*zero1.*\} on rank 1")

    def test_a_link_on_some_ranks_alone(self):
        for links in [[["--link=office"], []], [[], ["--link=office"]],
                      [["--link=office"], ["--link=office,jitter=1ms"]]]:
            begin = time.monotonic()
            ends = self.finish(self.start(*[(link, {}) for link in links]))
            self.assertLess(time.monotonic() - begin, 25, "they waited for the timeout")
            for code, text in ends:
                self.assertEqual(code, 1, text)
                self.assertIn("--link is not the same on all ranks: ", text)
                self.assertIn("500 us" if links[0] else "not given", text.split("rank 0")[0])
        # The same numbers in other words are the same.
        ends = self.finish(self.start((["--link=office"], {}), (["--link=latency=500us,bandwidth=1Gbit"], {})))
        self.assertEqual([code for code, _ in ends], [0, 0], ends)

    def test_other_data(self):
        other = self.folder / "other.txt"
        other.write_text(self.text.read_text().replace("keel", "kiel", 1))  # of the same size
        text = self.refusal(([], {}), ([f"--data.path={other}"], {}))
        self.assertRegex(text, r"training data is (\d+) samples of \[8\], XXH64 \w{16} on rank 0, \1 samples of \[8\]")
        self.assertNotIn("held-out data", text)

    def come_apart(self, *shared):
        """What the ranks say when rank 1 gets other tokens after a few steps. Its exit code must be 1."""
        # Both ranks compute all rows and look all tokens up, so that what follows differs where tokens do.
        plan = self.folder / "plan.json"
        plan.write_text('{"mesh": "tensor:2", "preset": "megatron", "layouts": {"wte.weight": ""}}')
        files = [self.folder / f"tokens{rank}.bin" for rank in range(2)]
        for file in files:
            write_tokens(file, seed=1)
        processes = self.start(*[([f"--data.path={file}"], {}) for file in files],
                               shared=[f"--plan={plan}", "--model.vocab=50", "--run.checkpoint_every=0", *shared])
        metrics = self.folder / "run/metrics.jsonl"
        for _ in range(1200):
            if metrics.exists() and metrics.read_text().count("\n") >= 7:
                break
            time.sleep(0.05)
        write_tokens(files[1], seed=2)
        ends = self.finish(processes)
        self.assertEqual([code for code, _ in ends], [1, 1], ends)
        self.assertIn("rank 0 says where", ends[1][1])
        self.assertFalse((self.folder / "run/checkpoints").exists())
        return ends[0][1]

    def test_ranks_that_come_apart_are_found_and_named(self):
        text = self.come_apart("--train.steps=1000000", "--train.compare_every=5")
        self.assertRegex(text, r"ranks that should have the same numbers do not, after step \d*[05]: "
                               r"\S+ \(XXH64 \w{16} on rank [01], \w{16} on rank [01]\)")

    def test_steps_are_compared_before_they_are_saved(self):
        self.assertIn("do not, after step 600:", self.come_apart("--train.steps=600", "--train.compare_every=0"))


if __name__ == "__main__":
    Agreement.trireme = sys.argv.pop(1)
    unittest.main()

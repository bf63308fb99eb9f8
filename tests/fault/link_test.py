"""Two "hosts" (network namespaces joined by a cable) and four ranks; the cable is cut during a collective.

Every rank must say so within the timeout + 1 s, and none may hang. Needs the right to make network namespaces:
without it the test is skipped with a word (exit code 77). Run by ctest with --few-cuts; alone, with all:
python3 tests/fault/link_test.py RANK_PROGRAM [unittest arguments]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from job import SLACK

PROGRAM = None
TIMEOUT = 1.0
CUT = ["all_reduce", "all_gather", "broadcast", "reduce_scatter", "reduce", "gather", "scatter", "all_to_all",
       "barrier"]
SPACES = [f"trireme_{os.getpid()}_{side}" for side in "ab"]
HOSTS = ["10.231.77.1", "10.231.77.2"]


def ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True)


def make_hosts():
    for space in SPACES:
        ip("netns", "add", space)
        ip("-n", space, "link", "set", "lo", "up")
    ip("-n", SPACES[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", SPACES[1])
    for space, host in zip(SPACES, HOSTS):
        ip("-n", space, "address", "add", f"{host}/24", "dev", "cable")
        ip("-n", space, "link", "set", "cable", "up")


def remove_hosts():
    for space in SPACES:
        ip("netns", "delete", space, check=False)


class LinkTest(unittest.TestCase):
    def setUp(self):
        self.secret = tempfile.NamedTemporaryFile("w", prefix="trireme_secret")
        self.secret.write("a secret that both of the hosts have been given\n")
        self.secret.flush()
        self.addCleanup(self.secret.close)
        self.addCleanup(remove_hosts)
        make_hosts()
        self.ranks = []

    def start(self, *arguments):
        for rank in range(4):
            variables = os.environ | {"RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": HOSTS[0],
                                      "MASTER_PORT": "29500"}
            output = tempfile.TemporaryFile("w+")
            self.addCleanup(output.close)
            process = subprocess.Popen(
                ["ip", "netns", "exec", SPACES[rank // 2], PROGRAM, "--launcher", "torchrun", "--secret-file",
                 self.secret.name, "--timeout", str(TIMEOUT), *map(str, arguments)],
                stdout=output, stderr=subprocess.STDOUT, env=variables)
            self.addCleanup(self.end, process)
            self.ranks.append((process, output))

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()

    def said(self, rank):
        output = self.ranks[rank][1]
        output.seek(0)
        return output.read()

    def wait_ready(self):
        deadline = time.monotonic() + 40
        while not all("ready" in self.said(rank) for rank in range(4)):
            self.assertLess(time.monotonic(), deadline, "\n".join(self.said(rank) for rank in range(4)))
            time.sleep(0.02)

    def test_two_hosts_use_tcp(self):
        self.start("--iterations", 10, "--algorithm", "hierarchical")
        for process, _ in self.ranks:
            self.assertEqual(process.wait(30), 0, self.said(0))
        self.assertIn("4 ranks on 2 hosts, transport tcp, launched by torchrun's variables", self.said(0))
        results = {re.search("result (.*)", self.said(rank))[1] for rank in range(4)}
        self.assertEqual(len(results), 1)

    def test_cable_is_cut(self):
        for collective in CUT:
            with self.subTest(collective=collective):
                self.ranks = []
                ip("-n", SPACES[0], "link", "set", "cable", "up")
                self.start("--collective", collective, "--count", 100_000, "--endless")
                self.wait_ready()
                time.sleep(0.1)
                ip("-n", SPACES[0], "link", "set", "cable", "down")  # which takes its time on a busy machine
                cut = time.monotonic()
                for rank, (process, _) in enumerate(self.ranks):
                    self.assertEqual(process.wait(TIMEOUT + 20), 1, self.said(rank))
                everything = "\n".join(self.said(rank) for rank in range(4))
                for rank in range(4):
                    error = re.search(r"^error (\S+) (.*)", self.said(rank), re.MULTILINE)
                    self.assertIsNotNone(error, everything)
                    self.assertLessEqual(float(error[1]) - cut, TIMEOUT + 1 + SLACK, everything)
                    self.assertIn(collective, error[2])
                    self.assertRegex(error[2], r"number \d+")


if __name__ == "__main__":
    if "--few-cuts" in sys.argv:
        sys.argv.remove("--few-cuts")
        CUT = ["all_reduce", "broadcast", "barrier"]
    PROGRAM = os.path.abspath(sys.argv[1])
    if shutil.which("ip") is None:
        print("skipped: there is no command ip (package iproute2)")
        sys.exit(77)
    try:
        make_hosts()
    except (OSError, subprocess.CalledProcessError) as error:
        remove_hosts()
        print("skipped: network namespaces are not permitted here:", getattr(error, "stderr", None) or error)
        sys.exit(77)
    remove_hosts()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])

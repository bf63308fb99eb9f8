"""Two "hosts" on this machine: network namespaces, joined by a virtual cable whose two ends let so many bits a second
pass (tc tbf)."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ADDRESSES = ["10.231.78.1", "10.231.78.2"]


def system(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


class TwoHosts:
    """As long as it is entered. Ends the program with 77 where namespaces or tbf are not permitted."""

    def __init__(self, rate):
        self.rate = rate
        self.spaces = [f"trireme_{os.getpid()}_{side}" for side in "ab"]

    def __enter__(self):
        if not (shutil.which("ip") and shutil.which("tc")):
            print("skipped: there are no commands ip and tc (package iproute2)")
            sys.exit(77)
        self.folder = tempfile.TemporaryDirectory()
        self.secret = Path(self.folder.name) / "secret"
        self.secret.touch(mode=0o600)
        self.secret.write_bytes(os.urandom(32).hex().encode())
        try:
            self.make()
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            print("skipped: network namespaces with tc tbf are not permitted here:",
                  getattr(error, "stderr", None) or error)
            sys.exit(77)
        return self

    def __exit__(self, *_):
        for space in self.spaces:
            system("ip", "netns", "delete", space, check=False)
        self.folder.cleanup()

    def make(self):
        """The burst is what tbf lets pass at once after a pause. It is short, so that messages feel the rate as on a
        real cable."""
        for space in self.spaces:
            system("ip", "netns", "add", space)
            system("ip", "-n", space, "link", "set", "lo", "up")
        system("ip", "-n", self.spaces[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns",
               self.spaces[1])
        for space, address in zip(self.spaces, ADDRESSES):
            system("ip", "-n", space, "address", "add", f"{address}/24", "dev", "cable")
            system("ip", "-n", space, "link", "set", "cable", "up")
            system("tc", "-n", space, "qdisc", "add", "dev", "cable", "root", "tbf", "rate", self.rate, "burst", "8kb",
                   "limit", "4mb")

    def run(self, ranks, *command):
        """What rank 0 said to a command of trireme; the first half of the ranks are on one host, the others on the
        other. Throws RuntimeError when a rank fails."""
        processes = []
        for rank in range(ranks):
            variables = os.environ | {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": ADDRESSES[0],
                                      "MASTER_PORT": "29500"}
            whole = ["ip", "netns", "exec", self.spaces[rank * 2 // ranks], *command, "--launcher", "torchrun",
                     "--secret-file", self.secret]
            processes.append(subprocess.Popen([str(part) for part in whole], stdout=subprocess.PIPE,
                                              stderr=subprocess.STDOUT, text=True, env=variables))
        try:
            said = [process.communicate(timeout=300)[0] for process in processes]
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        if any(process.returncode != 0 for process in processes):
            raise RuntimeError("a rank failed:\n" + "\n".join(said))
        return said[0]

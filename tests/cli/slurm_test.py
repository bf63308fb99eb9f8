"""Ranks that a real Slurm starts: slurmctld, slurmd and munged of this test's own, on this machine.

A job of four ranks runs to its end; one that meets its time limit saves, goes back into the queue and resumes
(examples/slurm/train.sbatch). Skipped with a word where Slurm or the right to run it is missing.
Run by ctest; alone: python3 tests/cli/slurm_test.py build/release/trireme/cli/trireme.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

from checkpoint_files import read_checkpoint
from training import Training

PROGRAMS = ["slurmctld", "slurmd", "srun", "sbatch", "scontrol", "munged"]
SBATCH = Path(__file__).resolve().parents[2] / "examples/slurm/train.sbatch"
SECONDS = 120

CONFIG = """ClusterName=trireme
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/linear
SlurmdParameters=config_overrides
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=here Nodes={host} Default=YES State=UP
"""


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Slurm(Training):
    settings = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=8",
                "--train.threads=1", "--model.dropout=0.1", "--run.sample_tokens=0", "--train.eval_every=0",
                "--train.log_every=1000"]

    def setUp(self):
        super().setUp()
        self.log = open(self.folder / "daemons.txt", "w+", encoding="utf-8")
        self.addCleanup(self.log.close)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        config = self.folder / "slurm.conf"
        config.write_text(CONFIG.format(host=socket.gethostname().split(".")[0], folder=self.folder, ports=free_ports(2)))
        os.chmod(self.folder, 0o755)  # munged refuses a socket that others can not reach
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        self.variables = {**os.environ, "SLURM_CONF": str(config), "TRIREME": str(Path(self.trireme).resolve())}
        self.daemon("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                    f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/seed",
                    f"--log-file={self.folder}/munged.log")
        self.wait_until("munge", lambda: (self.folder / "munge.socket").exists())
        self.daemon("slurmctld", "-D", "-c")
        self.daemon("slurmd", "-D", "-c")
        self.wait_until("idle node", lambda: "idle" in self.slurm("sinfo", "-h", "-o", "%T"))

    def daemon(self, *command):
        process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, env=self.variables)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    def slurm(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=self.variables, cwd=self.folder)
        return done.stdout + done.stderr

    def wait_until(self, what, condition):
        end = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > end:
                self.log.seek(0)
                self.fail(f"no {what} within {SECONDS} s: {self.log.read()[-3000:]}")
            time.sleep(0.1)

    def submit(self, run, *arguments):
        """The number of the job and the file that it writes to."""
        output = self.folder / f"{run}.txt"
        own = [argument for argument in arguments if argument.startswith("--train.") or argument.startswith("--run.")]
        number = self.slurm("sbatch", "--parsable", "-n", "4", f"--output={output}",
                            *(argument for argument in arguments if argument not in own), str(SBATCH),
                            *self.command(run, *own)[2:]).strip()
        self.assertRegex(number, r"^\d+$")
        return number, output

    def wait_for_end(self, number):
        self.wait_until("end of the job", lambda: not self.slurm("squeue", "-h", "-t", "PD,R,CG", "-j", number).strip())

    def test_four_ranks(self):
        number, output = self.submit("run", "--train.steps=20")
        self.wait_for_end(number)
        text = output.read_text()
        self.assertIn("4 ranks on 1 host, transport shm, launched by srun", text)
        self.assertIn("finished: 20 steps", text)
        self.train("alone", "-n", "4", "--train.steps=20")
        last = "checkpoints/step-00000020"
        self.assertEqual(read_checkpoint(self.folder / "run" / last), read_checkpoint(self.folder / "alone" / last))

    def test_the_time_limit_saves_and_the_queue_resumes(self):
        number, output = self.submit("run", "--time=1", "--signal=TERM@50", "--train.steps=100000000")
        self.wait_until("stop", lambda: output.exists() and "stopped after step" in output.read_text())
        made = int(re.search(r"stopped after step (\d+)", output.read_text())[1])
        saved = self.folder / f"run/checkpoints/step-{made:08}"
        self.assertTrue(saved.exists())
        # Slurm would wait two minutes, until what it gave the ranks to identify themselves has expired.
        self.wait_until("place in the queue", lambda: self.slurm("squeue", "-h", "-o", "%T").strip() == "PENDING")
        self.slurm("scontrol", "update", f"jobid={number}", "starttime=now")
        self.wait_until("resumed run", lambda: f"resumes from {saved}" in output.read_text())
        self.wait_until("step", lambda: max(self.losses("run")) > made)
        self.slurm("scancel", number)
        self.wait_for_end(number)  # it saves, into a folder that is about to go


def missing():
    """Why there is no Slurm to test with."""
    found = [name for name in PROGRAMS if not shutil.which(name)]
    if found:
        return f"{', '.join(found)} not installed (scripts/install_packages.sh --tests)"
    return "" if os.geteuid() == 0 else "only root may run Slurm's daemons"


if __name__ == "__main__":
    if why := missing():
        print("skipped:", why)
        sys.exit(77)
    if len(sys.argv) > 1:
        Slurm.trireme = sys.argv.pop(1)
    unittest.main()

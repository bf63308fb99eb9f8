"""The same job under every launcher: it says what was chosen, and gives the same bits.

Run by ctest; alone: python3 tests/fault/launch_test.py RANK_PROGRAM MPIRUN ("" where there is none)
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

PROGRAM, MPIRUN = None, None
RANKS = 4
JOB = ["--collective", "all_reduce", "--count", "10007", "--iterations", "3", "--timeout", "20"]


def clean_environment(**more):
    """Without the variables of launchers around this test."""
    foreign = re.compile(r"(OMPI_|PMI|SLURM_|TRIREME_|HYDRA_)|^(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_\w+)$")
    environment = {name: value for name, value in os.environ.items() if not foreign.match(name)}
    return environment | more


def run(command, **variables):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment(**variables))
    return done.returncode, done.stdout + done.stderr


def mpirun(ranks):
    version = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True).stdout
    command = [MPIRUN, "-n", str(ranks)]
    if "Open MPI" in version or "OpenRTE" in version:
        command += ["--oversubscribe"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])
    return command


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class LaunchTest(unittest.TestCase):
    def results(self, output):
        return re.findall(r"result ([0-9a-f]{16})", output)

    def check(self, code, output, summary):
        self.assertEqual(code, 0, output)
        self.assertIn(summary, output)
        results = self.results(output)
        self.assertEqual(len(results), RANKS, output)
        self.assertEqual(len(set(results)), 1, output)
        return results[0]

    def secret(self):
        file = tempfile.NamedTemporaryFile("w", prefix="trireme_secret")
        file.write("a secret that is long enough for anybody who asks\n")
        file.flush()
        self.addCleanup(file.close)
        return file.name

    def torchrun(self, *arguments, secrets=(None,) * RANKS):
        """What torchrun does: variables for each rank. `secrets`: TRIREME_SECRET of each."""
        port = str(free_port())
        ranks = [subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=clean_environment(RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(RANKS),
                                                        MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                                                        **({"TRIREME_SECRET": secret} if secret else {})))
                 for r, secret in enumerate(secrets)]
        outputs = [rank.communicate(timeout=60)[0] for rank in ranks]
        return max(rank.returncode for rank in ranks), "".join(outputs)

    def test_same_bits_everywhere(self):
        for algorithm in ["ring", "tree", "reduce_scatter_gather"]:
            with self.subTest(algorithm=algorithm):
                job = [*JOB, "--algorithm", algorithm]
                found = set()
                for transport in ["shm", "tcp"]:
                    local = [PROGRAM, "-n", str(RANKS), "--transport", transport, *job]
                    found.add(self.check(*run(local),
                                         f"4 ranks on 1 host, transport {transport}, launched by trireme -n"))
                    found.add(self.check(*self.torchrun("--transport", transport, "--secret-file", self.secret(), *job),
                                         f"transport {transport}, launched by torchrun's variables"))
                for transport in ["mpi", "shm", "tcp"] if MPIRUN else []:
                    found.add(self.check(*run([*mpirun(RANKS), PROGRAM, "--transport", transport, *job]),
                                         f"4 ranks on 1 host, transport {transport}, launched by mpirun ("))
                self.assertEqual(len(found), 1, found)

    def test_default_transport_is_shm(self):
        self.check(*run([PROGRAM, "-n", str(RANKS), *JOB]), "transport shm, launched by trireme -n")
        if MPIRUN:
            self.check(*run([*mpirun(RANKS), PROGRAM, *JOB]), "transport shm, launched by mpirun (")

    def test_every_collective_on_mpi(self):
        if not MPIRUN:
            self.skipTest("no mpirun")
        for collective in ["all_reduce", "all_gather", "broadcast", "reduce", "gather", "scatter", "reduce_scatter",
                           "all_to_all", "barrier", "message"]:
            with self.subTest(collective=collective):
                job = ["--collective", collective, "--count", "1001", "--iterations", "3"]
                code, output = run([*mpirun(RANKS), PROGRAM, "--transport", "mpi", "--timeout", "20", *job])
                self.assertEqual(code, 0, output)
                if collective in ("reduce", "reduce_scatter"):  # what is not the result is left undefined
                    continue
                local = run([PROGRAM, "-n", str(RANKS), *job])[1]
                if collective == "all_reduce":  # MPI's own way has its own order of additions
                    self.assertEqual(len(set(self.results(output))), 1, output)
                elif collective == "gather":  # only the root's
                    self.assertEqual(len(self.results(output)), RANKS, output)
                else:
                    self.assertEqual(sorted(self.results(output)), sorted(self.results(local)), output + local)

    def test_ranks_at_odds_on_mpi(self):
        if not MPIRUN:
            self.skipTest("no mpirun")
        for odd in [["--odd-count", "999"], ["--odd-dtype", "i32"], ["--odd-collective", "broadcast"]]:
            for algorithm in ["ring", "native"]:
                with self.subTest(odd=odd, algorithm=algorithm):
                    code, output = run([*mpirun(RANKS), PROGRAM, "--transport", "mpi", "--timeout", "10", "--odd-rank",
                                        "1", *odd, "--algorithm", algorithm])
                    self.assertNotEqual(code, 0, output)
                    self.assertIn("all_reduce of 1,000 f32", output)
                    self.assertRegex(output, r"all_reduce of 999 f32|all_reduce of 1,000 i32|broadcast of 1,000 f32")

    def test_launcher_beats_detection(self):
        code, output = run([PROGRAM, "--launcher", "none", *JOB], RANK="1", WORLD_SIZE="4", MASTER_ADDR="127.0.0.1",
                           MASTER_PORT="1")
        self.assertEqual(code, 0, output)
        self.assertEqual(len(self.results(output)), 1)
        code, output = run([PROGRAM, "--launcher", "local", "-n", "2", *JOB], OMPI_COMM_WORLD_RANK="0",
                           OMPI_COMM_WORLD_SIZE="7")
        self.assertEqual(code, 0, output)
        self.assertIn("2 ranks on 1 host, transport shm, launched by trireme -n", output)

    def test_refusals_say_what_to_do(self):
        for arguments, variables, expected in [
                ([], {"RANK": "1"}, "but not WORLD_SIZE, MASTER_ADDR, MASTER_PORT"),
                ([], {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"},
                 "TRIREME_SECRET="),
                (["--launcher", "mpi"], {}, "neither OMPI_COMM_WORLD_RANK"),
                (["-n", "2", "--transport", "mpi"], {}, "mpirun -n 2"),
                (["-n", "2", "--transport", "smh"], {}, "did you mean 'shm'?"),
                (["--transport", "shm"], {}, "-n RANKS starts local ones"),
                (["--timeout", "0"], {}, "--timeout is 0")]:
            with self.subTest(arguments=arguments, variables=variables):
                code, output = run([PROGRAM, *arguments], **variables)
                self.assertEqual(code, 1, output)
                self.assertIn(expected, output)

    def test_secret_in_the_environment(self):
        shared = "a secret that every rank has in its environment"
        for transport in ["shm", "tcp"]:
            self.check(*self.torchrun("--transport", transport, *JOB, secrets=[shared] * RANKS),
                       f"transport {transport}, launched by torchrun's variables")
        odd = [*[shared] * (RANKS - 1), "another secret, as long as it needs to be"]
        code, output = self.torchrun("--timeout", "1", secrets=odd)
        self.assertEqual(code, 1, output)
        self.assertIn("secret", output)
        code, output = self.torchrun(*JOB, secrets=["too short"] * RANKS)
        self.assertEqual(code, 1, output)
        self.assertIn("the environment variable TRIREME_SECRET holds 9 bytes, and a secret needs at least 32", output)

    def test_secret_must_be_the_same(self):
        port = str(free_port())
        ranks = []
        for r in range(2):
            with tempfile.NamedTemporaryFile("w", prefix="trireme_secret", delete=False) as file:
                file.write(f"a secret of rank {r} alone, and long enough too\n")
            self.addCleanup(os.unlink, file.name)
            ranks.append(subprocess.Popen(
                [PROGRAM, "--secret-file", file.name, "--timeout", "1"], stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True,
                env=clean_environment(RANK=str(r), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)))
        for rank in ranks:
            output = rank.communicate(timeout=60)[0]
            self.assertEqual(rank.returncode, 1, output)
            self.assertRegex(output, "secret")


if __name__ == "__main__":
    PROGRAM, MPIRUN = sys.argv[1:3]
    if MPIRUN.endswith("NOTFOUND"):
        MPIRUN = ""
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])

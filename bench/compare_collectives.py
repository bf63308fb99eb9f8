#!/usr/bin/env python3
"""All-reduce of Trireme, Open MPI and gloo on this machine, in turns, and their ratios.

  bench/compare_collectives.py [--ranks 2] [--rounds 3] [--json FILE]

Each round runs every contender once, so that a machine that slows down slows all of them; medians over the
rounds of the median times are compared. A peer that is not installed is left out, with a word. What the machine
itself needs for an exchange of a few bytes between two ranks, and for an all-reduce of ordinary buffers with
nothing around it ("bare"), is measured in the same turns. Everything is
run with the highest priority that is allowed, in sessions of their own: Linux shares processors between
sessions first (autogroup), so that `nice` alone does not help against other sessions.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from compare_torch import cpu_info, find_trireme, has_torch

HERE = Path(__file__).resolve().parent
KI, MI = 1024, 1024 * 1024
SIZES = [8, 64, 512, KI, 4 * KI, 16 * KI, 64 * KI, 256 * KI, MI, 4 * MI, 16 * MI, 64 * MI]
TRIREME = {  # contender: transport and memory
    "shm": ("shm", "shared"),
    "shm ordinary": ("shm", "ordinary"),
    "tcp": ("tcp", "shared"),
}
# Contender, peer, from bytes, to bytes, how many times as fast it is to be with 2 ranks.
TARGETS = [
    ("shm", "mpi", 8, 512, 2),
    ("shm", "mpi", 4 * KI, 256 * KI, 3),
    ("shm", "mpi", MI, 64 * MI, 5),
    ("shm ordinary", "mpi", 8, 512, 2),
    ("shm ordinary", "mpi", 4 * KI, 256 * KI, 3),
    ("shm ordinary", "mpi", MI, 64 * MI, 2.5),
    ("shm", "gloo", 8, KI, 300),
    ("tcp", "gloo", 8, 16 * KI, 20),
    ("tcp", "gloo", MI, 64 * MI, 1.5),
]


def raise_priority():
    """In the child. What is not allowed is left as it is."""
    for action in (lambda: os.setpriority(os.PRIO_PROCESS, 0, -20),
                   lambda: Path("/proc/self/autogroup").write_text("-20")):
        try:
            action()
        except OSError:
            pass


def run(command, environment=None):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600,
                          start_new_session=True, preexec_fn=raise_priority, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        sys.exit(f"compare_collectives: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def rows_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def mpi_contender(folder, ranks, sizes):
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        print("Open MPI is left out: there is no mpicc or no mpirun")
        return None
    program = folder / "mpi_allreduce"
    run(["mpicc", "-O3", "-o", program, HERE / "peers" / "mpi_allreduce.c"])
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    return lambda: rows_of(run(["mpirun", "-n", ranks, program, *sizes], root))


def gloo_contender(ranks, sizes):
    candidates = [os.environ.get("TRIREME_PEER_PYTHON"), sys.executable, "/usr/bin/python3"]
    for python in dict.fromkeys(c for c in candidates if c):
        if has_torch(python):
            return lambda: rows_of(run([python, HERE / "peers" / "gloo_allreduce.py", ranks, *sizes]))
    print("gloo is left out: there is no python3-torch")
    return None


def built(folder, name):
    """A program of two ranks with nothing around it; None where there is no compiler."""
    compiler = shutil.which("cc")
    if not compiler:
        print(f"{name} is left out: there is no cc")
        return None
    run([compiler, "-O3", "-march=native", "-o", folder / name, HERE / "peers" / f"{name}.c"])
    return folder / name


def least_exchange(folder):
    """What times the bare exchange of two ranks, by shared memory and by TCP."""
    program = built(folder, "least_exchange")
    return program and (lambda: rows_of(run([program])))


def bare_contender(folder, ranks, sizes):
    """What times the bare all-reduce of two ranks with ordinary buffers."""
    program = built(folder, "bare_allreduce") if ranks == 2 else None
    return program and (lambda: rows_of(run([program, *sizes])))


def trireme_contender(trireme, folder, ranks, sizes, transport, memory):
    links, result = folder / "links.json", folder / "result.json"
    command = [trireme, "bench", "collectives", "-n", ranks, "--transport", transport, "--memory", memory,
               "--algorithm", "automatic"]
    run([*command, "--sizes", "8", "--calibrate", links])

    def measure():
        run([*command, "--sizes", ",".join(map(str, sizes)), "--links", links, "--seconds", "0.1", "--json", result])
        return json.loads(result.read_text())
    return measure


def medians(runs):
    """Of the rows of all rounds, by size."""
    return [{**rows[0], "median_seconds": statistics.median(row["median_seconds"] for row in rows),
             "p90_seconds": statistics.median(row["p90_seconds"] for row in rows)} for rows in zip(*runs)]


def compare(results, targets):
    """A list of objects, one for each contender, peer and size that has a target."""
    comparisons = []
    for contender, peer, low, high, target in targets:
        if contender not in results or peer not in results:
            continue
        for own, other in zip(results[contender], results[peer]):
            if low <= own["bytes"] <= high:
                comparisons.append({"benchmark": "collective_ratio", "contender": contender, "peer": peer,
                                    "bytes": own["bytes"], "ratio": other["median_seconds"] / own["median_seconds"],
                                    "target": target})
    return comparisons


def least_text(runs):
    """One line: the medians over the rounds."""
    times = {rows[0]["exchange"]: statistics.median(row["median_seconds"] for row in rows) for rows in zip(*runs)}
    return "least exchange of two ranks: " + ", ".join(
        f"{seconds * 1e6:.2f} µs by {name}" for name, seconds in times.items())


def times_table(results):
    lines = [f"{'bytes':>10} " + " ".join(f"{name:>20}" for name in results), f"{'':>10} " + " ".join(
        f"{'median µs':>12} {'p90':>7}" for _ in results)]
    for rows in zip(*results.values()):
        lines.append(f"{rows[0]['bytes']:>10} " + " ".join(
            f"{row['median_seconds'] * 1e6:>12.2f} {row['p90_seconds'] * 1e6:>7.0f}" for row in rows))
    return "\n".join(lines)


def ratios_table(comparisons):
    lines = [f"{'contender':<14} {'against':<8} {'bytes':>10} {'times as fast':>14} {'target':>8}"]
    for row in comparisons:
        verdict = "" if row["ratio"] >= row["target"] else "  below"
        lines.append(f"{row['contender']:<14} {row['peer']:<8} {row['bytes']:>10} {row['ratio']:>14.2f} "
                     f"{row['target']:>8g}{verdict}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trireme", default=None, help="the binary; build/release's, if not said")
    parser.add_argument("--json", help="write times and ratios to this file")
    arguments = parser.parse_args()
    trireme = arguments.trireme or find_trireme(HERE.parent)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        contenders = {label: trireme_contender(trireme, folder, arguments.ranks, SIZES, *where)
                      for label, where in TRIREME.items()}
        contenders["mpi"] = mpi_contender(folder, arguments.ranks, SIZES)
        contenders["bare"] = bare_contender(folder, arguments.ranks, SIZES)
        contenders["gloo"] = gloo_contender(arguments.ranks, SIZES)
        runs = {label: [] for label, measure in contenders.items() if measure}
        least, least_runs = least_exchange(folder), []
        for _ in range(arguments.rounds):
            if least:
                least_runs.append(least())
            for label in runs:
                runs[label].append(contenders[label]())
    results = {label: medians(rounds) for label, rounds in runs.items()}
    comparisons = compare(results, TARGETS)
    print(f"{cpu_info()[0]}, {os.cpu_count()} cores, {platform.system()} {platform.release()}; {arguments.ranks} ranks, "
          f"all-reduce of f32, medians of {arguments.rounds} rounds\n")
    if least_runs:
        print(least_text(least_runs) + "\n")
    print(times_table(results) + "\n\n" + ratios_table(comparisons))
    if arguments.json:
        times = [{**row, "benchmark": "collective", "contender": label, "ranks": arguments.ranks,
                  "cpu": cpu_info()[0]} for label, rows in results.items() for row in rows]
        Path(arguments.json).write_text(json.dumps(times + comparisons, indent=1) + "\n")


if __name__ == "__main__":
    main()

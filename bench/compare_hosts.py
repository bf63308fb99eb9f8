#!/usr/bin/env python3
"""Two "hosts" with two ranks each and a slow link between them: does the hierarchical all-reduce beat the flat
ring by as much as the cost model says?

  bench/compare_hosts.py [--rate 400mbit] [--sizes 64K-16M] [--json FILE]

The hosts are network namespaces, joined by a virtual cable whose two ends let so many bits a second pass (tc tbf).
The links are calibrated, then both algorithms are timed in turns. Ends with 1 when a predicted speed-up is not
within 20% of the measured one, and with 77 where namespaces or tbf are not permitted.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from compare_torch import find_trireme

HERE = Path(__file__).resolve().parent
SPACES = [f"trireme_{os.getpid()}_{side}" for side in "ab"]
HOSTS = ["10.231.78.1", "10.231.78.2"]
RANKS = 4
CLOSE = 1.2


def system(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


def make_hosts(rate):
    """The burst is what tbf lets pass at once after a pause. It is short, so that messages feel the rate as on a
    real cable."""
    for space in SPACES:
        system("ip", "netns", "add", space)
        system("ip", "-n", space, "link", "set", "lo", "up")
    system("ip", "-n", SPACES[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", SPACES[1])
    for space, host in zip(SPACES, HOSTS):
        system("ip", "-n", space, "address", "add", f"{host}/24", "dev", "cable")
        system("ip", "-n", space, "link", "set", "cable", "up")
        system("tc", "-n", space, "qdisc", "add", "dev", "cable", "root", "tbf", "rate", rate, "burst", "8kb",
               "limit", "4mb")


def remove_hosts():
    for space in SPACES:
        system("ip", "netns", "delete", space, check=False)


def run_ranks(trireme, folder, arguments):
    """What rank 0 said. Ranks 0 and 1 are on one host, 2 and 3 on the other."""
    ranks = []
    for rank in range(RANKS):
        variables = os.environ | {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": HOSTS[0],
                                  "MASTER_PORT": "29500"}
        command = ["ip", "netns", "exec", SPACES[rank * 2 // RANKS], trireme, "bench", "collectives", "--launcher",
                   "torchrun", "--secret-file", folder / "secret", *arguments]
        ranks.append(subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, env=variables))
    try:
        said = [process.communicate(timeout=300)[0] for process in ranks]
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
                process.wait()
    if any(process.returncode != 0 for process in ranks):
        sys.exit("compare_hosts: a rank failed:\n" + "\n".join(said))
    return said[0]


def measure(trireme, sizes, seconds):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        secret = folder / "secret"
        secret.touch(mode=0o600)
        secret.write_bytes(os.urandom(32).hex().encode())
        result = folder / "result.json"
        run_ranks(trireme, folder, ["--calibrate", folder / "links.json", "--algorithm", "ring,hierarchical",
                                    "--sizes", sizes, "--seconds", seconds, "--json", result])
        return json.loads(result.read_text())


def compare(rows):
    """One object for each size."""
    by_size = {}
    for row in rows:
        by_size.setdefault(row["bytes"], {})[row["algorithm"]] = row
    comparisons = []
    for size, row in by_size.items():
        ring, levels = row["ring"], row["hierarchical"]
        comparisons.append({"benchmark": "hosts_ratio", "bytes": size,
                            "ring_seconds": ring["median_seconds"], "hierarchical_seconds": levels["median_seconds"],
                            "ring_predicted_seconds": ring["predicted_seconds"],
                            "hierarchical_predicted_seconds": levels["predicted_seconds"],
                            "ratio": ring["median_seconds"] / levels["median_seconds"],
                            "predicted_ratio": ring["predicted_seconds"] / levels["predicted_seconds"]})
    return comparisons


def is_close(row):
    return 1 / CLOSE <= row["predicted_ratio"] / row["ratio"] <= CLOSE


def table(comparisons):
    lines = [f"{'':>10} {'ring ms':>19} {'hierarchical ms':>19} {'times as fast':>19}",
             f"{'bytes':>10} " + " ".join(f"{'measured':>9} {'predicted':>9}" for _ in range(3))]
    for row in comparisons:
        milliseconds = [row[key] * 1e3 for key in ("ring_seconds", "ring_predicted_seconds", "hierarchical_seconds",
                                                   "hierarchical_predicted_seconds")]
        lines.append(f"{row['bytes']:>10} " + " ".join(f"{value:>9.2f}" for value in milliseconds) +
                     f" {row['ratio']:>9.2f} {row['predicted_ratio']:>9.2f}" + ("" if is_close(row) else "  off"))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="400mbit", help="of the link, as tc writes it")
    parser.add_argument("--sizes", default="64K-16M")
    parser.add_argument("--seconds", type=float, default=1, help="of timing for each size and algorithm")
    parser.add_argument("--trireme", default=None, help="the binary; build/release's, if not said")
    parser.add_argument("--json", help="write the comparison to this file")
    arguments = parser.parse_args()
    trireme = arguments.trireme or find_trireme(HERE.parent)
    if not (shutil.which("ip") and shutil.which("tc")):
        print("skipped: there are no commands ip and tc (package iproute2)")
        sys.exit(77)
    try:
        make_hosts(arguments.rate)
    except (OSError, subprocess.CalledProcessError) as error:
        remove_hosts()
        print("skipped: network namespaces with tc tbf are not permitted here:",
              getattr(error, "stderr", None) or error)
        sys.exit(77)
    try:
        rows = measure(trireme, arguments.sizes, arguments.seconds)
    finally:
        remove_hosts()
    comparisons = compare(rows)
    print(f"all-reduce of f32, {RANKS} ranks on 2 hosts with {arguments.rate}/s between them\n\n" + table(comparisons))
    close = sum(map(is_close, comparisons))
    print(f"\n{close} of {len(comparisons)} predicted speed-ups are within 20% of the measured ones.")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(comparisons, indent=1) + "\n")
    sys.exit(close < len(comparisons))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Two "hosts" with several ranks each and a slow link between them: do two levels beat the flat form, a ring, or of an
all_to_all pairs?

  bench/compare_hosts.py [--rate 400mbit] [--ranks 4] [--collectives all_reduce,…] [--sizes 64K-16M] [--rounds 1] [--json FILE]

The hosts are network namespaces (two_hosts.py). The links are calibrated, then both algorithms are timed in turns; of
several rounds the median counts. Ends with 77 where namespaces or tbf are not permitted.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from compare_torch import find_trireme
from two_hosts import TwoHosts

HERE = Path(__file__).resolve().parent
FLAT = {"all_to_all": "naive"}  # else the ring
FIELDS = ("median_seconds", "predicted_seconds")


def measure(hosts, trireme, ranks, collective, sizes, seconds, rounds):
    """Rows of the benchmark, with the medians of the rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = []
        for one in range(rounds):
            result = folder / "result.json"
            calibrate = [] if one else ["--calibrate", folder / "links.json"]
            hosts.run(ranks, trireme, "bench", "collectives", *calibrate, "--collective", collective, "--algorithm",
                      f"{FLAT.get(collective, 'ring')},hierarchical", "--sizes", sizes, "--seconds", seconds, "--json", result)
            runs.append(json.loads(result.read_text()))
    return [{**same[0], **{field: statistics.median(row[field] for row in same if row[field]) for field in FIELDS}}
            for same in zip(*runs)]


def compare(rows, collective):
    """One object for each size."""
    by_size = {}
    for row in rows:
        by_size.setdefault(row["bytes"], {})[row["algorithm"]] = row
    comparisons = []
    for size, row in by_size.items():
        flat, levels = row[FLAT.get(collective, "ring")], row["hierarchical"]
        comparisons.append({"benchmark": "hosts_ratio", "collective": collective, "bytes": size,
                            "flat_seconds": flat["median_seconds"], "hierarchical_seconds": levels["median_seconds"],
                            "flat_predicted_seconds": flat["predicted_seconds"],
                            "hierarchical_predicted_seconds": levels["predicted_seconds"],
                            "ratio": flat["median_seconds"] / levels["median_seconds"],
                            "predicted_ratio": flat["predicted_seconds"] / levels["predicted_seconds"]})
    return comparisons


def table(comparisons):
    lines = [f"{'':>10} {'flat ms':>19} {'hierarchical ms':>19} {'times as fast':>19}",
             f"{'bytes':>10} " + " ".join(f"{'measured':>9} {'predicted':>9}" for _ in range(3))]
    for row in comparisons:
        milliseconds = [row[key] * 1e3 for key in ("flat_seconds", "flat_predicted_seconds", "hierarchical_seconds",
                                                   "hierarchical_predicted_seconds")]
        lines.append(f"{row['bytes']:>10} " + " ".join(f"{value:>9.2f}" for value in milliseconds) +
                     f" {row['ratio']:>9.2f} {row['predicted_ratio']:>9.2f}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="400mbit", help="of the link, as tc writes it")
    parser.add_argument("--ranks", type=int, default=4, help="half of them on each host")
    parser.add_argument("--collectives", default="all_reduce")
    parser.add_argument("--sizes", default="64K-16M")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1, help="of timing for each size and algorithm")
    parser.add_argument("--trireme", default=None, help="the binary; build/release's, if not said")
    parser.add_argument("--json", help="write the comparison to this file")
    arguments = parser.parse_args()
    trireme = arguments.trireme or find_trireme(HERE.parent)
    comparisons = []
    with TwoHosts(arguments.rate) as hosts:
        for collective in arguments.collectives.split(","):
            rows = measure(hosts, trireme, arguments.ranks, collective, arguments.sizes, arguments.seconds,
                           arguments.rounds)
            comparisons += compare(rows, collective)
            print(f"{collective} of f32, {arguments.ranks} ranks on 2 hosts with {arguments.rate}/s between them\n\n"
                  + table(compare(rows, collective)) + "\n", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(comparisons, indent=1) + "\n")


if __name__ == "__main__":
    main()

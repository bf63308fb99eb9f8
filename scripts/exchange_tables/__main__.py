"""Trains with all methods of exchange, ranks on this machine, and makes the tables and plots of docs/exchange_experiments.md. Run from
the repository's root:

    python3 scripts/exchange_tables --data DATA [--cores N] [--only GROUP,…] [--results DIR] [--report] [--seconds S]

DATA has cifar10_jpeg/cifar10_jpeg_src.tar.xz (CIFAR-10 as JPEG, train/<class>/ and test/<class>/),
tinyshakespeare/input.txt and shakespeare_roles/clients.jsonl.xz. Every arm leaves a file in DIR; an arm that has one, of
the same call, is not run again, so that what was stopped goes on. Tables are made of what is there.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import arms
import runs
import tables


def results_in(folder):
    return {path.name.removesuffix(".json"): json.loads(path.read_text()) for path in folder.glob("*.json")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     prog="python3 scripts/exchange_tables")
    parser.add_argument("--trireme", default="build/release/trireme/cli/trireme")
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="arms run beside each other on these")
    parser.add_argument("--only", default=",".join(arms.GROUPS), help="groups of arms: " + ", ".join(arms.GROUPS))
    parser.add_argument("--results", type=Path, default=Path("build/exchange_tables"), help="where the arms' files go")
    parser.add_argument("--seconds", type=float, default=1e9, help="after so long no arm is begun")
    parser.add_argument("--report", action="store_true", help="run nothing; make the tables of what is there")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="folder of exchange_experiments.md and its plots")
    given = parser.parse_args()
    given.results.mkdir(parents=True, exist_ok=True)
    if not given.report:
        if not given.data:
            parser.error("--data is needed to run arms; --report makes tables of what is there")
        if not Path(given.trireme).exists():
            parser.error(f"{given.trireme} is not there; build it, or name another with --trireme")
        run(given)
    tables.write(given.docs, results_in(given.results))


def run(given):
    until = time.monotonic() + given.seconds
    cores = sorted(os.sched_getaffinity(0))[:given.cores]
    # Times want a core that is free for everything else, where there are that many.
    quiet_cores = cores[:-1] if len(cores) > 4 else cores
    names = given.only.split(",")
    if unknown := [name for name in names if name not in arms.GROUPS]:
        sys.exit(f"no group is called {', '.join(unknown)}; there are {', '.join(arms.GROUPS)}")
    files = runs.prepare(given.data, given.results, whole="gpu" in names)
    # What others are made of comes first: rates, how many steps a target takes, and how much a rank computes.
    first = [name for name in names if name in arms.FIRST]
    for group, quiet in ((first, False), (first, True), (names, False), (names, True)):
        known = results_in(given.results)
        for_now = [arm for name in group for arm in arms.GROUPS[name](known) if arm.quiet == quiet]
        runs.run_arms(for_now, given.trireme, files, quiet_cores if quiet else cores, given.results, until)


if __name__ == "__main__":
    main()
